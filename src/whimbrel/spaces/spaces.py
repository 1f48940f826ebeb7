"""Subject spaces: publications that stay, subscriptions that stay, and news only of what changes between them.

The model of Leung and Jacobsen (state-persistent publish/subscribe, CASCON 2003), corrected (ALGORITHMS 18-19).
What matches follows from the stored regions; nothing else is stored, but for subscriptions with hysteresis or dwell.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

import numpy as np

from whimbrel.spaces.columns import Columns
from whimbrel.spaces.contents import read_all
from whimbrel.spaces.definitions import Region
from whimbrel.spaces.filters import ALL, Filters, RegionFilter
from whimbrel.spaces.journal import Journal
from whimbrel.spaces.members import Members
from whimbrel.spaces.notices import Collected, Content, Key, Notifications
from whimbrel.spaces.operations import State
from whimbrel.spaces.plain import flatten, restore
from whimbrel.spaces.preparation import Change, Changes, Preparation
from whimbrel.spaces.snapshot import dump_state, load_state
from whimbrel.spaces.sticky import Options

Apply: TypeAlias = Callable[[float, Collected], None]


class SubjectSpaces:
    """Publications and subscriptions as regions of spaces, and who begins or ceases to match whom.

    >>> spaces = SubjectSpaces()
    >>> spaces.define("map", {"x": "number", "y": "number"})
    >>> spaces.subscribe("zone-1", [{"x": "[0, 10)", "y": "[5, inf)"}])
    []
    >>> spaces.publish("taxi-7", [{"x": 3, "y": "[6, 7]"}])
    [Notification(subscription='zone-1', publication='taxi-7', kind='enter', sequence=3)]

    Each call is done whole or, with an error, not at all. Calls from several threads take turns.
    """

    def __init__(self, filters: Mapping[str, RegionFilter] | None = None) -> None:
        self.sequence = 0
        """The number of the last call that changed something."""
        self.last: Notifications
        """The notifications of that call."""
        self._state = State(Filters(filters))
        self._preparation = Preparation(self._state)
        self._moment = -np.inf
        self._journal: Journal | None = None
        self._lock = self._state.lock
        self.last = Collected().finish(self._state.names, 0)

    @classmethod
    def open(cls, path: str | Path, filters: Mapping[str, RegionFilter] | None = None) -> SubjectSpaces:
        """The spaces in a directory, created if there are none. Every call is on disk before it returns.

        After a crash `sequence` and `last` are those of the last call on disk. It is the last that returned, or the one
        that was under way: compare with the last sequence number that you have seen.
        """
        journal = Journal(Path(path))
        try:
            spaces = cls(filters)
            snapshot = journal.snapshot()
            if snapshot is not None:
                spaces.sequence, spaces._moment = load_state(spaces._state, spaces._preparation, *snapshot)
                spaces.last = Collected().finish(spaces._state.names, spaces.sequence)
            for sequence, moment, method, arguments in journal.calls():
                assert sequence == spaces.sequence + 1
                positional, named = restore(arguments[0]), dict(arguments[1])
                getattr(spaces, method)(*positional, **named, **({} if method == "define" else {"now": moment}))
        except BaseException:
            journal.close()
            raise
        spaces._journal = journal
        return spaces

    def close(self) -> None:
        """Let go of the directory; nothing needs to be saved."""
        if self._journal is not None:
            self._journal.close()

    def compact(self) -> None:
        """Replace journal and snapshot by a new snapshot; happens by itself when the journal gets long."""
        with self._lock:
            if self._journal is not None:
                self._journal.replace(self.sequence, *dump_state(self._state, self.sequence, float(self._moment)))

    def __enter__(self) -> SubjectSpaces:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def define(self, space: str, dimensions: Mapping[str, str]) -> None:
        """Define a space: its dimensions and their types (number, integer, string, timestamp).

        A dimension of the same name is the same one in every space, and must not be constrained by a region yet.
        """
        with self._lock:
            self._state.definitions.check(space, dimensions, self._state.constrained())
            self._note("define", [flatten([space, dict(dimensions)]), {}], 0.0)
            self._state.define(space, dimensions)

    def dimensions(self, space: str) -> dict[str, str]:
        """The dimensions of a space and their types; UnknownSpace if there is no such space."""
        return self._state.definitions.dimensions(space)

    def publish(
        self, key: Key, regions: Sequence[Region], *, filter: str = ALL, now: float | None = None
    ) -> Notifications:
        """Add a publication; every subscription that it matches is told that it entered."""
        with self._lock:
            key = self._state.publications.check_new(key)
            self._state.filters.check(filter)
            rows = self._preparation.regions(regions)

            def apply(moment: float, to: Collected) -> None:
                self._state.add_publications([key], rows, [len(regions)], filter, to)

            return self._run("publish", [key, regions], {"filter": filter}, now, apply)

    def publish_many(
        self,
        items: Iterable[tuple[Key, Sequence[Region]]] | Columns,
        *,
        quiet: bool = False,
        now: float | None = None,
    ) -> Notifications:
        """Add many publications in one call; `quiet` looks for no matches and tells nobody."""
        with self._lock:
            kept = items if isinstance(items, Columns) else list(items)
            keys, counts, rows = self._preparation.encode_new(self._state.publications, kept)

            def apply(moment: float, to: Collected) -> None:
                self._state.add_publications(keys, rows, counts, ALL, to, quiet)

            return self._run("publish_many", [kept], {"quiet": quiet}, now, apply)

    def update_publication(self, key: Key, change: Change, *, now: float | None = None) -> Notifications:
        """Change a publication: subscriptions that begin to match it are told, and those that cease to, on request.

        A mapping changes only the dimensions that it names (None removes a constraint) of a publication with one
        region; a list replaces all regions.
        """
        with self._lock:
            number = self._state.publications.find(key)
            new = self._preparation.changed(self._state.publications, number, change)

            def apply(moment: float, to: Collected) -> None:
                self._state.change_publication(number, new, moment, to)

            return self._run("update_publication", [key, change], {}, now, apply)

    def update_many(
        self, changes: Iterable[tuple[Key, Change]] | Mapping[Key, Change] | Columns, *, now: float | None = None
    ) -> Notifications:
        """Change many publications in one call, each as `update_publication` does, in this order."""
        with self._lock:
            kept: Changes
            if isinstance(changes, Columns):
                kept = changes
            else:
                kept = list(changes.items() if isinstance(changes, Mapping) else changes)
            steps = self._state.definitions.stable(lambda: self._preparation.steps(kept))

            def apply(moment: float, to: Collected) -> None:
                for numbers, news in steps:
                    if isinstance(numbers, int):
                        self._state.change_publication(numbers, news, moment, to)
                    else:
                        self._state.move(numbers, news, moment, to)

            return self._run("update_many", [kept], {}, now, apply)

    def delete_publication(self, key: Key, *, now: float | None = None) -> Notifications:
        """Delete a publication; every subscription that matched it is told."""
        with self._lock:
            number = self._state.publications.find(key)

            def apply(moment: float, to: Collected) -> None:
                self._state.delete_publication(number, to)

            return self._run("delete_publication", [key], {}, now, apply)

    def subscribe(
        self,
        key: Key,
        regions: Sequence[Region],
        *,
        filter: str = ALL,
        leave: bool = False,
        hysteresis: Mapping[str, float | timedelta] | None = None,
        dwell: float | timedelta = 0.0,
        now: float | None = None,
    ) -> Notifications:
        """Add a subscription; it is told of every publication that matches.

        With `leave` it is also told when one ceases to match; with `hysteresis` only when it has left by a margin per
        dimension; with `dwell` only when it has been out for so many seconds.
        """
        with self._lock:
            key = self._state.subscriptions.check_new(key)
            self._state.filters.check(filter)
            options = self._preparation.options(leave, hysteresis, dwell)
            rows = self._preparation.regions(regions)
            outer = self._preparation.outer(rows, options)

            def apply(moment: float, to: Collected) -> None:
                self._state.add_subscription(key, rows, filter, options, outer, to)

            seconds = {name: float(margin) for name, margin in options.hysteresis.items()}
            named = {"filter": filter, "leave": leave, "hysteresis": seconds, "dwell": options.dwell}
            return self._run("subscribe", [key, regions], named, now, apply)

    def subscribe_many(
        self,
        items: Iterable[tuple[Key, Sequence[Region]]] | Columns,
        *,
        leave: bool = False,
        quiet: bool = False,
        now: float | None = None,
    ) -> Notifications:
        """Add many subscriptions in one call; `quiet` looks for no matches and tells nobody."""
        with self._lock:
            kept = items if isinstance(items, Columns) else list(items)
            keys, counts, rows = self._preparation.encode_new(self._state.subscriptions, kept)

            def apply(moment: float, to: Collected) -> None:
                self._state.add_subscriptions(keys, rows, counts, leave, to, quiet)

            return self._run("subscribe_many", [kept], {"leave": leave, "quiet": quiet}, now, apply)

    def update_subscription(self, key: Key, change: Change, *, now: float | None = None) -> Notifications:
        """Change the regions of a subscription; it is told of publications that begin to match, or cease to."""
        with self._lock:
            number = self._state.subscriptions.find(key)
            new = self._preparation.changed(self._state.subscriptions, number, change)
            options = self._state.sticky.options.get(number, Options())
            outer = self._preparation.outer(new, options)

            def apply(moment: float, to: Collected) -> None:
                self._state.change_subscription(number, new, outer, moment, to)

            return self._run("update_subscription", [key, change], {}, now, apply)

    def unsubscribe(self, key: Key, *, now: float | None = None) -> Notifications:
        """Remove a subscription; nobody is told."""
        with self._lock:
            number = self._state.subscriptions.find(key)

            def apply(moment: float, to: Collected) -> None:
                self._state.unsubscribe(number)

            return self._run("unsubscribe", [key], {}, now, apply)

    def matches(self, publication: Key) -> list[Key]:
        """The subscriptions that a publication matches now."""
        with self._lock:
            found = self._state.matches(self._state.publications.find(publication))
            return [self._state.subscriptions.names[number] for number in found]

    def matched_by(self, subscription: Key) -> list[Key]:
        """The publications that match a subscription now."""
        with self._lock:
            found = self._state.matched_by(self._state.subscriptions.find(subscription))
            return [self._state.publications.names[number] for number in found]

    def publication(self, key: Key) -> Content:
        """The regions of a publication now."""
        return self._shown(self._state.publications, key)

    def subscription(self, key: Key) -> Content:
        """The regions of a subscription now."""
        return self._shown(self._state.subscriptions, key)

    def counts(self) -> dict[str, int]:
        """How many publications and subscriptions there are."""
        return {"publications": len(self._state.publications), "subscriptions": len(self._state.subscriptions)}

    def advance(self, now: float | None = None) -> Notifications:
        """Let time pass: those leave whose dwell is over. Every other call does it first, too."""
        with self._lock:
            return self._run("advance", [], {}, now, lambda moment, to: None)

    def _run(
        self, method: str, positional: list[Any], named: dict[str, Any], now: float | None, apply: Apply
    ) -> Notifications:
        """Journal a call that was checked, do it, and give its notifications."""
        moment = max(time.time() if now is None else float(now), self._moment)
        if self._journal is not None:
            self._note(method, [flatten(positional), named], moment)
        else:
            self.sequence += 1
        self._moment = moment
        to = Collected()
        self._state.advance(moment, to)
        apply(moment, to)
        self._state.prune()
        self.last = to.finish(self._state.names, self.sequence)
        return self.last

    def _note(self, method: str, arguments: list[Any], moment: float) -> None:
        if self._journal is not None:
            if self._journal.is_long:
                self.compact()
            self._journal.append([self.sequence + 1, moment, method, arguments])
        self.sequence += 1

    def _shown(self, members: Members, key: Key) -> Content:
        with self._lock:
            return read_all(members.read(members.find(key)), self._state.definitions.decode)

    def _check(self) -> None:
        """Assert that all structures agree."""
        self._state._check()
