"""The ordered lists kept up to date with the rows: tail, run and base, merged when they get long."""

from __future__ import annotations

import numpy as np

from whimbrel.spaces.index import list_kernels
from whimbrel.spaces.index.room import packed, with_tail
from whimbrel.spaces.layout import (
    CELLS_LOST,
    CELLS_USED,
    CUT,
    DEAD,
    DIMENSION,
    HIGH,
    LENGTH,
    OTHER,
    PEER_HIGH,
    PENDING_USED,
    TAG,
    TAIL_USED,
    Ends,
    Index,
    Int64s,
    Pending,
    empty_ends,
)

TAIL = 2_048
"""A search passes at most so many entries in no order."""
SHARE = 8
"""The run may be so large a part of the base."""
_MANY = 64
"""From this part of all entries on, changed ones are replaced by a merge rather than one by one."""


def updated(index: Index, pending: Pending, slots: int) -> Index:
    """The index with lists that say the same as its rows, and a tail that is not long."""
    count = int(index.rows.counts[PENDING_USED])
    if count:
        cells = int(index.rows.heads[pending.slots[:count, 0], LENGTH].sum())
        index = with_tail(index, int(index.rows.counts[TAIL_USED]) + cells, TAIL)
        if cells < max(TAIL, len(index.lows.entries) // _MANY):
            list_kernels.enter_pending(index, pending)
        else:
            list_kernels.replace_pending(index.rows, index.tail, pending)
            index = merged(index, slots)
            list_kernels.clear_pending(index.rows, pending)
    if index.rows.counts[TAIL_USED] > TAIL:
        index = _with_sorted_tail(index)
        if len(index.run_lows.entries) > max(TAIL, len(index.lows.entries) // SHARE):
            index = _with_merged_run(index, slots)
    return index


def merged(index: Index, slots: int) -> Index:
    """The index with everything in the base, and no dead entries."""
    return _with_merged_run(_with_sorted_tail(index), slots)


def _with_sorted_tail(index: Index) -> Index:
    """The tail merged into the run."""
    rows = index.rows
    tail = index.tail[: rows.counts[TAIL_USED]]
    live = tail[tail[:, TAG] & DEAD == 0]
    bounded = live[live[:, OTHER] != HIGH]
    bounded[:, [CUT, OTHER]] = bounded[:, [OTHER, CUT]]
    dimensions = len(index.dimensions.spaces)
    run_lows = list_kernels.merge(index.run_lows, _sorted(live, dimensions), rows.dirty, True)
    run_highs = list_kernels.merge(index.run_highs, _sorted(bounded, dimensions), rows.dirty, False)
    list_kernels.settle(rows, live)
    rows.counts[TAIL_USED] = 0
    return index._replace(run_lows=run_lows, run_highs=run_highs)


def _with_merged_run(index: Index, slots: int) -> Index:
    """The run merged into the base."""
    none = empty_ends(len(index.dimensions.spaces))
    lows = list_kernels.merge(index.lows, index.run_lows, index.rows.dirty, True)
    highs = list_kernels.merge(index.highs, index.run_highs, index.rows.dirty, False)
    index = index._replace(lows=lows, highs=highs, run_lows=none, run_highs=none)
    return packed(index, slots) if is_sparse(index) else index


def is_sparse(index: Index) -> bool:
    """Whether most cells are of no row any more."""
    counts = index.rows.counts
    return bool(counts[CELLS_LOST] > max(TAIL, counts[CELLS_USED] // 2))


def _sorted(tail: Int64s, dimensions: int) -> Ends:
    """Entries of a tail as a list."""
    tail = tail[np.lexsort((tail[:, TAG], tail[:, CUT], tail[:, DIMENSION]))]
    start = np.zeros((2, dimensions + 1), np.int64)
    start[0] = np.searchsorted(tail[:, DIMENSION], np.arange(dimensions + 1))
    return Ends(start, np.ascontiguousarray(tail[:, : PEER_HIGH + 1]), np.zeros((0, 3), np.int64))
