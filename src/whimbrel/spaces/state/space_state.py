"""The state of subject spaces, and what a validated call does to it: change members, and build notifications."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import numpy as np

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.spaces.dimensions.schema_domains import DimensionType
from whimbrel.spaces.dimensions.space_definitions import Definitions, Key
from whimbrel.spaces.index.region_arrays import Regions
from whimbrel.spaces.state.contents import ContentTracker, WrittenContent
from whimbrel.spaces.state.dwell_subscriptions import DwellSubscriptions, SubscriptionOptions
from whimbrel.spaces.state.members import ALL, HIDDEN, REMEMBERED, WANTS_LEAVES, Members, NewMembers
from whimbrel.spaces.state.notifications import DELETE, ENTER, LEAVE, NotificationBuilder
from whimbrel.spaces.state.pair_matching import PairMatching, RegionFilters

_NONE = Regions.none(0)


class SpaceState:
    """Spaces, publications and subscriptions, and the pairs of subscriptions with hysteresis or dwell."""

    def __init__(self, filters: RegionFilters) -> None:
        self.definitions = Definitions()
        self.filters = filters
        self.matching = PairMatching(self.definitions, filters)
        self.publications = Members("publication")
        self.subscriptions = Members("subscription")
        self.dwell = DwellSubscriptions()
        self.lock = threading.RLock()
        self.contents = ContentTracker(self.publications, self.definitions.reader, self.lock)

    @property
    def names(self) -> tuple[list[Key], list[Key]]:
        """The keys of subscriptions and of publications, by number."""
        return self.subscriptions.names, self.publications.names

    def constrained(self) -> Int64s:
        """The number of regions that constrain each dimension."""
        counts: Int64s = self.publications.regions.rows.constrains + self.subscriptions.regions.rows.constrains
        return counts

    def define(self, space: str, dimensions: Mapping[str, DimensionType]) -> None:
        """Add a space that was checked."""
        self.definitions.add(space, dimensions)
        for members in (self.publications, self.subscriptions):
            members.regions.define(list(self.definitions.spaces.values()), len(self.definitions.names))
        for number, domain in self.definitions.strings:
            domain.labels.renamed = lambda old, new, number=number: self._rename(number, old, new)  # type: ignore[misc]

    def prune(self) -> None:
        """Forget labels of strings that no region uses any more, if there are many."""
        for number, domain in self.definitions.strings:
            if domain.labels.is_full:
                used = [members.regions.cuts_in_use(number) for members in (self.publications, self.subscriptions)]
                domain.labels.prune(np.concatenate(used))

    def advance(self, moment: float, to: NotificationBuilder) -> None:
        """Make the publications leave whose dwell is over."""
        left = self.dwell.expire(moment)
        if left:
            to.contents = self.contents.current(np.array([publication for _, publication in left], np.int32))
            to.add_pairs(left, LEAVE)

    def add_publications(self, new: NewMembers, filter: str, to: NotificationBuilder, quiet: bool = False) -> None:
        """Add publications, and notify the subscriptions that they match.

        With `quiet` nobody is notified, and only pairs that must be stored are searched.
        """
        if quiet:
            to = NotificationBuilder()
        for numbers, part in self.publications.add_many(new, filter, 0):
            if not quiet or self.subscriptions.any_with(REMEMBERED):
                required = REMEMBERED if quiet else 0
                which, found = self._begun(self.subscriptions, numbers, part, None, required, filter, filter)
                to.contents = WrittenContent(numbers, part, self.definitions.reader())
                self._entered(found, which, to)

    def move(self, numbers: Int32s, news: Regions, moment: float, to: NotificationBuilder) -> None:
        """Give simple publications (one region, the usual filter) new regions."""
        olds = self.publications.read_singles(numbers)
        self._notify_of_change(numbers, olds, news, moment, to)
        self.publications.write_singles(numbers, news)

    def change_publication(
        self, number: int, new: Regions, moment: float, to: NotificationBuilder, filter: str | None = None
    ) -> None:
        """Give a publication of any kind new regions, perhaps another filter, and notify subscriptions."""
        members = self.publications
        old_filter = members.filters.get(number, ALL)
        filter = old_filter if filter is None else filter
        if members.is_simple(number) and len(new.start) == 2 and filter == ALL:
            self.move(np.array([number], np.int32), new, moment, to)
            return
        self._notify_of_change(number, members.read(number), new, moment, to, old_filter, filter)
        members.write(number, new)
        if filter != old_filter:
            members.set_filter(number, filter)

    def delete_publication(self, number: int, to: NotificationBuilder) -> None:
        """Remove a publication and notify all subscriptions that matched it."""
        self.contents.changing(number, self.publications.read(number))
        found = self._derived_matches(number)
        to.contents = None
        to.add(found, np.full(len(found), number, np.int32), DELETE)
        self.dwell.deleted(number, to)
        self.publications.remove(number)

    def add_subscriptions(self, new: NewMembers, leave: bool, to: NotificationBuilder, quiet: bool) -> None:
        """Add subscriptions without other options, and notify them of what they match, unless `quiet`."""
        for numbers, part in self.subscriptions.add_many(new, ALL, WANTS_LEAVES if leave else 0):
            if not quiet:
                which, found = self._begun(self.publications, numbers, part)
                to.contents = self.contents.current(found)
                to.add(which, found, ENTER)

    def add_subscription(
        self,
        key: Key,
        regions: Regions,
        filter: str,
        options: SubscriptionOptions,
        outer: Regions | None,
        to: NotificationBuilder,
    ) -> int:
        """Add a subscription with its outer regions, if hysteresis gives any. Returns its number."""
        flags = WANTS_LEAVES if options.leave else 0
        if options.remembers_pairs:
            flags = REMEMBERED | (WANTS_LEAVES if outer is None else 0)
        number = keeper = self.subscriptions.add(key, regions, filter, flags)
        if outer is not None:
            keeper = self.subscriptions.add(None, outer, filter, REMEMBERED | HIDDEN | WANTS_LEAVES)
        if options.remembers_pairs:
            self.dwell.add(number, options, keeper)
        found = self.matching.matched(self.publications, regions, filter)
        to.contents = self.contents.current(found)
        self._entered(np.full(len(found), number, np.int32), found, to)
        return number

    def change_subscription(
        self,
        number: int,
        new: Regions,
        outer: Regions | None,
        moment: float,
        to: NotificationBuilder,
        filter: str | None = None,
    ) -> None:
        """Give a subscription new regions, perhaps another filter, and notify it."""
        members = self.subscriptions
        old_filter = members.filters.get(number, ALL)
        filter = old_filter if filter is None else filter
        if number in self.dwell.options:
            if outer is not None:
                members.write(self.dwell.outer[number], outer)
            inside = self.matching.matched(self.publications, new, filter)
            overlapping = inside if outer is None else self.matching.matched(self.publications, outer, filter)
            concerned = np.array([*inside.tolist(), *self.dwell.pairs.inside(number)], np.int32)
            to.contents = self.contents.current(concerned)
            self.dwell.replaced(number, inside.tolist(), overlapping.tolist(), moment, to)
        else:
            old, begun_by = members.read(number), self.matching.begun_by
            changes = [(ENTER, begun_by(self.publications, old, new, filter, old_filter=old_filter))]
            if members.flags[number] & WANTS_LEAVES:
                changes.insert(0, (LEAVE, begun_by(self.publications, new, old, old_filter, old_filter=filter)))
            for kind, found in changes:
                to.contents = self.contents.current(found)
                to.add(np.full(len(found), number, np.int32), found, kind)
        members.write(number, new)
        if filter != old_filter:
            for each in {number, self.dwell.outer.get(number, number)}:
                members.set_filter(each, filter)

    def unsubscribe(self, number: int) -> None:
        """Remove a subscription."""
        outer = self.dwell.outer.get(number, number)
        if number in self.dwell.options:
            self.dwell.remove(number)
        if outer != number:
            self.subscriptions.remove(outer)
        self.subscriptions.remove(number)

    def matches(self, number: int) -> list[int]:
        """The subscriptions that a publication matches."""
        return sorted(self._derived_matches(number).tolist() + self.dwell.pairs.containing(number))

    def matched_by(self, number: int) -> list[int]:
        """The publications that match a subscription."""
        if number in self.dwell.options:
            return sorted(self.dwell.pairs.inside(number))
        filter = self.subscriptions.filters.get(number, ALL)
        return sorted(self.matching.matched(self.publications, self.subscriptions.read(number), filter).tolist())

    def _derived_matches(self, number: int) -> Int32s:
        """The subscriptions that a publication matches, without subscriptions whose pairs are stored."""
        filter = self.publications.filters.get(number, ALL)
        found = self.matching.matched(self.subscriptions, self.publications.read(number), filter)
        derived: Int32s = found[self.subscriptions.flags[found] & REMEMBERED == 0]
        return derived

    def _begun(
        self, other: Members, numbers: Int32s | int, news: Regions, olds: Regions | None = None, required: int = 0,
        filter: str = ALL, old_filter: str = ALL,
    ) -> tuple[Int32s, Int32s]:  # fmt: skip
        """Pairs (own number, other number) that begin to match."""
        if isinstance(numbers, int):
            found = self.matching.begun_by(other, olds or _NONE, news, filter, required, old_filter)
            return np.full(len(found), numbers, np.int32), found
        return self.matching.begun(other, numbers, olds or Regions.none(len(numbers)), news, required)

    def _notify_of_change(
        self, numbers: Int32s | int, olds: Regions, news: Regions, moment: float, to: NotificationBuilder,
        old_filter: str = ALL, filter: str = ALL,
    ) -> None:  # fmt: skip
        """Notify subscriptions of publications that change from old to new regions; a single one may get a filter."""
        self.contents.changing(numbers, olds)
        to.contents = WrittenContent(numbers, news, self.definitions.reader())
        if self.subscriptions.any_with(WANTS_LEAVES):
            which, found = self._begun(self.subscriptions, numbers, olds, news, WANTS_LEAVES, old_filter, filter)
            self._left(found, which, moment, to)
        which, found = self._begun(self.subscriptions, numbers, news, olds, 0, filter, old_filter)
        self._entered(found, which, to)

    def _entered(self, subscriptions: Int32s, publications: Int32s, to: NotificationBuilder) -> None:
        """Handle pairs that begin to match. A member has the inner or the outer region of its subscription."""
        remembered, subscriptions, publications = self._split(subscriptions, publications)
        for subscription, publication in remembered:
            self.dwell.entered(subscription, publication, to)
        to.add(subscriptions, publications, ENTER)

    def _left(self, subscriptions: Int32s, publications: Int32s, moment: float, to: NotificationBuilder) -> None:
        """Handle pairs that cease to match, for members that are told of leaves."""
        remembered, subscriptions, publications = self._split(subscriptions, publications)
        for subscription, publication in remembered:
            self.dwell.left(subscription, publication, moment, to)
        to.add(subscriptions, publications, LEAVE)

    def _split(self, subscriptions: Int32s, publications: Int32s) -> tuple[list[tuple[int, int]], Int32s, Int32s]:
        """The pairs of subscriptions with hysteresis or dwell as a list, and the other pairs as arrays."""
        if not self.dwell.options:
            return [], subscriptions, publications
        chosen = self.subscriptions.flags[subscriptions] & REMEMBERED != 0
        remembered = list(zip(subscriptions[chosen].tolist(), publications[chosen].tolist(), strict=True))
        return remembered, subscriptions[~chosen], publications[~chosen]

    def _rename(self, dimension: int, old: np.ndarray, new: np.ndarray) -> None:
        for members in (self.publications, self.subscriptions):
            members.regions.replace_cuts(dimension, old, new)

    def _check(self) -> None:
        """Assert that all structures agree."""
        for members in (self.publications, self.subscriptions):
            members._check()
        for _, domain in self.definitions.strings:
            domain.labels._check()
