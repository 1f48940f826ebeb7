"""What subscriptions ask for beyond their filter: notifications of leaves, hysteresis, dwell.

Hysteresis names, for a subscription, a second one of the same index with a wider filter. A publication enters when it
matches the narrow filter and leaves when it no longer matches the wide one. The wide subscription gets no notifications
of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeAlias

from whimbrel.model.subscription import Id
from whimbrel.publications.dwell import DwellPairs
from whimbrel.publications.transition_table import DELETE, ENTER, LEAVE, Transitions

Key: TypeAlias = int | str
"""The key of a publication."""


@dataclass(frozen=True, slots=True)
class TransitionRules:
    """The options of subscriptions beyond their filters, by id."""

    leave: bool | AbstractSet[Id] = False
    """Who is told of leaves: everyone, nobody, or these."""
    outer: Mapping[Id, Id] | None = None
    """Hysteresis: by subscription, the id of the wider one."""
    dwell: Mapping[Id, float] | None = None
    """By subscription, the seconds that a publication must be out before it leaves."""

    @property
    def remembered(self) -> list[Id]:
        """The subscriptions with hysteresis or dwell."""
        return list(dict.fromkeys([*(self.outer or {}), *(self.dwell or {})]))

    @property
    def silent(self) -> list[Id]:
        """The subscriptions whose matches are no transitions by themselves: remembered ones and their wider filters."""
        return list(dict.fromkeys([*self.remembered, *(self.outer or {}).values()]))

    def tells_leaves(self, id: Id) -> bool:
        """Whether a subscription is told of leaves."""
        return self.leave if isinstance(self.leave, bool) else id in self.leave


class RememberedPairs:
    """The pairs of subscriptions with hysteresis or dwell, and the transitions that follow from new states."""

    def __init__(self, rules: TransitionRules) -> None:
        self._rules = rules
        self._outer: dict[Id, Id] = {}
        self.pairs: DwellPairs[Id, Key] = DwellPairs()
        for id in rules.remembered:
            self.add(id)
        self.now = -float("inf")
        """The latest time that was seen."""

    def add(self, id: Id) -> None:
        """Remember the pairs of a subscription, as the rules say."""
        self._outer[id] = (self._rules.outer or {}).get(id, id)
        self.pairs.add(id, float((self._rules.dwell or {}).get(id, 0)))

    def remove(self, id: Id) -> None:
        """Forget a subscription and its pairs."""
        del self._outer[id]
        self.pairs.remove(id)

    def keep(self, present: Collection[Id]) -> None:
        """Forget the pairs of subscriptions that are not among these; they may come back without them."""
        for id in self._outer.keys() - set(present):
            self.pairs.remove(id)
            self.add(id)

    def __bool__(self) -> bool:
        return bool(self._outer)

    def reset(self, pairs: Iterable[tuple[Id, Key, float | None]], now: float) -> None:
        """Replace all pairs by saved ones (subscription, publication, when it leaves if it is out)."""
        self.pairs = RememberedPairs(self._rules).pairs
        self.pairs.restore(pairs)
        self.now = now

    def update(
        self, key: Key, matched: Collection[Id], now: float, sequence: int | None, transitions: Transitions
    ) -> None:
        """Take a new state of a publication, which matches these subscriptions, and add the transitions."""
        self.now = max(self.now, now)
        touched = [*self.pairs.containing(key), *(id for id in matched if id in self._outer)]
        for id in dict.fromkeys(touched):
            outer = self._outer[id]
            if self.pairs.expire_one(id, key, now):
                self._leave(id, key, None, transitions)
            if id in matched:
                if self.pairs.enter(id, key):
                    transitions.add(key, id, ENTER, sequence)
            elif outer in matched:
                self.pairs.stay(id, key)
            elif self.pairs.exit(id, key, now):
                self._leave(id, key, sequence, transitions)

    def delete(self, key: Key, now: float, sequence: int | None, transitions: Transitions) -> None:
        """Forget a publication that was deleted, and add the transitions. Where its dwell is over, it left before."""
        self.now = max(self.now, now)
        for id in self.pairs.containing(key):
            if self.pairs.expire_one(id, key, now):
                self._leave(id, key, None, transitions)
        for id in self.pairs.delete(key):
            transitions.add(key, id, DELETE, sequence)

    def advance(self, now: float, transitions: Transitions) -> None:
        """Make the publications leave whose dwell is over, and add the transitions."""
        self.now = max(self.now, now)
        for id, key in self.pairs.expire(now):
            self._leave(id, key, None, transitions)

    def _leave(self, id: Id, key: Key, sequence: int | None, transitions: Transitions) -> None:
        if self._rules.tells_leaves(id):
            transitions.add(key, id, LEAVE, sequence)
