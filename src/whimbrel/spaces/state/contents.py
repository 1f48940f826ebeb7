"""The content of notifications: the regions that publications had when the call returned.

Nothing is copied when a call returns. If the call wrote the regions, they are at hand (`WrittenContent`). If it only
read them, they are still stored (`StoredContent`); before they change, the `ContentTracker` gives the old ones to every
StoredContent that is still referenced.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

import numpy as np

from whimbrel.compiled.array_types import Int32s
from whimbrel.spaces.dimensions.space_definitions import RegionReader, read_all
from whimbrel.spaces.index.region_arrays import Regions
from whimbrel.spaces.state.members import COMPLEX, Members
from whimbrel.spaces.state.notifications import Content

MOST_CHANGES, MOST_CELLS = 64, 1_000_000
"""Changes, and cells in them, that a StoredContent keeps before it copies all regions that it may be asked for."""


class WrittenContent:
    """The regions of several simple publications, or of one publication of any kind, at one moment."""

    def __init__(self, numbers: Int32s | int, regions: Regions, reader: RegionReader) -> None:
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
        return None if place is None else [self.reader(self.regions.cells_of(place))]

    def only(self, numbers: Int32s) -> WrittenContent | None:
        """The part that is about these publications; None if there is none."""
        if isinstance(self.numbers, int):
            return self if self.numbers in numbers else None
        places = np.flatnonzero(np.isin(self.numbers, numbers))
        return WrittenContent(self.numbers[places], self.regions.take(places), self.reader) if len(places) else None


class StoredContent:
    """The regions of publications that a call read: those stored, except for publications that have changed since."""

    def __init__(self, tracker: ContentTracker, publications: Int32s) -> None:
        self._tracker: ContentTracker | None = tracker
        self._publications = publications
        self._kept: list[WrittenContent] = []
        self._cells = 0

    def of(self, number: int) -> Content:
        """The regions of a publication."""
        tracker = self._tracker
        if tracker is None:
            return self._read(number)
        with tracker.lock:
            return self._read(number)

    def _read(self, number: int) -> Content:
        for kept in self._kept:
            content = kept.of(number)
            if content is not None:
                return content
        assert self._tracker is not None
        return read_all(self._tracker.members.read(number), self._tracker.reader())

    def keep(self, numbers: Int32s | int, regions: Regions, reader: RegionReader) -> bool:
        """Keep the regions of publications that are about to change. Returns whether more may be kept."""
        self._kept.append(WrittenContent(numbers, regions, reader))
        self._cells += len(regions.cells)
        return len(self._kept) < MOST_CHANGES and self._cells < MOST_CELLS

    def settle(self, members: Members, reader: RegionReader) -> None:
        """Copy every region that may still be asked for. After that the stored regions are not needed."""
        left = np.unique(self._publications)
        kept = []
        for each in self._kept:
            part = each.only(left)
            if part is not None:
                kept.append(part)
                left = np.setdiff1d(left, part.numbers)
        is_simple = members.flags[left] & COMPLEX == 0
        kept.append(WrittenContent(left[is_simple], members.read_singles(left[is_simple]), reader))
        kept += [WrittenContent(number, members.read(number), reader) for number in left[~is_simple].tolist()]
        self._kept, self._tracker = kept, None


class ContentTracker:
    """The publications, and the contents that must be told before one of them changes."""

    def __init__(self, members: Members, reader: Callable[[], RegionReader], lock: threading.RLock) -> None:
        self.members = members
        self.reader = reader
        self.lock = lock
        self._held: weakref.WeakSet[StoredContent] = weakref.WeakSet()

    def current(self, publications: Int32s) -> StoredContent:
        """The contents of publications at this moment."""
        contents = StoredContent(self, publications)
        self._held.add(contents)
        return contents

    def changing(self, numbers: Int32s | int, olds: Regions) -> None:
        """Hand the old regions of publications to the contents that need them. Must be called before they change."""
        if not self._held:
            return
        reader = self.reader()
        for contents in list(self._held):
            if not contents.keep(numbers, olds, reader):
                contents.settle(self.members, reader)
                self._held.discard(contents)
