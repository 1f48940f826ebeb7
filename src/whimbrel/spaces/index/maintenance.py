"""Maintenance of the ordered lists: bring them up to date with the rows, and merge tail, run and base.

A search scans the whole tail, so the tail is merged into the run when it is long, and the run into the base when it
exceeds an eighth of it.
"""

from __future__ import annotations

import numpy as np

from whimbrel.spaces.index import ordered_lists as list_kernels
from whimbrel.spaces.index.capacity import packed, with_tail
from whimbrel.spaces.index.region_arrays import (
    AT,
    CELLS_LOST,
    CELLS_USED,
    COMPLETE,
    CUT,
    DEAD,
    DIMENSION,
    HIGH,
    LENGTH,
    OTHER,
    PEER,
    PEER_HIGH,
    PEER_LOW,
    PENDING_USED,
    REAL,
    SLOT_SHIFT,
    TAG,
    TAIL_USED,
    VALID,
    IndexArrays,
    Int64s,
    OrderedList,
    PendingWrites,
    empty_list,
)

TAIL = 2_048
"""The most entries of the tail; a search scans all of them."""
SHARE = 8
"""The run is merged into the base when it exceeds one SHARE-th of it."""
_MANY = 64
"""If more than one _MANY-th of all entries change, a merge replaces them; otherwise they are retired one by one."""


def updated(index: IndexArrays, pending: PendingWrites, slots: int) -> IndexArrays:
    """The index with lists that agree with its rows, and a tail of at most TAIL entries."""
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


def merged(index: IndexArrays, slots: int) -> IndexArrays:
    """The index with everything in the base, and no dead entries."""
    return _with_merged_run(_with_sorted_tail(index), slots)


def _with_sorted_tail(index: IndexArrays) -> IndexArrays:
    """The index with the tail merged into the run."""
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


def _with_merged_run(index: IndexArrays, slots: int) -> IndexArrays:
    """The index with the run merged into the base."""
    none = empty_list(len(index.dimensions.spaces))
    lows = list_kernels.merge(index.lows, index.run_lows, index.rows.dirty, True)
    highs = list_kernels.merge(index.highs, index.run_highs, index.rows.dirty, False)
    index = index._replace(lows=lows, highs=highs, run_lows=none, run_highs=none)
    return packed(index, slots) if is_sparse(index) else index


def is_sparse(index: IndexArrays) -> bool:
    """Whether more than half of the cells belong to no row any more."""
    counts = index.rows.counts
    return bool(counts[CELLS_LOST] > max(TAIL, counts[CELLS_USED] // 2))


def _sorted(tail: Int64s, dimensions: int) -> OrderedList:
    """The entries of a tail as an ordered list without zones."""
    tail = tail[np.lexsort((tail[:, TAG], tail[:, CUT], tail[:, DIMENSION]))]
    start = np.zeros((2, dimensions + 1), np.int64)
    start[0] = np.searchsorted(tail[:, DIMENSION], np.arange(dimensions + 1))
    return OrderedList(start, np.ascontiguousarray(tail[:, : PEER_HIGH + 1]), np.zeros((0, 3), np.int64))


def check_lists(index: IndexArrays, slots: int, free: set[int]) -> None:
    """Assert that the lists hold one live entry for each cell of each row, in order, and nothing else. For tests."""
    rows = index.rows
    expected_lows, expected_highs = [], []
    for slot in range(slots):
        at, length, real = (int(rows.heads[slot, column]) for column in (AT, LENGTH, REAL))
        assert (slot in free) == (rows.heads[slot, VALID] == 0) == (length == 0)
        for cell, (d, low, high) in enumerate(rows.cells[at : at + length].tolist()):
            peer, *ends = rows.cells[at + (cell + 1) % real if cell < real else at].tolist()
            complete = bool(real == 1 or (real == 2 and cell < real))
            expected_lows.append((d, low, slot, high, complete, peer, *ends))
            if high != HIGH:
                expected_highs.append((d, high, slot, low, complete, peer, *ends))
    tail = [_entry(row, row[DIMENSION]) for row in index.tail[: rows.counts[TAIL_USED]].tolist() if not row[TAG] & DEAD]
    lows = tail + _entries(index.lows) + _entries(index.run_lows)
    highs = [(d, high, slot, low, *rest) for d, low, slot, high, *rest in tail if high != HIGH]
    highs += _entries(index.highs) + _entries(index.run_highs)
    assert sorted(lows) == sorted(expected_lows)
    assert sorted(highs) == sorted(expected_highs)


def _entries(ends: OrderedList) -> list[tuple[int, ...]]:
    """The live entries of a list, as `_entry` gives them. Asserts that all are in order."""
    found = []
    for d in range(ends.start.shape[1] - 1):
        rows = ends.entries[ends.start[0, d] : ends.start[0, d + 1]].tolist()
        keys = [(row[CUT], row[TAG] >> SLOT_SHIFT) for row in rows]
        assert keys == sorted(set(keys))
        found += [_entry(row, d) for row in rows if not row[TAG] & DEAD]
    return found


def _entry(row: list[int], dimension: int) -> tuple[int, ...]:
    """An entry as (dimension, cut, slot, other end, is complete, peer, its low, its high)."""
    tag = row[TAG]
    content = (bool(tag & COMPLETE), tag & PEER, row[PEER_LOW], row[PEER_HIGH])
    return dimension, row[CUT], tag >> SLOT_SHIFT, row[OTHER], *content
