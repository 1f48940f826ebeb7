"""The arrays of one role's regions (of all publications, or of all subscriptions), as kernels take them.

A region is a row of cells (dimension, low cut, high cut). A cut is a 64-bit integer that stands for a place between
values: an interval holds the values whose cut c has low <= c < high. Rows are numbered; the row
of a deleted region is used again.

Beside the rows there are two ordered lists per dimension: all constraints by their low cut, and by their high cut
(docs/papers.md, subject spaces). Each list has three levels:

    base    sorted by (dimension, cut, row), large
    run     sorted likewise, at most an eighth of the base
    tail    the newest entries, unsorted

A write changes the row at once. The lists follow at the next search; until then the row is *pending*. An entry that
is no longer true is marked dead in place, and a merge leaves it out. Each entry carries one more constraint of its
region, its *peer*: most entries that a scan passes fail it, so the scan need not read the row.

A region that is valid in a space of few dimensions has an entry in each of them, an unbounded one where it has no
constraint. Thus the regions that overlap a value can be read off any one dimension. These cells come last in a row.

Values that are read together lie together, and the arrays are few: to pass an array to a kernel costs as much as to
scan a dozen entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Bytes, Int32s, Int64s

LOW, HIGH = -(1 << 63), (1 << 63) - 1
"""The cuts of an interval without a lower or an upper bound."""
ZONE = 32
"""Entries of an ordered list that share one summary of their other ends."""
FEW_DIMENSIONS = 8
"""In a space with at most this many dimensions every valid region has an entry in each."""


CUT, OTHER, TAG, PEER_LOW, PEER_HIGH, DIMENSION = range(6)
"""Columns of an entry: its cut, its other end, its tag, and the ends of its peer. An entry of the tail also has its
dimension, and its cut is the low one."""

ROW_SHIFT = 32
ROW = -1 << ROW_SHIFT
PEER = (1 << 24) - 1
COMPLETE = 1 << 24
"""Bit of a tag: the entry and its peer are all constraints of the region."""
DEAD = 1 << 25
"""Bit of a tag: the entry is no longer true, and its peer matches nothing. The bits above are the row, the bits below
the peer's dimension."""

FIRST_CUT, EXTREME, REACH = range(3)
"""Columns of a zone. In a list by low cuts: its first cut, the highest other end in it, and the highest other end in
all zones of the dimension up to it. In a list by high cuts: the lowest ones, and from this zone on."""

AT, CAPACITY, REAL, LENGTH, VALID = range(5)
"""Columns of a row's head: where its cells begin; how many cells fit there; how many the user gave; how many there are
with unbounded ones; the spaces in which the region is valid, one bit each, 0 for a free row."""

CELLS_USED, CELLS_LOST, TAIL_USED, PENDING_USED = range(4)
"""Places in `RegionRows.counts`."""


class OrderedList(NamedTuple):
    """One level of an ordered list: constraints by one of their cuts."""

    start: Int64s
    """(2, n + 1): where the entries of each dimension begin, and where its zones begin."""
    entries: Int64s
    zones: Int64s


class RegionRows(NamedTuple):
    """The cells of all regions, and a head per row that says where they are."""

    heads: Int64s
    flags: Bytes
    dirty: Bytes
    """1 where a row is pending."""
    cells: Int64s
    """(n, 3): dimension, low, high."""
    place: Int32s
    """Per cell: the place of its entry in the tail; -1 if it is in base or run."""
    counts: Int64s
    valid_in: Int64s
    """The number of regions that are valid in each space."""
    constrains: Int64s
    """The number of regions that constrain each dimension."""


class PendingWrites(NamedTuple):
    """Rows that have changed since their entries were made, with the cells that they had then."""

    rows: Int64s
    """(n, 3): the row, how many of its cells the user gave, and where its cells begin."""
    cells: Int64s
    place: Int32s


class DimensionSpaces(NamedTuple):
    """Per dimension the spaces that have it, one bit each: all of them, and those with few dimensions."""

    spaces: Int64s
    small: Int64s


class IndexArrays(NamedTuple):
    """All arrays of the regions of one role."""

    rows: RegionRows
    lows: OrderedList
    highs: OrderedList
    run_lows: OrderedList
    run_highs: OrderedList
    tail: Int64s
    dimensions: DimensionSpaces


def offsets(lengths: Int64s | Sequence[int]) -> Int64s:
    """Where runs of these lengths begin, and where the last one ends."""
    out = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=out[1:])
    return out


class Regions(NamedTuple):
    """A batch of regions. Region n has the cells start[n] to start[n + 1], sorted by dimension; it may have none."""

    start: Int64s
    cells: Int64s

    @staticmethod
    def of(rows: list[Any]) -> Regions:
        """A batch from one list or array of cells per region."""
        if len(rows) == 1 and isinstance(rows[0], np.ndarray):
            return Regions(np.array([0, len(rows[0])], np.int64), rows[0])
        start = offsets([len(row) for row in rows])
        if any(isinstance(row, np.ndarray) for row in rows):
            return Regions(start, np.concatenate([np.asarray(row, np.int64).reshape(-1, 3) for row in rows]))
        cells = np.array([cell for row in rows for cell in row], np.int64).reshape(-1, 3)
        return Regions(start, cells)

    @staticmethod
    def none(count: int) -> Regions:
        """A batch of regions without cells."""
        return Regions(np.zeros(count + 1, np.int64), np.zeros((0, 3), np.int64))

    def part(self, first: int, last: int) -> Regions:
        """The regions from `first` up to `last`, which is excluded."""
        start = self.start[first : last + 1]
        return Regions(start - start[0], self.cells[start[0] : start[-1]])

    def take(self, order: Int64s) -> Regions:
        """The regions with the numbers in `order`."""
        lengths = np.diff(self.start)[order]
        start = offsets(lengths)
        source = np.repeat(self.start[order] - start[:-1], lengths) + np.arange(start[-1])
        return Regions(start, self.cells[source])

    def cells_of(self, number: int) -> Int64s:
        """The cells of one region."""
        return self.cells[self.start[number] : self.start[number + 1]]


