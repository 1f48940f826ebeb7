"""Kernels on ordered lists: enter and retire the entries of changed rows, and merge lists."""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.jit import kernel
from whimbrel.spaces.index.region_arrays import (
    AT,
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
    PEER_HIGH,
    PEER_LOW,
    PENDING_USED,
    REACH,
    REAL,
    SLOT_SHIFT,
    TAG,
    TAIL_USED,
    ZONE,
    Bytes,
    IndexArrays,
    Int64s,
    OrderedList,
    PendingWrites,
    RegionRows,
)


@kernel
def _retire(ends: OrderedList, d: int, cut: int, slot: int) -> bool:
    """Mark the live entry of a slot dead; False if it is not in this list."""
    entries, begin, end = ends.entries, ends.start[0, d], ends.start[0, d + 1]
    while begin < end:
        middle = (begin + end) >> 1
        there = entries[middle, TAG] >> SLOT_SHIFT
        if entries[middle, CUT] < cut or (entries[middle, CUT] == cut and there < slot):
            begin = middle + 1
        else:
            end = middle
    if begin < ends.start[0, d + 1] and entries[begin, CUT] == cut:
        tag = entries[begin, TAG]
        if tag >> SLOT_SHIFT == slot and tag & DEAD == 0:
            entries[begin, TAG], entries[begin, PEER_LOW] = tag | DEAD, HIGH
            return True
    return False


@kernel
def _retire_cell(index: IndexArrays, slot: int, cell: Int64s, place: int) -> None:
    """Mark the entries of a cell dead, in the tail or in the lists."""
    if place >= 0:
        index.tail[place, TAG] |= DEAD
        return
    d, low, high = cell[0], cell[1], cell[2]
    if not _retire(index.lows, d, low, slot):
        _retire(index.run_lows, d, low, slot)
    if high != HIGH and not _retire(index.highs, d, high, slot):
        _retire(index.run_highs, d, high, slot)


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
def _enter(rows: RegionRows, tail: Int64s, slot: int, cell: int) -> None:
    """Put the entry of a cell into the tail."""
    at, real, place = rows.heads[slot, AT], rows.heads[slot, REAL], rows.counts[TAIL_USED]
    rows.counts[TAIL_USED] += 1
    rows.place[at + cell] = place
    peer = at + _peer(cell, real)
    complete = COMPLETE if real == 1 or (real == 2 and cell < real) else 0
    tail[place, DIMENSION] = rows.cells[at + cell, 0]
    tail[place, CUT], tail[place, OTHER] = rows.cells[at + cell, 1], rows.cells[at + cell, 2]
    tail[place, TAG] = slot << SLOT_SHIFT | complete | rows.cells[peer, 0]
    tail[place, PEER_LOW], tail[place, PEER_HIGH] = rows.cells[peer, 1], rows.cells[peer, 2]


@kernel
def enter_pending(index: IndexArrays, pending: PendingWrites) -> None:
    """Bring the lists up to date, entry by entry: for few slots. The tail must have the capacity."""
    rows, tail = index.rows, index.tail
    for number in range(rows.counts[PENDING_USED]):
        slot, old_real, begin = pending.slots[number, 0], pending.slots[number, 1], pending.slots[number, 2]
        old_length = pending.slots[number + 1, 2] - begin
        at, real, length = rows.heads[slot, AT], rows.heads[slot, REAL], rows.heads[slot, LENGTH]
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
                _retire_cell(index, slot, pending.cells[begin + cell], pending.place[begin + cell])
                if alike:
                    _enter(rows, tail, slot, cell)
        if not alike:
            for cell in range(length):
                _enter(rows, tail, slot, cell)
        rows.dirty[slot] = 0
    rows.counts[PENDING_USED] = 0


@kernel
def replace_pending(rows: RegionRows, tail: Int64s, pending: PendingWrites) -> None:
    """Enter all pending slots anew: for many slots. The merge that must follow leaves out entries of dirty slots."""
    for place in range(rows.counts[TAIL_USED]):
        if rows.dirty[tail[place, TAG] >> SLOT_SHIFT]:
            tail[place, TAG] |= DEAD
    for number in range(rows.counts[PENDING_USED]):
        slot = pending.slots[number, 0]
        for cell in range(rows.heads[slot, LENGTH]):
            _enter(rows, tail, slot, cell)


@kernel
def clear_pending(rows: RegionRows, pending: PendingWrites) -> None:
    """Mark all pending slots as up to date."""
    for number in range(rows.counts[PENDING_USED]):
        rows.dirty[pending.slots[number, 0]] = 0
    rows.counts[PENDING_USED] = 0


@kernel
def settle(rows: RegionRows, entries: Int64s) -> None:
    """Mark the cells of these entries as no longer in the tail."""
    for place in range(len(entries)):
        slot = entries[place, TAG] >> SLOT_SHIFT
        at = rows.heads[slot, AT]
        rows.place[at : at + rows.heads[slot, LENGTH]] = -1


@kernel
def merge(left: OrderedList, right: OrderedList, dirty: Bytes, by_low: bool) -> OrderedList:
    """One list of the live entries of two, without the entries of dirty slots in the left one."""
    dimensions = left.start.shape[1] - 1
    a, b = left.entries, right.entries
    start = np.zeros((2, dimensions + 1), np.int64)
    entries = np.empty((len(a) + len(b), 5), np.int64)
    at = 0
    for d in range(dimensions):
        i, i_end = left.start[0, d], left.start[0, d + 1]
        j, j_end = right.start[0, d], right.start[0, d + 1]
        while i < i_end or j < j_end:
            if i < i_end and (a[i, TAG] & DEAD != 0 or dirty[a[i, TAG] >> SLOT_SHIFT]):
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
