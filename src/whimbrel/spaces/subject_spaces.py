"""Subject spaces: publications and subscriptions stay, and a pair is notified when it begins or ceases to match.

The model of Leung and Jacobsen (state-persistent publish/subscribe, CASCON 2003), corrected; see docs/papers.md. What
matches follows from the stored regions. Pairs are stored only for subscriptions with hysteresis or dwell.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from whimbrel.spaces.dimensions.errors import SpaceOptionError
from whimbrel.spaces.dimensions.schema_domains import DimensionType, PlainType
from whimbrel.spaces.dimensions.space_definitions import Columns, Key, Region, read_all
from whimbrel.spaces.disk.journal import Journal, from_plain, to_plain
from whimbrel.spaces.disk.saved_state import dump_state, load_state, read_saved, write_saved
from whimbrel.spaces.state.dwell_subscriptions import SubscriptionOptions
from whimbrel.spaces.state.members import ALL, Members, NewMembers
from whimbrel.spaces.state.notifications import Content, NotificationBuilder, Notifications
from whimbrel.spaces.state.pair_matching import RegionFilter, RegionFilters
from whimbrel.spaces.state.space_state import SpaceState
from whimbrel.spaces.state.stored_pairs import StoredPairs
from whimbrel.spaces.state.validation import CallValidator, Change, Changes
from whimbrel.storage.facts import Facts, checked_facts


class SubjectSpaces:
    """Publications and subscriptions as regions of spaces. Calls return who begins or ceases to match.

    >>> spaces = SubjectSpaces()
    >>> spaces.define("map", {"x": "number", "y": "number"})
    >>> spaces.subscribe("zone-1", [{"x": "[0, 10)", "y": "[5, inf)"}])
    []
    >>> spaces.publish("taxi-7", [{"x": 3, "y": "[6, 7]"}])
    [Notification(subscription='zone-1', publication='taxi-7', kind='enter', sequence=3)]

    A call takes effect as a whole or, with an error, not at all. Calls from several threads are serialised.

    There are three ways to keep the state: `open` journals every call in a directory; `save` and `load` write and read
    one file, for an owner that has a log of its own; without them the state is in memory only.
    """

    def __init__(self, filters: Mapping[str, RegionFilter] | None = None) -> None:
        self.sequence = 0
        """The number of the last call that changed something."""
        self.last: Notifications
        """The notifications of that call."""
        self.facts: dict[str, object] = {}
        """The facts of the file that the spaces were loaded from."""
        self._state = SpaceState(RegionFilters(filters))
        self._validator = CallValidator(self._state)
        self.pairs = StoredPairs(self._state)
        """What is stored for subscriptions with hysteresis or dwell."""
        self._moment = -np.inf
        self._journal: Journal | None = None
        self._lock = self._state.lock
        self.last = NotificationBuilder().finish(self._state.names, 0)

    @classmethod
    def open(cls, path: str | Path, filters: Mapping[str, RegionFilter] | None = None) -> SubjectSpaces:
        """Open the spaces in a directory, which is created if it is missing. Every call is on disk before it returns.

        After a crash `sequence` and `last` belong to the last call on disk. That is the last call that returned, or
        the one that was running: compare with the last sequence number that you have seen.
        """
        journal = Journal(Path(path))
        try:
            spaces = cls(filters)
            snapshot = journal.snapshot()
            if snapshot is not None:
                spaces._restore(*snapshot)
            for sequence, moment, method, arguments in journal.calls():
                assert sequence == spaces.sequence + 1
                positional, named = from_plain(arguments[0]), dict(arguments[1])
                getattr(spaces, method)(*positional, **named, **({} if method == "define" else {"now": moment}))
        except BaseException:
            journal.close()
            raise
        spaces._journal = journal
        return spaces

    def close(self) -> None:
        """Release the directory. Nothing needs to be saved."""
        if self._journal is not None:
            self._journal.close()

    def compact(self) -> None:
        """Replace journal and snapshot by a new snapshot. A call does it by itself when the journal is long."""
        with self._lock:
            if self._journal is not None:
                self._journal.replace(self.sequence, *dump_state(self._state, self.sequence, float(self._moment)))

    def save(self, path: str | Path, facts: Facts | None = None) -> None:
        """Write the whole state to one file, atomically. Calls may continue while the file is written.

        `facts` are stored with the state and come back as `facts` of the loaded spaces: a small JSON object (at most
        64 KiB), such as the offset of the log that the state reflects.
        """
        checked = checked_facts(facts)
        with self._lock:
            arrays, description = dump_state(self._state, self.sequence, float(self._moment))
        write_saved(Path(path), arrays, description, checked)

    @classmethod
    def load(cls, path: str | Path, filters: Mapping[str, RegionFilter] | None = None) -> SubjectSpaces:
        """Read a file that `save` wrote. The spaces are in memory only: they have no journal, and the file is not kept.

        Raises a SavedIndexError if the file is missing, damaged, or not a file of saved spaces.
        """
        arrays, description, facts = read_saved(Path(path))
        spaces = cls(filters)
        spaces._restore(arrays, description)
        spaces.facts = facts
        return spaces

    def _restore(self, arrays: dict[str, np.ndarray], description: dict[str, Any]) -> None:
        """Fill these spaces, which must be empty, from arrays that `dump_state` returned."""
        self.sequence, self._moment = load_state(self._state, self._validator, arrays, description)
        self.last = NotificationBuilder().finish(self._state.names, self.sequence)

    def __enter__(self) -> SubjectSpaces:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def define(self, space: str, dimensions: Mapping[str, DimensionType]) -> None:
        """Define a space: its dimensions and their types (number, integer, string, timestamp, boolean).

        A type may also be the domain of a schema, as a document has it: {"kind": "enumerated", "values": ["S", "L"]} or
        {"kind": "integer", "minimum": 0, "maximum": 9}.
        A dimension of the same name is the same dimension in every space. No region may constrain one yet.
        """
        with self._lock:
            self._state.definitions.check(space, dimensions, self._state.constrained())
            self._note("define", [space, dict(dimensions)], {}, 0.0)
            self._state.define(space, dimensions)

    def dimensions(self, space: str) -> dict[str, PlainType]:
        """The dimensions of a space and their types; UnknownSpace if there is no such space."""
        return self._state.definitions.dimensions(space)

    def publish(
        self, key: Key, regions: Sequence[Region], *, filter: str = ALL, now: float | None = None
    ) -> Notifications:
        """Add a publication, and notify every subscription that it matches (enter)."""
        with self._lock:
            key = self._state.publications.check_new(key)
            self._state.filters.check(filter)
            new = NewMembers([key], self._validator.regions(regions), [len(regions)])
            to = self._begin("publish", [key, regions], {"filter": filter}, now)
            self._state.add_publications(new, filter, to)
            return self._finish(to)

    def publish_many(
        self,
        items: Iterable[tuple[Key, Sequence[Region]]] | Columns,
        *,
        quiet: bool = False,
        now: float | None = None,
    ) -> Notifications:
        """Add many publications in one call. With `quiet` nobody is notified, and matches are not searched.

        Only for subscriptions with hysteresis or dwell the publications inside are searched, and stored.
        """
        with self._lock:
            kept = items if isinstance(items, Columns) else list(items)
            new = self._validator.encode_new(self._state.publications, kept)
            to = self._begin("publish_many", [kept], {"quiet": bool(quiet)}, now)
            self._state.add_publications(new, ALL, to, quiet)
            return self._finish(to)

    def update_publication(
        self,
        key: Key,
        change: Change | None = None,
        *,
        region: int | None = None,
        filter: str | None = None,
        now: float | None = None,
    ) -> Notifications:
        """Change a publication. Notifies subscriptions that begin to match it, and on request those that cease to.

        A mapping changes only the dimensions that it names (None removes a constraint) of one region, the one at the
        place `region` if there are several; a list replaces all regions. `filter` replaces the filter.
        """
        with self._lock:
            number = self._state.publications.find(key)
            new = self._validator.updated(self._state.publications, number, change, region, filter)
            to = self._begin("update_publication", [key, change], _given(region=region, filter=filter), now)
            self._state.change_publication(number, new, self._moment, to, filter)
            return self._finish(to)

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
            steps = self._state.definitions.stable(lambda: self._validator.steps(kept))
            to = self._begin("update_many", [kept], {}, now)
            for numbers, news in steps:
                if isinstance(numbers, int):
                    self._state.change_publication(numbers, news, self._moment, to)
                else:
                    self._state.move(numbers, news, self._moment, to)
            return self._finish(to)

    def delete_publication(self, key: Key, *, now: float | None = None) -> Notifications:
        """Delete a publication, and notify every subscription that matched it (delete)."""
        with self._lock:
            number = self._state.publications.find(key)
            to = self._begin("delete_publication", [key], {}, now)
            self._state.delete_publication(number, to)
            return self._finish(to)

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
        """Add a subscription, and notify it of every publication that matches (enter).

        With `leave` it is also notified when one ceases to match. With `hysteresis` a publication leaves only when it
        is out by a margin per dimension; with `dwell` only when it has been out for that many seconds.
        """
        with self._lock:
            key = self._state.subscriptions.check_new(key)
            self._state.filters.check(filter)
            options = self._validator.options(leave, hysteresis, dwell)
            encoded = self._validator.regions(regions)
            outer = self._validator.outer(encoded, options)
            named = {"filter": filter, "leave": options.leave, "hysteresis": options.hysteresis, "dwell": options.dwell}
            to = self._begin("subscribe", [key, regions], named, now)
            self._state.add_subscription(key, encoded, filter, options, outer, to)
            return self._finish(to)

    def subscribe_many(
        self,
        items: Iterable[tuple[Key, Sequence[Region]]] | Columns,
        *,
        leave: bool = False,
        quiet: bool = False,
        now: float | None = None,
    ) -> Notifications:
        """Add many subscriptions in one call. With `quiet` nobody is notified, and no matches are searched."""
        with self._lock:
            kept = items if isinstance(items, Columns) else list(items)
            new = self._validator.encode_new(self._state.subscriptions, kept)
            to = self._begin("subscribe_many", [kept], {"leave": bool(leave), "quiet": bool(quiet)}, now)
            self._state.add_subscriptions(new, leave, to, quiet)
            return self._finish(to)

    def update_subscription(
        self,
        key: Key,
        change: Change | None = None,
        *,
        region: int | None = None,
        filter: str | None = None,
        now: float | None = None,
    ) -> Notifications:
        """Change a subscription, and notify it of publications that begin to match, or cease to.

        The arguments are those of `update_publication`.
        """
        with self._lock:
            number = self._state.subscriptions.find(key)
            new = self._validator.updated(self._state.subscriptions, number, change, region, filter)
            options = self._state.dwell.options.get(number, SubscriptionOptions())
            outer = self._validator.outer(new, options)
            to = self._begin("update_subscription", [key, change], _given(region=region, filter=filter), now)
            self._state.change_subscription(number, new, outer, self._moment, to, filter)
            return self._finish(to)

    def unsubscribe(self, key: Key, *, now: float | None = None) -> Notifications:
        """Remove a subscription. Nobody is notified."""
        with self._lock:
            number = self._state.subscriptions.find(key)
            to = self._begin("unsubscribe", [key], {}, now)
            self._state.unsubscribe(number)
            return self._finish(to)

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
        """The numbers of publications and subscriptions."""
        return {"publications": len(self._state.publications), "subscriptions": len(self._state.subscriptions)}

    def work(self) -> dict[str, int]:
        """What all searches have done: entries of ordered lists passed, by strategy, and regions checked then."""
        roles = self._state.publications.regions.work(), self._state.subscriptions.regions.work()
        return {name: roles[0][name] + roles[1][name] for name in roles[0]}

    def advance(self, now: float | None = None) -> Notifications:
        """Make the publications leave whose dwell is over. Every other call does this first, too."""
        with self._lock:
            return self._finish(self._begin("advance", [], {}, now))

    def check_subscription(
        self, regions: Sequence[Region], hysteresis: Mapping[str, float | timedelta], dwell: float | timedelta
    ) -> None:
        """Raise what `subscribe` with a new key would."""
        with self._lock:
            self._validator.regions(regions)
            self._validator.options(False, hysteresis, dwell)

    def _begin(
        self, method: str, positional: list[Any], named: dict[str, Any], now: float | None
    ) -> NotificationBuilder:
        """Journal a validated call, set the time, and let publications leave when their dwell is over."""
        moment = max(_seconds(time.time() if now is None else now), self._moment)
        self._note(method, positional, named, moment)
        self._moment = moment
        to = NotificationBuilder()
        self._state.advance(moment, to)
        return to

    def _finish(self, to: NotificationBuilder) -> Notifications:
        """End a call that was applied: note the stored pairs that it changed, and return its notifications."""
        self.pairs.note()
        self._state.prune()
        self.last = to.finish(self._state.names, self.sequence)
        return self.last

    def _note(self, method: str, positional: list[Any], named: dict[str, Any], moment: float) -> None:
        """Write a call to the journal, if there is one, and count it."""
        if self._journal is not None:
            if self._journal.is_long:
                self.compact()
            self._journal.append([self.sequence + 1, moment, method, [to_plain(positional), named]])
        self.sequence += 1

    def _shown(self, members: Members, key: Key) -> Content:
        with self._lock:
            return read_all(members.read(members.find(key)), self._state.definitions.decode)

    def _check(self) -> None:
        """Assert that all structures agree."""
        self._state._check()


def _given(**options: object) -> dict[str, object]:
    """The options that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def _seconds(now: float) -> float:
    """A time in seconds; SpaceOptionError if it is not finite."""
    try:
        seconds = float(now)
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if not math.isfinite(seconds):
        raise SpaceOptionError("now", "a finite time in seconds", now)
    return seconds
