"""What a notification is about: the regions of its publication, as they were when it was told (ALGORITHMS 18).

Nothing is copied when a call returns. What a call gave publications is at hand; where a call only looked at them, the
store still has their regions, until they change: whoever changes them hands the old ones to all contents that somebody
still holds.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from whimbrel.spaces.intervals import Interval
from whimbrel.spaces.layout import Int32s, Int64s, Regions
from whimbrel.spaces.members import COMPLEX, Members
from whimbrel.spaces.notices import Content

Reader: TypeAlias = Callable[[Int64s], dict[str, Interval]]
MOST_STEPS, MOST_CELLS = 64, 1_000_000
"""So many changes are kept for contents before the rest is copied."""


class _Step:
    """Regions of many simple publications, or of one."""

    def __init__(self, numbers: Int32s | int, regions: Regions, reader: Reader) -> None:
        self.numbers = numbers
        self.regions = regions
        self.reader = reader
        self._place: dict[int, int] | None = None

    def of(self, number: int) -> Content | None:
        """The regions of a publication; None if they are not here."""
        if isinstance(self.numbers, int):
            return read_all(self.regions, self.reader) if number == self.numbers else None
        if self._place is None:
            self._place = {each: place for place, each in enumerate(self.numbers.tolist())}
        place = self._place.get(number)
        return None if place is None else [self.reader(self.regions.row(place))]

    def only(self, numbers: Int32s) -> _Step | None:
        """What is here of some publications."""
        if isinstance(self.numbers, int):
            return self if self.numbers in numbers else None
        places = np.flatnonzero(np.isin(self.numbers, numbers))
        return _Step(self.numbers[places], self.regions.take(places), self.reader) if len(places) else None


class Contents:
    """The regions of publications as a call gave them, by number."""

    def __init__(self, numbers: Int32s | int, regions: Regions, reader: Reader) -> None:
        self._step = _Step(numbers, regions, reader)

    def of(self, number: int) -> Content:
        """The regions of a publication."""
        content = self._step.of(number)
        assert content is not None
        return content


class StoredContents:
    """The regions of publications that a call looked at: in the store, but for those that have changed since."""

    def __init__(self, store: Store, publications: Int32s) -> None:
        self._store: Store | None = store
        self._publications = publications
        self._steps: list[_Step] = []
        self._cells = 0

    def of(self, number: int) -> Content:
        """The regions of a publication."""
        store = self._store
        if store is None:
            return self._kept(number)
        with store.lock:
            return self._kept(number)

    def _kept(self, number: int) -> Content:
        for step in self._steps:
            content = step.of(number)
            if content is not None:
                return content
        assert self._store is not None
        return read_all(self._store.members.read(number), self._store.reader())

    def keep(self, numbers: Int32s | int, regions: Regions, reader: Reader) -> bool:
        """Publications are about to change and had these regions; whether there is room for more of this."""
        self._steps.append(_Step(numbers, regions, reader))
        self._cells += len(regions.cells)
        return len(self._steps) < MOST_STEPS and self._cells < MOST_CELLS

    def settle(self, members: Members, reader: Reader) -> None:
        """Take over all that is still in the store, and let go of what nobody may ask for."""
        left = np.unique(self._publications)
        steps = []
        for step in self._steps:
            kept = step.only(left)
            if kept is not None:
                steps.append(kept)
                left = np.setdiff1d(left, kept.numbers)
        is_simple = members.flags[left] & COMPLEX == 0
        steps.append(_Step(left[is_simple], members.read_singles(left[is_simple]), reader))
        steps += [_Step(number, members.read(number), reader) for number in left[~is_simple].tolist()]
        self._steps, self._store = steps, None


class Store:
    """The publications, and who must be told before one changes."""

    def __init__(self, members: Members, reader: Callable[[], Reader], lock: threading.RLock) -> None:
        self.members = members
        self.reader = reader
        self.lock = lock
        self._held: weakref.WeakSet[StoredContents] = weakref.WeakSet()

    def contents(self, publications: Int32s) -> StoredContents:
        """The contents of publications as they are now."""
        contents = StoredContents(self, publications)
        self._held.add(contents)
        return contents

    def changing(self, numbers: Int32s | int, olds: Regions) -> None:
        """These publications are about to lose these regions."""
        if not self._held:
            return
        reader = self.reader()
        for contents in list(self._held):
            if not contents.keep(numbers, olds, reader):
                contents.settle(self.members, reader)
                self._held.discard(contents)


def read_all(regions: Regions, reader: Reader) -> Content:
    """Regions as users see them."""
    return [reader(regions.row(place)) for place in range(len(regions.start) - 1)]
