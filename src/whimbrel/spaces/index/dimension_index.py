"""The regions of one role with their ordered lists: write them, and ask which of them match.

Writes go to rows only. Lists are brought up to date when somebody searches: few entries one by one through the tail,
many by a merge that leaves out the old ones. So a stream of writes without searches costs next to nothing.

One writer at a time and no searches beside it; searches may run beside each other, each with its own questions.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whimbrel.compiled.cold_start import tell_if_cold
from whimbrel.spaces.index import row_kernels
from whimbrel.spaces.index.consistency import check_lists
from whimbrel.spaces.index.questions import empty_questions
from whimbrel.spaces.index.room import empty_index, empty_pending, pending_with, with_cells, with_dimensions, with_slots
from whimbrel.spaces.index.search import flat, search, split
from whimbrel.spaces.index.upkeep import is_sparse, merged, updated
from whimbrel.spaces.layout import FEW_DIMENSIONS, HIGH, LOW, Dimensions, Index, Int32s, Int64s, Regions, Rows

_THREADS = 2
_WORTH_A_THREAD = 256
_KEPT = 1 << 23
"""So many findings have room that is kept."""
_ONE = np.zeros(1, np.int64)


class DimensionIndex:
    """Regions by slot, and two ordered lists of their cuts per dimension."""

    def __init__(self) -> None:
        self.index = empty_index()
        self.slots = 0
        self._pending = empty_pending()
        self._small = 0
        """How many dimensions are in small spaces."""
        self._free: list[int] = []
        self._questions = [empty_questions(0, 0) for _ in range(_THREADS)]
        self._found = [np.empty(1_024, np.int64) for _ in range(_THREADS)]
        """Room for findings, used again: fresh memory would cost more than to fill it."""
        self._flat: tuple[Index, tuple[Any, ...]] = self.index, flat(self.index)

    def __len__(self) -> int:
        return self.slots - len(self._free)

    @property
    def rows(self) -> Rows:
        """The rows."""
        return self.index.rows

    def define(self, spaces: list[list[int]], dimensions: int) -> None:
        """The spaces, each as its dimensions by number. No region may say anything of a dimension that is new."""
        masks, small = np.zeros(dimensions, np.int64), np.zeros(dimensions, np.int64)
        for position, members in enumerate(spaces):
            masks[members] |= 1 << position
            if len(members) <= FEW_DIMENSIONS:
                small[members] |= 1 << position
        self.index = with_dimensions(self.index, Dimensions(masks, small))
        self._small = int(np.count_nonzero(small))
        self._questions = [empty_questions(dimensions, 0) for _ in range(_THREADS)]

    def take(self, count: int) -> Int32s:
        """Slots for so many new regions."""
        reused = min(count, len(self._free))
        first = self._free[len(self._free) - reused :]
        del self._free[len(self._free) - reused :]
        fresh = range(self.slots, self.slots + count - reused)
        self.slots += count - reused
        if self.slots > len(self.rows.heads):
            self.index = with_slots(self.index, self.slots)
        return np.array([*first, *fresh], np.int32)

    def free(self, slots: Int32s) -> None:
        """Empty slots, to be used again."""
        self.write(slots, Regions.none(len(slots)))
        self.rows.flags[slots] = 0
        self._free += slots.tolist()

    def write(self, slots: Int32s, regions: Regions) -> None:
        """Give slots new regions."""
        if is_sparse(self.index):
            self.merge()
        self.index = with_cells(self.index, len(regions.cells) + len(slots) * self._small)
        rows, dimensions = self.index.rows, self.index.dimensions
        self._pending = pending_with(self._pending, rows, slots)
        row_kernels.write_rows(tuple(rows), tuple(self._pending), *dimensions, self._small > 0, slots, *regions)

    def read(self, slots: Int32s) -> Regions:
        """The regions of slots."""
        return Regions(*row_kernels.read_rows(self.rows.heads, self.rows.cells, slots))

    def search(
        self, olds: Regions, news: Regions, need: int = 0, regions: Int32s | None = None, slots: Int32s | None = None
    ) -> tuple[Int32s, Int32s]:
        """For each region the slots that match its new content and did not match its old, side by side in any order.

        With `regions` and `slots` these arrays say how regions and slots are called.
        """
        tell_if_cold(search)
        self.update()
        count = len(news.start) - 1
        names = np.arange(count, dtype=np.int32) if regions is None else regions
        slot_names = np.arange(self.slots, dtype=np.int32) if slots is None else slots
        if count < 2 * _WORTH_A_THREAD:
            order = np.arange(count) if count > 1 else _ONE[:count]
            parts = [self._search(olds, news, order, names, need, 0)]
        else:
            order = _by_place(news)
            with ThreadPoolExecutor(1) as other:
                later = other.submit(self._search, olds, news, order[count // 2 :], names, need, 1)
                parts = [self._search(olds, news, order[: count // 2], names, need, 0), later.result()]
        total = sum(found for _, found in parts)
        own, others = np.empty(total, np.int32), np.empty(total, np.int32)
        at = 0
        for rows, found in parts:
            split(rows, slot_names, own[at : at + found], others[at : at + found])
            at += found
        return own, others

    def matrix(self, regions: Regions, slots: Int32s) -> NDArray[np.bool_]:
        """Which of some regions match which of some slots."""
        rows = self.rows
        return row_kernels.matrix(rows.heads, rows.cells, self.index.dimensions.spaces, *regions, slots)

    def update(self) -> None:
        """Bring the lists up to date with the rows."""
        self.index = updated(self.index, self._pending, self.slots)

    def merge(self) -> None:
        """Bring everything into the base."""
        self.update()
        self.index = merged(self.index, self.slots)

    def _search(
        self, olds: Regions, news: Regions, order: Int64s, names: Int32s, need: int, thread: int
    ) -> tuple[Int64s, int]:
        questions = self._questions[thread]
        if len(questions.disjoint) < self.slots:
            questions = questions._replace(disjoint=np.zeros(len(self.rows.heads), np.int64))
            self._questions[thread] = questions
        index, arrays = self._flat
        if index is not self.index:
            arrays = flat(self.index)
            self._flat = self.index, arrays
        room = self._found[thread]
        out, found = search(arrays, self.slots, *olds, *news, order, names, need, tuple(questions), room)
        if len(room) < len(out) <= _KEPT:
            self._found[thread] = out
        return out, found

    def _check(self) -> None:
        """Assert that rows, lists and counts say the same."""
        self.update()
        assert not self.rows.dirty.any()
        check_lists(self.index, self.slots, set(self._free))
        for questions in self._questions:
            assert not questions.disjoint.any() and (questions.head == -1).all()
            assert (questions.spread == (LOW, HIGH, LOW, HIGH)).all()


def _by_place(regions: Regions) -> Int64s:
    """Regions in an order in which neighbours touch the same entries: by their first constraint."""
    first = np.minimum(regions.start[:-1], max(len(regions.cells) - 1, 0))
    cells = regions.cells[first] if len(regions.cells) else np.zeros((len(first), 3), np.int64)
    return np.lexsort((cells[:, 1], cells[:, 0]))
