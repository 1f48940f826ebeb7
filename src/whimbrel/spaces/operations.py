"""What calls do to the state once they are checked: add, change and remove members, and tell who is concerned."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import numpy as np

from whimbrel.spaces.contents import Contents, Store
from whimbrel.spaces.definitions import Definitions
from whimbrel.spaces.filters import ALL, Filters
from whimbrel.spaces.index.renaming import cuts_in_use, rename
from whimbrel.spaces.layout import Int32s, Int64s, Regions
from whimbrel.spaces.matching import Matching
from whimbrel.spaces.members import COMPLEX, HIDDEN, STICKY, TOLD_OF_LEAVES, Members
from whimbrel.spaces.notices import DELETE, ENTER, LEAVE, Collected, Key
from whimbrel.spaces.sticky import Options, Sticky


class State:
    """Spaces, publications and subscriptions, and the pairs that are remembered."""

    def __init__(self, filters: Filters) -> None:
        self.definitions = Definitions()
        self.filters = filters
        self.matching = Matching(self.definitions, filters)
        self.publications = Members("publication")
        self.subscriptions = Members("subscription")
        self.sticky = Sticky()
        self.lock = threading.RLock()
        self.store = Store(self.publications, self.definitions.reader, self.lock)

    @property
    def names(self) -> tuple[list[Key], list[Key]]:
        """The keys by number, of subscriptions and of publications."""
        return self.subscriptions.names, self.publications.names

    def constrained(self) -> Int64s:
        """How many regions say something of each dimension."""
        counts: Int64s = self.publications.regions.rows.constrains + self.subscriptions.regions.rows.constrains
        return counts

    def define(self, space: str, dimensions: Mapping[str, str]) -> None:
        self.definitions.add(space, dimensions)
        for members in (self.publications, self.subscriptions):
            members.regions.define(self.definitions.members(), len(self.definitions.names))
        for number, domain in self.definitions.strings:
            domain.labels.renamed = lambda old, new, number=number: self._rename(number, old, new)  # type: ignore[misc]

    def _rename(self, dimension: int, old: np.ndarray, new: np.ndarray) -> None:
        for members in (self.publications, self.subscriptions):
            rename(members.regions, dimension, old, new)

    def prune(self) -> None:
        for number, domain in self.definitions.strings:
            if domain.labels.is_full:
                used = [cuts_in_use(members.regions, number) for members in (self.publications, self.subscriptions)]
                domain.labels.prune(np.concatenate(used))

    def add(
        self, members: Members, keys: list[Key], rows: Regions, counts: list[int], filter: str, flags: int
    ) -> list[tuple[Int32s | int, Regions]]:
        """Add members: simple ones together, the others one by one; gives them with their regions."""
        if filter == ALL and max(counts, default=1) == 1:
            return [(members.add(list(keys), rows, None, flags), rows)]
        added: list[tuple[Int32s | int, Regions]] = []
        at = 0
        for key, count in zip(keys, counts, strict=True):
            part = rows.part(at, at + count)
            is_complex = count > 1 or filter != ALL
            number = int(members.add([key], part, [count], flags)[0])
            if filter != ALL:
                members.filters[number] = filter
            members.set_flags(number, flags | (COMPLEX if is_complex else 0))
            added.append((number, part))
            at += count
        return added

    def delete_publication(self, number: int, to: Collected) -> None:
        """Remove a publication and tell all that matched it."""
        self.store.changing(number, self.publications.read(number))
        found = self._plain_matches(number)
        to.contents = None
        to.add(found, np.full(len(found), number, np.int32), DELETE)
        self.sticky.deleted(number, to)
        self.publications.remove(number)

    def unsubscribe(self, number: int) -> None:
        """Remove a subscription."""
        outer = self.sticky.outer.get(number, number)
        if number in self.sticky.options:
            self.sticky.drop(number)
        if outer != number:
            self.subscriptions.remove(outer)
        self.subscriptions.remove(number)

    def advance(self, moment: float, to: Collected) -> None:
        """Let those leave whose dwell is over."""
        due = self.sticky.due(moment)
        if due:
            to.contents = self.store.contents(np.array([publication for _, publication in due], np.int32))
            for subscription, publication in due:
                self.sticky.leave(subscription, publication, to)

    def matches(self, number: int) -> list[int]:
        """The subscriptions that a publication matches."""
        return sorted(self._plain_matches(number).tolist() + self.sticky.has(number))

    def matched_by(self, number: int) -> list[int]:
        """The publications that match a subscription."""
        if number in self.sticky.options:
            return sorted(self.sticky.inside[number])
        filter = self.subscriptions.filters.get(number, ALL)
        return sorted(self.matching.matched(self.publications, self.subscriptions.read(number), filter).tolist())

    def add_subscriptions(
        self, keys: list[Key], rows: Regions, counts: list[int], leave: bool, to: Collected, quiet: bool
    ) -> None:
        """Add subscriptions without other options, and tell them of what they match."""
        flags = TOLD_OF_LEAVES if leave else 0
        for numbers, part in self.add(self.subscriptions, keys, rows, counts, ALL, flags):
            if not quiet:
                which, found = self._begun(self.publications, numbers, part)
                to.contents = self.store.contents(found)
                to.add(which, found, ENTER)

    def _plain_matches(self, number: int) -> Int32s:
        """The subscriptions that a publication matches, without those whose pairs are kept."""
        filter = self.publications.filters.get(number, ALL)
        found = self.matching.matched(self.subscriptions, self.publications.read(number), filter)
        plain: Int32s = found[self.subscriptions.flags[found] & STICKY == 0]
        return plain

    def _begun(
        self, other: Members, numbers: Int32s | int, news: Regions, olds: Regions | None = None, need: int = 0,
        filter: str = ALL,
    ) -> tuple[Int32s, Int32s]:  # fmt: skip
        """Pairs (own number, other number) that begin to match."""
        if isinstance(numbers, int):
            found = self.matching.begun_by(other, olds or Regions.none(0), news, filter, need)
            return np.full(len(found), numbers, np.int32), found
        return self.matching.begun(other, numbers, olds or Regions.none(len(numbers)), news, need)

    def add_publications(
        self, keys: list[Key], rows: Regions, counts: list[int], filter: str, to: Collected, quiet: bool = False
    ) -> None:
        for numbers, part in self.add(self.publications, keys, rows, counts, filter, 0):
            if not quiet:
                which, found = self._begun(self.subscriptions, numbers, part, filter=filter)
                to.contents = Contents(numbers, part, self.definitions.reader())
                self._entered(found, which, to)

    def move(self, numbers: Int32s, news: Regions, moment: float, to: Collected) -> None:
        """Give simple publications other regions."""
        olds = self.publications.read_singles(numbers)
        self._tell(numbers, olds, news, ALL, moment, to)
        self.publications.write_singles(numbers, news)

    def change_publication(self, number: int, new: Regions, moment: float, to: Collected) -> None:
        members = self.publications
        if members.is_simple(number) and len(new.start) == 2:
            self.move(np.array([number], np.int32), new, moment, to)
            return
        self._tell(number, members.read(number), new, members.filters.get(number, ALL), moment, to)
        members.write(number, new)

    def _tell(
        self, numbers: Int32s | int, olds: Regions, news: Regions, filter: str, moment: float, to: Collected
    ) -> None:
        """Tell subscriptions of publications that go from old to new regions."""
        self.store.changing(numbers, olds)
        to.contents = Contents(numbers, news, self.definitions.reader())
        if self.subscriptions.any_with(TOLD_OF_LEAVES):
            which, found = self._begun(self.subscriptions, numbers, olds, news, TOLD_OF_LEAVES, filter)
            self._left(found, which, moment, to)
        which, found = self._begun(self.subscriptions, numbers, news, olds, 0, filter)
        self._entered(found, which, to)

    def _entered(self, subscriptions: Int32s, publications: Int32s, to: Collected) -> None:
        if self.sticky.options:
            chosen = self.subscriptions.flags[subscriptions] & STICKY != 0
            for subscription, publication in zip(
                subscriptions[chosen].tolist(), publications[chosen].tolist(), strict=True
            ):
                self.sticky.entered(subscription, publication, to)
            subscriptions, publications = subscriptions[~chosen], publications[~chosen]
        to.add(subscriptions, publications, ENTER)

    def _left(self, subscriptions: Int32s, publications: Int32s, moment: float, to: Collected) -> None:
        if self.sticky.options:
            chosen = self.subscriptions.flags[subscriptions] & STICKY != 0
            for subscription, publication in zip(
                subscriptions[chosen].tolist(), publications[chosen].tolist(), strict=True
            ):
                self.sticky.left(subscription, publication, moment, to)
            subscriptions, publications = subscriptions[~chosen], publications[~chosen]
        to.add(subscriptions, publications, LEAVE)

    def add_subscription(
        self, key: Key, rows: Regions, filter: str, options: Options, outer: Regions | None, to: Collected
    ) -> int:
        flags = TOLD_OF_LEAVES if options.leave else 0
        if options.is_sticky:
            flags = STICKY | (TOLD_OF_LEAVES if outer is None else 0)
        count = len(rows.start) - 1
        ((numbers, _),) = self.add(self.subscriptions, [key], rows, [count], filter, flags)
        number = numbers if isinstance(numbers, int) else int(numbers[0])
        if options.is_sticky:
            self.sticky.add(number, options, number if outer is None else self._add_outer(outer, filter))
        found = self.matching.matched(self.publications, rows, filter)
        to.contents = self.store.contents(found)
        self._entered(np.full(len(found), number, np.int32), found, to)
        return number

    def _add_outer(self, outer: Regions, filter: str) -> int:
        members, count = self.subscriptions, len(outer.start) - 1
        number = int(members.add([None], outer, [count])[0])
        if filter != ALL:
            members.filters[number] = filter
        is_complex = COMPLEX if count > 1 or filter != ALL else 0
        members.set_flags(number, STICKY | HIDDEN | TOLD_OF_LEAVES | is_complex)
        return number

    def change_subscription(
        self, number: int, new: Regions, outer: Regions | None, moment: float, to: Collected
    ) -> None:
        members = self.subscriptions
        filter = members.filters.get(number, ALL)
        if number in self.sticky.options:
            if outer is not None:
                members.write(self.sticky.outer[number], outer)
            inside = self.matching.matched(self.publications, new, filter)
            around = inside if outer is None else self.matching.matched(self.publications, outer, filter)
            concerned = np.array([*inside.tolist(), *self.sticky.inside[number]], np.int32)
            to.contents = self.store.contents(concerned)
            self.sticky.replaced(number, inside.tolist(), around.tolist(), moment, to)
        else:
            old = members.read(number)
            asked: list[tuple[Regions, Regions, int]] = [(new, old, ENTER)]
            if members.flags[number] & TOLD_OF_LEAVES:
                asked.insert(0, (old, new, LEAVE))
            for news, olds, kind in asked:
                found = self.matching.begun_by(self.publications, olds, news, filter)
                to.contents = self.store.contents(found)
                to.add(np.full(len(found), number, np.int32), found, kind)
        members.write(number, new)

    def _check(self) -> None:
        """Assert that all structures agree."""
        for members in (self.publications, self.subscriptions):
            members._check()
        for _, domain in self.definitions.strings:
            domain.labels._check()
