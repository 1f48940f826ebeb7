"""Maintenance of the ordered lists: bring them up to date with the rows, and merge tail, run and base.

A search scans the whole tail, so the tail is merged into the run when it is long, and the run into the base when it
exceeds an eighth of it.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.array_types import Bytes, Int64s
from whimbrel.compiled.jit import kernel
from whimbrel.spaces.index.region_arrays import (
    AT,
    CELLS_LOST,
    CELLS_USED,
    COMPLETE,
    CUT,
    DEAD,
    DIMENSION,
    EXTREME,
    FIRST_CUT,
    HIGH,
    LENGTH,
    LOW,
    OTHER,
    PEER,
    PEER_HIGH,
    PEER_LOW,
    PENDING_USED,
    REACH,
    REAL,
    ROW_SHIFT,
    TAG,
    TAIL_USED,
    VALID,
    ZONE,
    IndexArrays,
    OrderedList,
    PendingWrites,
    RegionRows,
    empty_list,
    packed,
    with_tail,
)

TAIL = 2_048
"""The most entries of the tail; a search scans all of them."""
SHARE = 8
"""The run is merged into the base when it exceeds one SHARE-th of it."""
_MANY = 64
"""If more than one _MANY-th of all entries change, a merge replaces them; otherwise they are retired one by one."""


@kernel
def _retire(ends: OrderedList, d: int, cut: int, row: int) -> bool:
    """Mark the live entry of a row dead; False if it is not in this list."""
    entries, begin, end = ends.entries, ends.start[0, d], ends.start[0, d + 1]
    while begin < end:
        middle = (begin + end) >> 1
        there = entries[middle, TAG] >> ROW_SHIFT
        if entries[middle, CUT] < cut or (entries[middle, CUT] == cut and there < row):
            begin = middle + 1
        else:
            end = middle
    if begin < ends.start[0, d + 1] and entries[begin, CUT] == cut:
        tag = entries[begin, TAG]
        if tag >> ROW_SHIFT == row and tag & DEAD == 0:
            entries[begin, TAG], entries[begin, PEER_LOW] = tag | DEAD, HIGH
            return True
    return False


@kernel
def _retire_cell(index: IndexArrays, row: int, cell: Int64s, place: int) -> None:
    """Mark the entries of a cell dead, in the tail or in the lists."""
    if place >= 0:
        index.tail[place, TAG] |= DEAD
        return
    d, low, high = cell[0], cell[1], cell[2]
    if not _retire(index.lows, d, low, row):
        _retire(index.run_lows, d, low, row)
    if high != HIGH and not _retire(index.highs, d, high, row):
        _retire(index.run_highs, d, high, row)


@kernel
def _peer(cell: int, real: int) -> int:
    """The cell that is the peer of a cell, in a row with `real` cells of the user."""
    return (cell + 1) % real if cell < real else 0


@kernel
def _same(cells: Int64s, at: int, others: Int64s, other: int) -> bool:
    """Whether two cells are equal."""
    return bool(
        cells[at, 0] == others[other, 0] and cells[at, 1] == others[other, 1] and cells[at, 2] == others[other, 2]
    )


@kernel
def _enter(rows: RegionRows, tail: Int64s, row: int, cell: int) -> None:
    """Put the entry of a cell into the tail."""
    at, real, place = rows.heads[row, AT], rows.heads[row, REAL], rows.counts[TAIL_USED]
    rows.counts[TAIL_USED] += 1
    rows.place[at + cell] = place
    peer = at + _peer(cell, real)
    complete = COMPLETE if real == 1 or (real == 2 and cell < real) else 0
    tail[place, DIMENSION] = rows.cells[at + cell, 0]
    tail[place, CUT], tail[place, OTHER] = rows.cells[at + cell, 1], rows.cells[at + cell, 2]
    tail[place, TAG] = row << ROW_SHIFT | complete | rows.cells[peer, 0]
    tail[place, PEER_LOW], tail[place, PEER_HIGH] = rows.cells[peer, 1], rows.cells[peer, 2]


@kernel
def enter_pending(index: IndexArrays, pending: PendingWrites) -> None:
    """Bring the lists up to date, entry by entry: for few rows. The tail must have the capacity."""
    rows, tail = index.rows, index.tail
    for number in range(rows.counts[PENDING_USED]):
        row, old_real, begin = pending.rows[number, 0], pending.rows[number, 1], pending.rows[number, 2]
        old_length = pending.rows[number + 1, 2] - begin
        at, real, length = rows.heads[row, AT], rows.heads[row, REAL], rows.heads[row, LENGTH]
        alike = real == old_real and length == old_length
        for cell in range(old_length):
            peer = _peer(cell, old_real)
            if (
                alike
                and _same(rows.cells, at + cell, pending.cells, begin + cell)
                and _same(rows.cells, at + peer, pending.cells, begin + peer)
            ):
                rows.place[at + cell] = pending.place[begin + cell]
            else:
                _retire_cell(index, row, pending.cells[begin + cell], pending.place[begin + cell])
                if alike:
                    _enter(rows, tail, row, cell)
        if not alike:
            for cell in range(length):
                _enter(rows, tail, row, cell)
        rows.dirty[row] = 0
    rows.counts[PENDING_USED] = 0


@kernel
def replace_pending(rows: RegionRows, tail: Int64s, pending: PendingWrites) -> None:
    """Enter all pending rows anew: for many rows. The merge that must follow leaves out entries of dirty rows."""
    for place in range(rows.counts[TAIL_USED]):
        if rows.dirty[tail[place, TAG] >> ROW_SHIFT]:
            tail[place, TAG] |= DEAD
    for number in range(rows.counts[PENDING_USED]):
        row = pending.rows[number, 0]
        for cell in range(rows.heads[row, LENGTH]):
            _enter(rows, tail, row, cell)


@kernel
def clear_pending(rows: RegionRows, pending: PendingWrites) -> None:
    """Mark all pending rows as up to date."""
    for number in range(rows.counts[PENDING_USED]):
        rows.dirty[pending.rows[number, 0]] = 0
    rows.counts[PENDING_USED] = 0


@kernel
def settle(rows: RegionRows, entries: Int64s) -> None:
    """Mark the cells of these entries as no longer in the tail."""
    for place in range(len(entries)):
        row = entries[place, TAG] >> ROW_SHIFT
        at = rows.heads[row, AT]
        rows.place[at : at + rows.heads[row, LENGTH]] = -1


@kernel
def merge(left: OrderedList, right: OrderedList, dirty: Bytes, by_low: bool) -> OrderedList:
    """One list of the live entries of two, without the entries of dirty rows in the left one."""
    dimensions = left.start.shape[1] - 1
    a, b = left.entries, right.entries
    start = np.zeros((2, dimensions + 1), np.int64)
    entries = np.empty((len(a) + len(b), 5), np.int64)
    at = 0
    for d in range(dimensions):
        i, i_end = left.start[0, d], left.start[0, d + 1]
        j, j_end = right.start[0, d], right.start[0, d + 1]
        while i < i_end or j < j_end:
            if i < i_end and (a[i, TAG] & DEAD != 0 or dirty[a[i, TAG] >> ROW_SHIFT]):
                i += 1
            elif j < j_end and b[j, TAG] & DEAD != 0:
                j += 1
            elif j == j_end or (
                i < i_end and (a[i, CUT] < b[j, CUT] or (a[i, CUT] == b[j, CUT] and a[i, TAG] < b[j, TAG]))
            ):
                for column in range(5):
                    entries[at, column] = a[i, column]
                i += 1
                at += 1
            else:
                for column in range(5):
                    entries[at, column] = b[j, column]
                j += 1
                at += 1
        start[0, d + 1] = at
        start[1, d + 1] = start[1, d] + (at - start[0, d] + ZONE - 1) // ZONE
    kept = entries if at == len(entries) else entries[:at].copy()
    return OrderedList(start, kept, _zones(start, kept, by_low))


@kernel
def _zones(start: Int64s, entries: Int64s, by_low: bool) -> Int64s:
    """The summaries of zones; their columns are described in `region_arrays`."""
    dimensions = start.shape[1] - 1
    zones = np.empty((start[1, dimensions], 3), np.int64)
    for d in range(dimensions):
        count = start[1, d + 1] - start[1, d]
        furthest = LOW if by_low else HIGH
        for step in range(count):
            number = step if by_low else count - 1 - step
            begin = start[0, d] + number * ZONE
            extreme = LOW if by_low else HIGH
            for place in range(begin, min(begin + ZONE, start[0, d + 1])):
                other = entries[place, OTHER]
                extreme = max(extreme, other) if by_low else min(extreme, other)
            furthest = max(furthest, extreme) if by_low else min(furthest, extreme)
            zone = start[1, d] + number
            zones[zone, FIRST_CUT], zones[zone, EXTREME], zones[zone, REACH] = entries[begin, CUT], extreme, furthest
    return zones


def updated(index: IndexArrays, pending: PendingWrites, row_count: int) -> IndexArrays:
    """The index with lists that agree with its rows, and a tail of at most TAIL entries."""
    count = int(index.rows.counts[PENDING_USED])
    if count:
        cells = int(index.rows.heads[pending.rows[:count, 0], LENGTH].sum())
        index = with_tail(index, int(index.rows.counts[TAIL_USED]) + cells, TAIL)
        if cells < max(TAIL, len(index.lows.entries) // _MANY):
            enter_pending(index, pending)
        else:
            replace_pending(index.rows, index.tail, pending)
            index = merged(index, row_count)
            clear_pending(index.rows, pending)
    if index.rows.counts[TAIL_USED] > TAIL:
        index = _with_sorted_tail(index)
        if len(index.run_lows.entries) > max(TAIL, len(index.lows.entries) // SHARE):
            index = _with_merged_run(index, row_count)
    return index


def merged(index: IndexArrays, row_count: int) -> IndexArrays:
    """The index with everything in the base, and no dead entries."""
    return _with_merged_run(_with_sorted_tail(index), row_count)


def _with_sorted_tail(index: IndexArrays) -> IndexArrays:
    """The index with the tail merged into the run."""
    rows = index.rows
    tail = index.tail[: rows.counts[TAIL_USED]]
    live = tail[tail[:, TAG] & DEAD == 0]
    bounded = live[live[:, OTHER] != HIGH]
    bounded[:, [CUT, OTHER]] = bounded[:, [OTHER, CUT]]
    dimensions = len(index.dimensions.spaces)
    run_lows = merge(index.run_lows, _sorted(live, dimensions), rows.dirty, True)
    run_highs = merge(index.run_highs, _sorted(bounded, dimensions), rows.dirty, False)
    settle(rows, live)
    rows.counts[TAIL_USED] = 0
    return index._replace(run_lows=run_lows, run_highs=run_highs)


def _with_merged_run(index: IndexArrays, row_count: int) -> IndexArrays:
    """The index with the run merged into the base."""
    none = empty_list(len(index.dimensions.spaces))
    lows = merge(index.lows, index.run_lows, index.rows.dirty, True)
    highs = merge(index.highs, index.run_highs, index.rows.dirty, False)
    index = index._replace(lows=lows, highs=highs, run_lows=none, run_highs=none)
    return packed(index, row_count) if is_sparse(index) else index


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


def check_lists(index: IndexArrays, row_count: int, free: set[int]) -> None:
    """Assert that the lists hold one live entry for each cell of each row, in order, and nothing else. For tests."""
    rows = index.rows
    expected_lows, expected_highs = [], []
    for row in range(row_count):
        at, length, real = (int(rows.heads[row, column]) for column in (AT, LENGTH, REAL))
        assert (row in free) == (rows.heads[row, VALID] == 0) == (length == 0)
        for cell, (d, low, high) in enumerate(rows.cells[at : at + length].tolist()):
            peer, *ends = rows.cells[at + (cell + 1) % real if cell < real else at].tolist()
            complete = bool(real == 1 or (real == 2 and cell < real))
            expected_lows.append((d, low, row, high, complete, peer, *ends))
            if high != HIGH:
                expected_highs.append((d, high, row, low, complete, peer, *ends))
    tail_entries = index.tail[: rows.counts[TAIL_USED]].tolist()
    tail = [_entry(entry, entry[DIMENSION]) for entry in tail_entries if not entry[TAG] & DEAD]
    lows = tail + _entries(index.lows) + _entries(index.run_lows)
    highs = [(d, high, row, low, *rest) for d, low, row, high, *rest in tail if high != HIGH]
    highs += _entries(index.highs) + _entries(index.run_highs)
    assert sorted(lows) == sorted(expected_lows)
    assert sorted(highs) == sorted(expected_highs)


def _entries(ends: OrderedList) -> list[tuple[int, ...]]:
    """The live entries of a list, as `_entry` gives them. Asserts that all are in order."""
    found = []
    for d in range(ends.start.shape[1] - 1):
        entries = ends.entries[ends.start[0, d] : ends.start[0, d + 1]].tolist()
        keys = [(entry[CUT], entry[TAG] >> ROW_SHIFT) for entry in entries]
        assert keys == sorted(set(keys))
        found += [_entry(entry, d) for entry in entries if not entry[TAG] & DEAD]
    return found


def _entry(entry: list[int], dimension: int) -> tuple[int, ...]:
    """An entry as (dimension, cut, row, other end, is complete, peer, its low, its high)."""
    tag = entry[TAG]
    content = (bool(tag & COMPLETE), tag & PEER, entry[PEER_LOW], entry[PEER_HIGH])
    return dimension, entry[CUT], tag >> ROW_SHIFT, entry[OTHER], *content
