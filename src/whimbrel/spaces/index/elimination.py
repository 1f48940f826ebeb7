"""Elimination: all regions except those that are disjoint in some dimension, space by space (ERR-19c).

It marks every entry outside the new region, then reads off the rows that are left. It is the cheapest strategy where
most regions match.
"""

from __future__ import annotations

from whimbrel.compiled.jit import kernel
from whimbrel.spaces.index.bounds import disjoint_places
from whimbrel.spaces.index.query import (
    NEW_HIGH,
    NEW_LOW,
    NEW_VALID,
    OLD_HIGH,
    OLD_LOW,
    OLD_VALID,
    TOUCHES,
    QueryBatch,
    with_capacity,
)
from whimbrel.spaces.index.region_arrays import (
    AT,
    CUT,
    DEAD,
    DIMENSION,
    OTHER,
    REAL,
    ROW_SHIFT,
    TAG,
    TAIL_USED,
    VALID,
    IndexArrays,
    Int64s,
    OrderedList,
    RegionRows,
)


@kernel
def _mark(entries: Int64s, spaces: int, disjoint: Int64s) -> None:
    """Mark the rows of live entries as disjoint in `spaces`."""
    for place in range(len(entries)):
        tag = entries[place, TAG]
        if tag & DEAD == 0:
            disjoint[tag >> ROW_SHIFT] |= spaces


@kernel
def _mark_disjoint(lows: OrderedList, highs: OrderedList, queries: QueryBatch, at: int, spaces: Int64s) -> None:
    """Mark each row with the spaces of the dimensions in which it is disjoint from the new region of query `at`."""
    for touch in range(queries.header[at, TOUCHES]):
        d = queries.touched[at, touch]
        bounds = queries.bounds[at, d]
        above, below = disjoint_places(lows, highs, d, bounds[NEW_LOW], bounds[NEW_HIGH])
        _mark(lows.entries[above : lows.start[0, d + 1]], spaces[d], queries.disjoint)
        _mark(highs.entries[highs.start[0, d] : below], spaces[d], queries.disjoint)


@kernel
def _matched(rows: RegionRows, row: int, shared: int, bounds: Int64s, spaces: Int64s) -> bool:
    """Whether a stored region matches the old region of a query in one of the `shared` spaces."""
    at = rows.heads[row, AT]
    for cell in range(at, at + rows.heads[row, REAL]):
        d = rows.cells[cell, 0]
        if rows.cells[cell, 1] >= bounds[d, OLD_HIGH] or bounds[d, OLD_LOW] >= rows.cells[cell, 2]:
            shared &= ~spaces[d]
    return shared != 0


@kernel
def eliminate(
    index: IndexArrays, row_count: int, queries: QueryBatch, at: int, required: int, number: int, out: Int64s,
    found: int,
) -> tuple[Int64s, int]:  # fmt: skip
    """Report all rows that no entry shows to be disjoint and that did not match before; clears the marks."""
    rows, tail, spaces, disjoint = index.rows, index.tail, index.dimensions.spaces, queries.disjoint
    _mark_disjoint(index.lows, index.highs, queries, at, spaces)
    _mark_disjoint(index.run_lows, index.run_highs, queries, at, spaces)
    bounds = queries.bounds[at]
    for place in range(rows.counts[TAIL_USED]):
        tag, d = tail[place, TAG], tail[place, DIMENSION]
        if tag & DEAD == 0 and (tail[place, CUT] >= bounds[d, NEW_HIGH] or bounds[d, NEW_LOW] >= tail[place, OTHER]):
            disjoint[tag >> ROW_SHIFT] |= spaces[d]
    out = with_capacity(out, found, found + row_count)
    old_valid, new_valid = queries.header[at, OLD_VALID], queries.header[at, NEW_VALID]
    for row in range(row_count):
        valid = rows.heads[row, VALID]
        left = valid & new_valid & ~disjoint[row]
        disjoint[row] = 0
        if left == 0 or rows.flags[row] & required != required:
            continue
        shared = valid & old_valid
        if shared == 0 or not _matched(rows, row, shared, bounds, spaces):
            out[found] = row << ROW_SHIFT | number
            found += 1
    return out, found
