"""A batch of queries: each asks which stored regions match a region's new content and did not match its old content.

The ends of the old and the new region are kept per dimension, unbounded where a region has no constraint, so that a
kernel compares an entry with a query without searching for the query's constraint.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.compiled.jit import kernel
from whimbrel.spaces.index.region_arrays import AT, HIGH, LENGTH, LOW, REAL, VALID

BATCH_SIZE = 32
"""Queries that are answered together: their bounds and the lists of one dimension stay in the cache."""
_MOST_BOUNDS = 4_096
"""Bounds of one batch (queries times dimensions), so that they stay in the cache in spaces of many dimensions."""

OLD_LOW, OLD_HIGH, NEW_LOW, NEW_HIGH = range(4)
"""Columns of `QueryBatch.bounds`."""
TOUCHES, OLD_VALID, NEW_VALID = range(3)
"""Columns of `QueryBatch.header`."""

WORK = ("crossing_entries", "overlap_entries", "elimination_entries", "tail_entries", "candidates")
"""What a search counts: the entries that each strategy passes; and the regions that are checked then, which are those
of the entries of scans, and the rows that elimination leaves."""
CROSSED, OVERLAPPED, ELIMINATED, IN_TAIL, CANDIDATES = range(5)
"""Places in `QueryBatch.work`."""

NOT_BEGUN, NO_DIMENSION = -2, -1
"""Results of `begins_in` that are not dimensions: the region does not begin to match; it does, but it was disjoint
from the old region in no dimension."""


class QueryBatch(NamedTuple):
    """The queries of one thread. Between searches all bounds are unbounded, no query is linked, and no row marked."""

    bounds: Int64s
    """By query and dimension: the old ends and the new ends."""
    touched: Int32s
    """By query: the dimensions that the old or the new region constrains."""
    header: Int64s
    """By query: the number of touched dimensions; the spaces of the old region; the spaces of the new one."""
    crossings: Int32s
    """By query, touched dimension, and level: the range of entries between old and new ends, by low cuts and by high.
    Levels 0 and 1 are the base, 2 and 3 the run."""
    head: Int32s
    """By dimension: the last query whose crossing scan reads it, as query * dimensions + touch; -1 for none."""
    link: Int32s
    """By query and touch: the query before it in the same dimension's chain; -1 at its end."""
    chosen: Int64s
    """The dimensions that an overlap scan of one query reads: for each space the most selective."""
    disjoint: Int64s
    """By row: the spaces of the dimensions in which elimination found it disjoint."""
    work: Int64s
    """What searches have done so far, by the counters of `WORK`."""


def empty_queries(dimensions: int) -> QueryBatch:
    """A batch without queries. It holds fewer queries where there are many dimensions."""
    count = max(1, min(BATCH_SIZE, _MOST_BOUNDS // max(dimensions, 1)))
    bounds = np.empty((count, dimensions, 4), np.int64)
    bounds[:, :, :] = (LOW, HIGH, LOW, HIGH)
    return QueryBatch(
        bounds,
        np.zeros((count, dimensions), np.int32),
        np.zeros((count, 3), np.int64),
        np.zeros((count, dimensions, 4, 2), np.int32),
        np.full(dimensions, -1, np.int32),
        np.zeros(count * dimensions, np.int32),
        np.zeros(64, np.int64),
        np.zeros(0, np.int64),
        np.zeros(len(WORK), np.int64),
    )


@kernel
def set_query(
    queries: QueryBatch, at: int, spaces: Int64s, old: Int64s, i: int, i_end: int, new: Int64s, j: int, j_end: int
) -> None:
    """Fill query `at` with the old cells i to i_end and the new cells j to j_end."""
    bounds, touched, header = queries.bounds, queries.touched, queries.header
    touches = old_valid = new_valid = 0
    while i < i_end or j < j_end:
        has_old = i < i_end and (j == j_end or old[i, 0] <= new[j, 0])
        has_new = j < j_end and (i == i_end or new[j, 0] <= old[i, 0])
        d = old[i, 0] if has_old else new[j, 0]
        if has_old:
            bounds[at, d, OLD_LOW], bounds[at, d, OLD_HIGH] = old[i, 1], old[i, 2]
            old_valid |= spaces[d]
            i += 1
        if has_new:
            bounds[at, d, NEW_LOW], bounds[at, d, NEW_HIGH] = new[j, 1], new[j, 2]
            new_valid |= spaces[d]
            j += 1
        touched[at, touches] = d
        touches += 1
    header[at, TOUCHES], header[at, OLD_VALID], header[at, NEW_VALID] = touches, old_valid, new_valid


@kernel
def clear_query(queries: QueryBatch, at: int) -> None:
    """Make the bounds of a query unbounded again."""
    bounds = queries.bounds
    for touch in range(queries.header[at, TOUCHES]):
        d = queries.touched[at, touch]
        bounds[at, d, OLD_LOW], bounds[at, d, OLD_HIGH] = LOW, HIGH
        bounds[at, d, NEW_LOW], bounds[at, d, NEW_HIGH] = LOW, HIGH


@kernel
def begins_in(
    heads: Int64s, cells: Int64s, row: int, spaces: Int64s, bounds: Int64s, valid: int, was_valid: int
) -> int:
    """The first dimension in which a region that begins to match stops being disjoint; NOT_BEGUN if it does not begin.

    Reads the row. `bounds` are those of one query; `valid` and `was_valid` are the spaces of its new and old region.
    """
    shared, was = heads[row, VALID] & valid, heads[row, VALID] & was_valid
    if shared == 0:
        return NOT_BEGUN
    first = NO_DIMENSION
    at = heads[row, AT]
    for cell in range(at, at + heads[row, REAL]):
        d, low, high = cells[cell, 0], cells[cell, 1], cells[cell, 2]
        meets = low < bounds[d, NEW_HIGH] and bounds[d, NEW_LOW] < high
        if not meets:
            shared &= ~spaces[d]
            if shared == 0:
                return NOT_BEGUN
        if low >= bounds[d, OLD_HIGH] or bounds[d, OLD_LOW] >= high:
            was &= ~spaces[d]
            if meets and first < 0:
                first = d
    return first if was == 0 else NOT_BEGUN


@kernel
def is_first(heads: Int64s, cells: Int64s, row: int, bounds: Int64s, chosen: Int64s, choice: int) -> bool:
    """Whether no chosen dimension before `choice` finds the region too: each region is reported once."""
    at = heads[row, AT]
    for before in range(choice):
        d = chosen[before]
        for cell in range(at, at + heads[row, LENGTH]):
            if cells[cell, 0] == d:
                if cells[cell, 1] < bounds[d, NEW_HIGH] and bounds[d, NEW_LOW] < cells[cell, 2]:
                    return False
                break
    return True


@kernel
def with_capacity(out: Int64s, found: int, needed: int) -> Int64s:
    """The buffer of results, or a larger copy of it that holds `needed` results."""
    if needed <= len(out):
        return out
    larger = np.empty(max(3 * len(out) // 2, needed), np.int64)
    larger[:found] = out[:found]
    return larger
