"""The pairs that spaces store for hysteresis and dwell, by key, for an owner who keeps them itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from whimbrel.spaces.dimensions.space_definitions import Key
from whimbrel.spaces.state.space_state import SpaceState


class ChangedPair(NamedTuple):
    """A stored pair that changed: whether the publication is inside now, and when it leaves if it is out."""

    subscription: Key
    publication: Key
    is_inside: bool
    due: float | None


class StoredPairs:
    """The pairs of one object. Nothing is noted before `track` is called."""

    def __init__(self, state: SpaceState) -> None:
        self._state = state
        self._changed: list[ChangedPair] = []

    @property
    def next_due(self) -> float | None:
        """When the next publication leaves because its dwell is over, in seconds; None if none is out."""
        with self._state.lock:
            return self._state.dwell.pairs.next_due

    def track(self) -> None:
        """Start to keep what `take_changed` returns."""
        self._state.dwell.pairs.changed = set()

    def take_changed(self) -> list[ChangedPair]:
        """The pairs that changed since the last call, the last change of each last."""
        with self._state.lock:
            found, self._changed = self._changed, []
            return found

    def of(self, subscription: Key) -> dict[Key, float | None]:
        """The publications inside a subscription with hysteresis or dwell. One that is out has the time it leaves."""
        with self._state.lock:
            number, pairs = self._state.subscriptions.find(subscription), self._state.dwell.pairs
            names = self._state.publications.names
            return {names[each]: due for each, due in (pairs.inside(number) if number in pairs else {}).items()}

    def restore(self, subscription: Key, inside: Mapping[Key, float | None]) -> None:
        """Set which publications are inside a subscription with hysteresis or dwell, as `of` gave them."""
        with self._state.lock:
            number_of = self._state.publications.number_of
            known = {number_of[key]: due for key, due in inside.items() if key in number_of}
            self._state.dwell.restore(self._state.subscriptions.find(subscription), known)
            self.note()

    def note(self) -> None:
        """Keep what a call has changed, while its numbers still have their keys. Called at the end of each call."""
        pairs = self._state.dwell.pairs
        if pairs.changed:
            subscriptions, publications = self._state.names
            for number, publication in pairs.changed:
                inside = pairs.inside(number) if number in pairs else {}
                names = subscriptions[number], publications[publication]
                self._changed.append(ChangedPair(*names, publication in inside, inside.get(publication)))
            pairs.changed.clear()
