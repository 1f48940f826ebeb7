"""The regions of one role with their ordered lists: write regions, and search for regions that match.

A write changes rows only. The next search brings the lists up to date: few changed entries one by one through the
tail, many by a merge that leaves out the old ones. So a stream of writes without searches is cheap.

One thread writes at a time, and none searches meanwhile. Searches may run in parallel, each with its own query batch.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.compiled.warm_up import tell_if_cold
from whimbrel.spaces.index import region_rows as row_kernels
from whimbrel.spaces.index.ordered_lists import check_lists, is_sparse, merged, updated
from whimbrel.spaces.index.query import WORK, empty_queries
from whimbrel.spaces.index.region_arrays import (
    CELLS_USED,
    FEW_DIMENSIONS,
    HIGH,
    LOW,
    DimensionSpaces,
    IndexArrays,
    RegionRows,
    Regions,
    empty_index,
    empty_pending,
    pending_with,
    with_cells,
    with_dimensions,
    with_rows,
)
from whimbrel.spaces.index.region_search import flat_arrays, search, unpack_results

_THREADS = 2
_WORTH_A_THREAD = 256
"""Queries per thread below which a second thread costs more than it saves."""
_KEPT = 1 << 23
"""Results for which buffers are kept between calls; larger buffers are freed."""
_ONE = np.zeros(1, np.int64)


class DimensionIndex:
    """Regions by row, and two ordered lists of their cuts per dimension."""

    def __init__(self) -> None:
        self.index = empty_index()
        self.row_count = 0
        self._pending = empty_pending()
        self._small = 0
        """The number of dimensions in spaces of few dimensions."""
        self._free: list[int] = []
        self._queries = [empty_queries(0) for _ in range(_THREADS)]
        self._found = [np.empty(1_024, np.int64) for _ in range(_THREADS)]
        """Buffers for results, used again: new memory would cost more than to fill it."""
        self._flat: tuple[IndexArrays, tuple[Any, ...]] = self.index, flat_arrays(self.index)

    @property
    def rows(self) -> RegionRows:
        """The arrays of the rows."""
        return self.index.rows

    def define(self, spaces: list[list[int]], dimensions: int) -> None:
        """Set the spaces, each as the numbers of its dimensions. No region may constrain a dimension that is new."""
        masks, small = np.zeros(dimensions, np.int64), np.zeros(dimensions, np.int64)
        for position, members in enumerate(spaces):
            masks[members] |= 1 << position
            if len(members) <= FEW_DIMENSIONS:
                small[members] |= 1 << position
        self.index = with_dimensions(self.index, DimensionSpaces(masks, small))
        self._small = int(np.count_nonzero(small))
        fresh = [empty_queries(dimensions) for _ in range(_THREADS)]
        self._queries = [new._replace(work=old.work) for new, old in zip(fresh, self._queries, strict=True)]

    def work(self) -> dict[str, int]:
        """What all searches have done: entries passed by each strategy, and regions checked then."""
        total = np.sum([queries.work for queries in self._queries], axis=0)
        return dict(zip(WORK, total.tolist(), strict=True))

    def take(self, count: int) -> Int32s:
        """Reserve rows for `count` new regions."""
        reused = min(count, len(self._free))
        first = self._free[len(self._free) - reused :]
        del self._free[len(self._free) - reused :]
        fresh = range(self.row_count, self.row_count + count - reused)
        self.row_count += count - reused
        if self.row_count > len(self.rows.heads):
            self.index = with_rows(self.index, self.row_count)
        return np.array([*first, *fresh], np.int32)

    def free(self, row_numbers: Int32s) -> None:
        """Delete the regions of rows, which may then be taken again."""
        self.write(row_numbers, Regions.none(len(row_numbers)))
        self.rows.flags[row_numbers] = 0
        self._free += row_numbers.tolist()

    def write(self, row_numbers: Int32s, regions: Regions) -> None:
        """Give rows new regions."""
        if is_sparse(self.index):
            self.merge()
        self.index = with_cells(self.index, len(regions.cells) + len(row_numbers) * self._small)
        rows, dimensions = self.index.rows, self.index.dimensions
        self._pending = pending_with(self._pending, rows, row_numbers)
        row_kernels.write_rows(tuple(rows), tuple(self._pending), *dimensions, self._small > 0, row_numbers, *regions)

    def read(self, row_numbers: Int32s) -> Regions:
        """The regions of rows."""
        return Regions(*row_kernels.read_rows(self.rows.heads, self.rows.cells, row_numbers))

    def search(
        self, olds: Regions, news: Regions, required: int = 0, regions: Int32s | None = None,
        row_names: Int32s | None = None,
    ) -> tuple[Int32s, Int32s]:  # fmt: skip
        """For each region the rows that match its new content and did not match its old content.

        Returns two arrays of equal length, regions and rows, unsorted. `regions` and `row_names`, if given,
        replace the numbers of regions and rows. Only rows with all flags of `required` count.
        """
        tell_if_cold(search)
        self.update()
        count = len(news.start) - 1
        names = np.arange(count, dtype=np.int32) if regions is None else regions
        if row_names is None:
            row_names = np.arange(self.row_count, dtype=np.int32)
        if count < 2 * _WORTH_A_THREAD:
            order = np.arange(count) if count > 1 else _ONE[:count]
            parts = [self._search(olds, news, order, names, required, 0)]
        else:
            order = _by_place(news)
            with ThreadPoolExecutor(1) as other:
                later = other.submit(self._search, olds, news, order[count // 2 :], names, required, 1)
                parts = [self._search(olds, news, order[: count // 2], names, required, 0), later.result()]
        total = sum(found for _, found in parts)
        own, others = np.empty(total, np.int32), np.empty(total, np.int32)
        at = 0
        for packed, found in parts:
            unpack_results(packed, row_names, own[at : at + found], others[at : at + found])
            at += found
        return own, others

    def matrix(self, regions: Regions, row_numbers: Int32s) -> NDArray[np.bool_]:
        """A matrix (region, row) that says which regions match which rows."""
        rows = self.rows
        return row_kernels.matrix(rows.heads, rows.cells, self.index.dimensions.spaces, *regions, row_numbers)

    def update(self) -> None:
        """Bring the lists up to date with the rows."""
        self.index = updated(self.index, self._pending, self.row_count)

    def merge(self) -> None:
        """Bring the lists up to date and merge all levels into the base."""
        self.update()
        self.index = merged(self.index, self.row_count)

    def cuts_in_use(self, dimension: int) -> Int64s:
        """All cuts of a dimension that some row has, or has had since the cells were packed."""
        used = self.rows.cells[: self.rows.counts[CELLS_USED]]
        return np.unique(used[used[:, 0] == dimension, 1:])

    def replace_cuts(self, dimension: int, old: Int64s, new: Int64s) -> None:
        """Replace the cuts of a dimension by others in the same order, when the labels of strings have changed."""
        rows = np.arange(self.row_count, dtype=np.int32)
        regions = self.read(rows)
        own = regions.cells[regions.cells[:, 0] == dimension, 1:]
        at = np.searchsorted(old, own).clip(max=len(old) - 1)
        regions.cells[regions.cells[:, 0] == dimension, 1:] = np.where(old[at] == own, new[at], own)  # or unbounded
        self.write(rows, regions)

    def _search(
        self, olds: Regions, news: Regions, order: Int64s, names: Int32s, required: int, thread: int
    ) -> tuple[Int64s, int]:
        """Run the kernel with the query batch and the buffer of one thread."""
        queries = self._queries[thread]
        if len(queries.disjoint) < self.row_count:
            queries = queries._replace(disjoint=np.zeros(len(self.rows.heads), np.int64))
            self._queries[thread] = queries
        index, arrays = self._flat
        if index is not self.index:
            arrays = flat_arrays(self.index)
            self._flat = self.index, arrays
        buffer = self._found[thread]
        out, found = search(arrays, self.row_count, *olds, *news, order, names, required, tuple(queries), buffer)
        if len(buffer) < len(out) <= _KEPT:
            self._found[thread] = out
        return out, found

    def _check(self) -> None:
        """Assert that rows, lists and counts agree."""
        self.update()
        assert not self.rows.dirty.any()
        check_lists(self.index, self.row_count, set(self._free))
        for queries in self._queries:
            assert not queries.disjoint.any() and (queries.head == -1).all()
            assert (queries.bounds == (LOW, HIGH, LOW, HIGH)).all()


def _by_place(regions: Regions) -> Int64s:
    """An order in which neighbouring regions scan the same entries: by their first constraint."""
    first = np.minimum(regions.start[:-1], max(len(regions.cells) - 1, 0))
    cells = regions.cells[first] if len(regions.cells) else np.zeros((len(first), 3), np.int64)
    return np.lexsort((cells[:, 1], cells[:, 0]))
