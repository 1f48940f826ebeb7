"""Room in the arrays of an index: empty ones, and larger ones with the same content."""

from __future__ import annotations

import numpy as np

from whimbrel.spaces.layout import (
    AT,
    CELLS_LOST,
    CELLS_USED,
    LENGTH,
    PENDING_USED,
    ROOM,
    Dimensions,
    Ends,
    Index,
    Int32s,
    Pending,
    Rows,
    empty_ends,
)


def empty_index() -> Index:
    """An index without dimensions or regions."""
    none = np.zeros(0, np.int64)
    rows = Rows(
        np.zeros((0, 5), np.int64),
        np.zeros(0, np.uint8),
        np.zeros(0, np.uint8),
        np.zeros((0, 3), np.int64),
        np.zeros(0, np.int32),
        np.zeros(4, np.int64),
        np.zeros(64, np.int64),
        none,
    )
    ends, tail = empty_ends(0), np.zeros((0, 6), np.int64)
    return Index(rows, ends, ends, ends, ends, tail, Dimensions(none, none))


def empty_pending() -> Pending:
    """Nothing pending."""
    return Pending(np.zeros((1, 3), np.int64), np.zeros((1, 3), np.int64), np.zeros(1, np.int32))


def with_dimensions(index: Index, dimensions: Dimensions) -> Index:
    """The index with more dimensions, of which no region says anything."""
    count = len(dimensions.spaces)
    rows = index.rows._replace(constrains=resized(index.rows.constrains, count))
    lists = [_widened(ends, count) for ends in (index.lows, index.highs, index.run_lows, index.run_highs)]
    return Index(rows, lists[0], lists[1], lists[2], lists[3], index.tail, dimensions)


def with_slots(index: Index, count: int) -> Index:
    """The index with so many slots, or twice as many as it had."""
    rows, size = index.rows, max(2 * len(index.rows.heads), count, 64)
    heads, flags, dirty = (resized(array, size) for array in (rows.heads, rows.flags, rows.dirty))
    return index._replace(rows=rows._replace(heads=heads, flags=flags, dirty=dirty))


def with_cells(index: Index, count: int) -> Index:
    """The index with room for so many more cells."""
    rows = index.rows
    needed = int(rows.counts[CELLS_USED]) + count
    if needed <= len(rows.cells):
        return index
    size = max(needed, 3 * len(rows.cells) // 2)
    return index._replace(rows=rows._replace(cells=resized(rows.cells, size), place=resized(rows.place, size)))


def with_tail(index: Index, needed: int, least: int) -> Index:
    """The index with room for so many entries in the tail."""
    if needed <= len(index.tail):
        return index
    return index._replace(tail=resized(index.tail, max(needed, 2 * len(index.tail), least)))


def pending_with(pending: Pending, rows: Rows, slots: Int32s) -> Pending:
    """Pending with room for these slots and the cells that they have now."""
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


def packed(index: Index, slots: int) -> Index:
    """The index without the cells that no row has any more. Only where the tail is empty."""
    rows = index.rows
    lengths = rows.heads[:slots, LENGTH]
    at = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    cells = np.empty((max(int(at[-1]), 1), 3), np.int64)
    source = np.repeat(rows.heads[:slots, AT] - at[:-1], lengths) + np.arange(at[-1])
    cells[: at[-1]] = rows.cells[source]
    rows.heads[:slots, AT], rows.heads[:slots, ROOM] = at[:-1], lengths
    rows.counts[CELLS_USED], rows.counts[CELLS_LOST] = at[-1], 0
    return index._replace(rows=rows._replace(cells=cells, place=np.full(len(cells), -1, np.int32)))


def resized(array: np.ndarray, size: int) -> np.ndarray:
    """The array with room for `size`, zeros where it is new."""
    larger = np.zeros((size, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def _widened(ends: Ends, dimensions: int) -> Ends:
    """The list for more dimensions, none of them with entries."""
    more = dimensions + 1 - ends.start.shape[1]
    return ends._replace(start=np.concatenate([ends.start, np.repeat(ends.start[:, -1:], more, axis=1)], axis=1))