def empty_list(dimensions: int) -> OrderedList:
    """An ordered list without entries."""
    return OrderedList(np.zeros((2, dimensions + 1), np.int64), np.zeros((0, 5), np.int64), np.zeros((0, 3), np.int64))


def empty_index() -> IndexArrays:
    """An index without dimensions or regions."""
    none = np.zeros(0, np.int64)
    rows = RegionRows(
        np.zeros((0, 5), np.int64),
        np.zeros(0, np.uint8),
        np.zeros(0, np.uint8),
        np.zeros((0, 3), np.int64),
        np.zeros(0, np.int32),
        np.zeros(4, np.int64),
        np.zeros(64, np.int64),
        none,
    )
    ends, tail = empty_list(0), np.zeros((0, 6), np.int64)
    return IndexArrays(rows, ends, ends, ends, ends, tail, DimensionSpaces(none, none))


def empty_pending() -> PendingWrites:
    """Arrays without pending writes."""
    return PendingWrites(np.zeros((1, 3), np.int64), np.zeros((1, 3), np.int64), np.zeros(1, np.int32))


def with_dimensions(index: IndexArrays, dimensions: DimensionSpaces) -> IndexArrays:
    """The index with more dimensions, which no region constrains."""
    count = len(dimensions.spaces)
    rows = index.rows._replace(constrains=resized(index.rows.constrains, count))
    lists = [_widened(ends, count) for ends in (index.lows, index.highs, index.run_lows, index.run_highs)]
    return IndexArrays(rows, lists[0], lists[1], lists[2], lists[3], index.tail, dimensions)


def with_rows(index: IndexArrays, count: int) -> IndexArrays:
    """The index with at least `count` rows, and at least twice as many as it had."""
    rows, size = index.rows, max(2 * len(index.rows.heads), count, 64)
    heads, flags, dirty = (resized(array, size) for array in (rows.heads, rows.flags, rows.dirty))
    return index._replace(rows=rows._replace(heads=heads, flags=flags, dirty=dirty))


def with_cells(index: IndexArrays, count: int) -> IndexArrays:
    """The index with capacity for `count` more cells."""
    rows = index.rows
    needed = int(rows.counts[CELLS_USED]) + count
    if needed <= len(rows.cells):
        return index
    size = max(needed, 3 * len(rows.cells) // 2)
    return index._replace(rows=rows._replace(cells=resized(rows.cells, size), place=resized(rows.place, size)))


def with_tail(index: IndexArrays, needed: int, least: int) -> IndexArrays:
    """The index with capacity for `needed` entries in the tail; where it grows, for `least` or more."""
    if needed <= len(index.tail):
        return index
    return index._replace(tail=resized(index.tail, max(needed, 2 * len(index.tail), least)))


def pending_with(pending: PendingWrites, rows: RegionRows, row_numbers: Int32s) -> PendingWrites:
    """The pending writes with capacity for these rows and the cells that they have now."""
    used = int(rows.counts[PENDING_USED])
    cells = int(pending.rows[used, 2]) if used else 0
    cells += int(rows.heads[row_numbers, LENGTH].sum())
    if used + len(row_numbers) >= len(pending.rows):
        size = max(used + len(row_numbers) + 1, 2 * len(pending.rows))
        pending = pending._replace(rows=resized(pending.rows, size))
    if cells > len(pending.cells):
        size = max(cells, 2 * len(pending.cells))
        pending = pending._replace(cells=resized(pending.cells, size), place=resized(pending.place, size))
    return pending


def packed(index: IndexArrays, row_count: int) -> IndexArrays:
    """The index without the cells that no row has any more. The tail must be empty."""
    rows = index.rows
    lengths = rows.heads[:row_count, LENGTH]
    at = offsets(lengths)
    cells = np.empty((max(int(at[-1]), 1), 3), np.int64)
    source = np.repeat(rows.heads[:row_count, AT] - at[:-1], lengths) + np.arange(at[-1])
    cells[: at[-1]] = rows.cells[source]
    rows.heads[:row_count, AT], rows.heads[:row_count, CAPACITY] = at[:-1], lengths
    rows.counts[CELLS_USED], rows.counts[CELLS_LOST] = at[-1], 0
    return index._replace(rows=rows._replace(cells=cells, place=np.full(len(cells), -1, np.int32)))


def resized(array: np.ndarray, size: int) -> np.ndarray:
    """A copy of the array with length `size`, zeros at its end."""
    larger = np.zeros((size, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def _widened(ends: OrderedList, dimensions: int) -> OrderedList:
    """The list for more dimensions, which have no entries."""
    more = dimensions + 1 - ends.start.shape[1]
    return ends._replace(start=np.concatenate([ends.start, np.repeat(ends.start[:, -1:], more, axis=1)], axis=1))
