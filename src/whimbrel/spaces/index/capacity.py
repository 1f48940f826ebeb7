"""Capacity of the arrays of an index: empty arrays, and larger ones with the same content."""

from __future__ import annotations

import numpy as np

from whimbrel.spaces.index.region_arrays import (
    AT,
    CAPACITY,
    CELLS_LOST,
    CELLS_USED,
    LENGTH,
    PENDING_USED,
    DimensionSpaces,
    IndexArrays,
    Int32s,
    OrderedList,
    PendingWrites,
    RegionRows,
    empty_list,
)


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


def with_slots(index: IndexArrays, count: int) -> IndexArrays:
    """The index with at least `count` slots, and at least twice as many as it had."""
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


def pending_with(pending: PendingWrites, rows: RegionRows, slots: Int32s) -> PendingWrites:
    """The pending writes with capacity for these slots and the cells that they have now."""
    used = int(rows.counts[PENDING_USED])
    cells = int(pending.slots[used, 2]) if used else 0
    cells += int(rows.heads[slots, LENGTH].sum())
    if used + len(slots) >= len(pending.slots):
        size = max(used + len(slots) + 1, 2 * len(pending.slots))
        pending = pending._replace(slots=resized(pending.slots, size))
    if cells > len(pending.cells):
        size = max(cells, 2 * len(pending.cells))
        pending = pending._replace(cells=resized(pending.cells, size), place=resized(pending.place, size))
    return pending


def packed(index: IndexArrays, slots: int) -> IndexArrays:
    """The index without the cells that no row has any more. The tail must be empty."""
    rows = index.rows
    lengths = rows.heads[:slots, LENGTH]
    at = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    cells = np.empty((max(int(at[-1]), 1), 3), np.int64)
    source = np.repeat(rows.heads[:slots, AT] - at[:-1], lengths) + np.arange(at[-1])
    cells[: at[-1]] = rows.cells[source]
    rows.heads[:slots, AT], rows.heads[:slots, CAPACITY] = at[:-1], lengths
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
