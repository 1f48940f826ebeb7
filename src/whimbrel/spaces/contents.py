"""The content of notifications: the regions that publications had when the call returned.

Nothing is copied when a call returns. If the call wrote the regions, they are at hand (`WrittenContent`). If it only
read them, they are still stored (`StoredContent`); before they change, the `ContentTracker` hands the old ones to all
contents that are still referenced.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from whimbrel.spaces.index.region_arrays import Int32s, Int64s, Regions
from whimbrel.spaces.intervals import Interval
from whimbrel.spaces.members import COMPLEX, Members
from whimbrel.spaces.notifications import Content

Reader: TypeAlias = Callable[[Int64s], dict[str, Interval]]
MOST_STEPS, MOST_CELLS = 64, 1_000_000
"""Changes, and cells in them, that a StoredContent keeps before it copies all regions that it may be asked for."""


class _Step:
    """The regions of several simple publications, or of one publication of any kind."""

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
        return None if place is None else [self.reader(self.regions.cells_of(place))]

    def only(self, numbers: Int32s) -> _Step | None:
        """The part of this step that is about these publications; None if there is none."""
        if isinstance(self.numbers, int):
            return self if self.numbers in numbers else None
        places = np.flatnonzero(np.isin(self.numbers, numbers))
        return _Step(self.numbers[places], self.regions.take(places), self.reader) if len(places) else None


class WrittenContent:
    """The regions that a call wrote to publications."""

    def __init__(self, numbers: Int32s | int, regions: Regions, reader: Reader) -> None:
        self._step = _Step(numbers, regions, reader)

    def of(self, number: int) -> Content:
        """The regions of a publication."""
        content = self._step.of(number)
        assert content is not None
        return content


class StoredContent:
    """The regions of publications that a call read: those stored, except for publications that have changed since."""

    def __init__(self, tracker: ContentTracker, publications: Int32s) -> None:
        self._tracker: ContentTracker | None = tracker
        self._publications = publications
        self._steps: list[_Step] = []
        self._cells = 0

    def of(self, number: int) -> Content:
        """The regions of a publication."""
        tracker = self._tracker
        if tracker is None:
            return self._read(number)
        with tracker.lock:
            return self._read(number)

    def _read(self, number: int) -> Content:
        for step in self._steps:
            content = step.of(number)
            if content is not None:
                return content
        assert self._tracker is not None
        return read_all(self._tracker.members.read(number), self._tracker.reader())

    def keep(self, numbers: Int32s | int, regions: Regions, reader: Reader) -> bool:
        """Keep the regions of publications that are about to change. Returns whether more may be kept."""
        self._steps.append(_Step(numbers, regions, reader))
        self._cells += len(regions.cells)
        return len(self._steps) < MOST_STEPS and self._cells < MOST_CELLS

    def settle(self, members: Members, reader: Reader) -> None:
        """Copy all regions that may still be asked for; from then on the stored ones are not needed."""
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
        self._steps, self._tracker = steps, None


class ContentTracker:
    """The publications, and the contents that must be told before one of them changes."""

    def __init__(self, members: Members, reader: Callable[[], Reader], lock: threading.RLock) -> None:
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
        """Must be called before publications lose these regions."""
        if not self._held:
            return
        reader = self.reader()
        for contents in list(self._held):
            if not contents.keep(numbers, olds, reader):
                contents.settle(self.members, reader)
                self._held.discard(contents)


def read_all(regions: Regions, reader: Reader) -> Content:
    """Regions as users see them: intervals by dimension."""
    return [reader(regions.cells_of(place)) for place in range(len(regions.start) - 1)]
