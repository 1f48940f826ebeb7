"""Changes of rows and lists, compiled: write rows, bring lists up to date, merge lists, merge partial updates."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from whimbrel.spaces.layout import (
    CELLS_LOST,
    CELLS_USED,
    HIGH,
    LOW,
    PENDING_USED,
    TAIL_USED,
    WHOLE,
    ZONE,
    Ends,
    Index,
    Pending,
    Regions,
    Rows,
    Tail,
)

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Flags = NDArray[np.uint8]


@njit(cache=True, nogil=True)
def _retire(ends: Ends, d: int, cut: int, slot: int) -> bool:
    """Mark a live entry dead; False if it is not in this list."""
    begin, end = ends.start[d], ends.start[d + 1]
    while begin < end:
        middle = (begin + end) >> 1
        at = ends.slot[middle]
        there = at if at >= 0 else ~at
        if ends.cut[middle] < cut or (ends.cut[middle] == cut and there < slot):
            begin = middle + 1
        else:
            end = middle
    if begin < ends.start[d + 1] and ends.cut[begin] == cut and ends.slot[begin] == slot:
        ends.slot[begin] = ~slot
        return True
    return False


@njit(cache=True, nogil=True)
def _retire_cell(index: Index, slot: int, cell: Int64s, place: int) -> None:
    """Take the entries of a cell out of the tail or the lists."""
    if place >= 0:
        index.tail.slot[place] = -1
        return
    d, low, high = cell[0], cell[1], cell[2]
    if not _retire(index.lows, d, low, slot):
        _retire(index.run_lows, d, low, slot)
    if high != HIGH and not _retire(index.highs, d, high, slot):
        _retire(index.run_highs, d, high, slot)


@njit(cache=True, nogil=True)
def _fill(cells: Int64s, real: int, spaces: Int64s, small: Int64s) -> tuple[int, int]:
    """Add unbounded cells for the small spaces in which a region is valid: its length, and where it is valid."""
    valid = 0
    for cell in range(real):
        valid |= spaces[cells[cell, 0]]
    length, said = real, 0
    for d in range(spaces.size):
        if said < real and cells[said, 0] == d:
            said += 1
        elif small[d] & valid != 0:
            cells[length, 0], cells[length, 1], cells[length, 2] = d, LOW, HIGH
            length += 1
    return length, valid


@njit(cache=True, nogil=True)
def _peer(cell: int, real: int) -> int:
    """The cell whose content goes with the entry of a cell."""
    return (cell + 1) % real if cell < real else 0


@njit(cache=True, nogil=True)
def _same(cells: Int64s, at: int, others: Int64s, other: int) -> bool:
    return bool(
        cells[at, 0] == others[other, 0] and cells[at, 1] == others[other, 1] and cells[at, 2] == others[other, 2]
    )


@njit(cache=True, nogil=True)
def _count(rows: Rows, slot: int, valid: int, by: int) -> None:
    """Note that a region is valid in spaces and says something of dimensions, or that it no longer does."""
    position = 0
    while valid != 0:
        if valid & 1:
            rows.valid_in[position] += by
        valid >>= 1
        position += 1
    at = rows.at[slot]
    for cell in range(at, at + rows.real[slot]):
        rows.constrains[rows.cells[cell, 0]] += by


@njit(cache=True, nogil=True)
def _remember(rows: Rows, pending: Pending, slot: int) -> None:
    """Keep the cells of a slot, of which its entries are."""
    number = rows.counts[PENDING_USED]
    rows.counts[PENDING_USED] += 1
    rows.dirty[slot] = 1
    at, length, begin = rows.at[slot], rows.length[slot], pending.start[number]
    pending.slot[number], pending.real[number] = slot, rows.real[slot]
    pending.start[number + 1] = begin + length
    for cell in range(length):
        for part in range(3):
            pending.cells[begin + cell, part] = rows.cells[at + cell, part]
        pending.place[begin + cell] = rows.place[at + cell]


@njit(cache=True, nogil=True)
def write_rows(rows: Rows, pending: Pending, spaces: Int64s, small: Int64s, slots: Int32s, regions: Regions) -> None:
    """Give slots new regions; none empties a slot. There must be room for all cells in rows and pending."""
    counts = rows.counts
    fresh = np.empty((spaces.size + 1, 3), np.int64)
    for number in range(slots.size):
        slot = slots[number]
        begin = regions.start[number]
        real = regions.start[number + 1] - begin
        for cell in range(real):
            for part in range(3):
                fresh[cell, part] = regions.cells[begin + cell, part]
        length, valid = _fill(fresh, real, spaces, small)
        if rows.dirty[slot] == 0:
            _remember(rows, pending, slot)
        _count(rows, slot, rows.valid[slot], -1)
        if length > rows.room[slot]:
            counts[CELLS_LOST] += rows.room[slot]
            rows.at[slot], rows.room[slot] = counts[CELLS_USED], length
            counts[CELLS_USED] += length
        rows.real[slot], rows.length[slot], rows.valid[slot] = real, length, valid
        at = rows.at[slot]
        for cell in range(length):
            for part in range(3):
                rows.cells[at + cell, part] = fresh[cell, part]
        _count(rows, slot, valid, 1)


@njit(cache=True, nogil=True)
def _enter(rows: Rows, tail: Tail, slot: int, cell: int) -> None:
    """Put the entry of a cell into the tail."""
    at, real, place = rows.at[slot], rows.real[slot], rows.counts[TAIL_USED]
    rows.counts[TAIL_USED] += 1
    rows.place[at + cell] = place
    peer = at + _peer(cell, real)
    whole = WHOLE if real == 1 or (real == 2 and cell < real) else 0
    tail.dimension[place], tail.slot[place] = rows.cells[at + cell, 0], slot
    tail.low[place], tail.high[place] = rows.cells[at + cell, 1], rows.cells[at + cell, 2]
    tail.peer[place] = rows.cells[peer, 0] | whole
    tail.peer_low[place], tail.peer_high[place] = rows.cells[peer, 1], rows.cells[peer, 2]


@njit(cache=True, nogil=True)
def enter_pending(index: Index, pending: Pending) -> None:
    """Bring the lists up to date, entry by entry: for few slots. There must be room in the tail."""
    rows, tail = index.rows, index.tail
    for number in range(rows.counts[PENDING_USED]):
        slot, old_real, begin = pending.slot[number], pending.real[number], pending.start[number]
        old_length = pending.start[number + 1] - begin
        at, real, length = rows.at[slot], rows.real[slot], rows.length[slot]
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


@njit(cache=True, nogil=True)
def replace_pending(rows: Rows, tail: Tail, pending: Pending) -> None:
    """Enter all pending slots anew: for many slots, whose old entries a merge leaves out while they are dirty."""
    for place in range(rows.counts[TAIL_USED]):
        slot = tail.slot[place]
        if slot >= 0 and rows.dirty[slot]:
            tail.slot[place] = -1
    for number in range(rows.counts[PENDING_USED]):
        slot = pending.slot[number]
        for cell in range(rows.length[slot]):
            _enter(rows, tail, slot, cell)


@njit(cache=True, nogil=True)
def clear_pending(rows: Rows, pending: Pending) -> None:
    """Note that the lists are up to date."""
    for number in range(rows.counts[PENDING_USED]):
        rows.dirty[pending.slot[number]] = 0
    rows.counts[PENDING_USED] = 0


@njit(cache=True, nogil=True)
def settle(rows: Rows, slots: Int32s) -> None:
    """Note that no entry of these slots is in the tail."""
    for number in range(slots.size):
        slot = slots[number]
        if slot >= 0:
            at = rows.at[slot]
            rows.place[at : at + rows.length[slot]] = -1


@njit(cache=True, nogil=True)
def merge(left: Ends, right: Ends, dirty: Flags, by_low: bool) -> Ends:
    """The live entries of two lists as one, without those of dirty slots in the left one."""
    dimensions = left.start.size - 1
    room = left.cut.size + right.cut.size
    start, zone_start = np.zeros(dimensions + 1, np.int64), np.zeros(dimensions + 1, np.int64)
    cut, other = np.empty(room, np.int64), np.empty(room, np.int64)
    slot, peer = np.empty(room, np.int32), np.empty(room, np.int32)
    peer_low, peer_high = np.empty(room, np.int64), np.empty(room, np.int64)
    at = 0
    for d in range(dimensions):
        i, i_end = left.start[d], left.start[d + 1]
        j, j_end = right.start[d], right.start[d + 1]
        while i < i_end or j < j_end:
            if i < i_end and (left.slot[i] < 0 or dirty[left.slot[i]]):
                i += 1
                continue
            if j < j_end and right.slot[j] < 0:
                j += 1
                continue
            take_left = j == j_end or (
                i < i_end
                and (left.cut[i] < right.cut[j] or (left.cut[i] == right.cut[j] and left.slot[i] < right.slot[j]))
            )
            if take_left:
                cut[at], other[at], slot[at], peer[at] = left.cut[i], left.other[i], left.slot[i], left.peer[i]
                peer_low[at], peer_high[at] = left.peer_low[i], left.peer_high[i]
                i += 1
            else:
                cut[at], other[at], slot[at], peer[at] = right.cut[j], right.other[j], right.slot[j], right.peer[j]
                peer_low[at], peer_high[at] = right.peer_low[j], right.peer_high[j]
                j += 1
            at += 1
        start[d + 1] = at
        zone_start[d + 1] = zone_start[d] + (at - start[d] + ZONE - 1) // ZONE
    zone, reach = np.empty(zone_start[dimensions], np.int64), np.empty(zone_start[dimensions], np.int64)
    zone_cut = np.empty(zone_start[dimensions], np.int64)
    for d in range(dimensions):
        for at_zone in range(zone_start[d], zone_start[d + 1]):
            zone_cut[at_zone] = cut[start[d] + (at_zone - zone_start[d]) * ZONE]
    _make_zones(start, other, zone_start, zone, reach, by_low)
    return Ends(
        start, cut[:at].copy(), other[:at].copy(), slot[:at].copy(), peer[:at].copy(),
        peer_low[:at].copy(), peer_high[:at].copy(), zone_start, zone_cut, zone, reach,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _make_zones(start: Int64s, other: Int64s, zone_start: Int64s, zone: Int64s, reach: Int64s, by_low: bool) -> None:
    """By low cuts: the highest other end of a zone, and of all zones up to it. By high cuts: the lowest, from it on."""
    for d in range(start.size - 1):
        count = zone_start[d + 1] - zone_start[d]
        furthest = LOW if by_low else HIGH
        for step in range(count):
            number = step if by_low else count - 1 - step
            begin = start[d] + number * ZONE
            extreme = LOW if by_low else HIGH
            for place in range(begin, min(begin + ZONE, start[d + 1])):
                extreme = max(extreme, other[place]) if by_low else min(extreme, other[place])
            furthest = max(furthest, extreme) if by_low else min(furthest, extreme)
            zone[zone_start[d] + number] = extreme
            reach[zone_start[d] + number] = furthest


@njit(cache=True, nogil=True)
def read_rows(rows: Rows, slots: Int32s) -> Regions:
    """The regions of slots, as users gave them."""
    start = np.zeros(slots.size + 1, np.int64)
    for number in range(slots.size):
        start[number + 1] = start[number] + rows.real[slots[number]]
    cells = np.empty((start[slots.size], 3), np.int64)
    for number in range(slots.size):
        at = rows.at[slots[number]]
        for cell in range(rows.real[slots[number]]):
            for part in range(3):
                cells[start[number] + cell, part] = rows.cells[at + cell, part]
    return Regions(start, cells)


@njit(cache=True, nogil=True)
def changed(olds: Regions, changes: Regions) -> Regions:
    """Regions after partial updates: a change with low > high removes the constraint, others replace or add it."""
    count = olds.start.size - 1
    start = np.zeros(count + 1, np.int64)
    cells = np.empty((olds.cells.shape[0] + changes.cells.shape[0], 3), np.int64)
    at = 0
    for number in range(count):
        i, i_end = olds.start[number], olds.start[number + 1]
        j, j_end = changes.start[number], changes.start[number + 1]
        while i < i_end or j < j_end:
            if j == j_end or (i < i_end and olds.cells[i, 0] < changes.cells[j, 0]):
                for part in range(3):
                    cells[at, part] = olds.cells[i, part]
                i += 1
                at += 1
                continue
            if i < i_end and olds.cells[i, 0] == changes.cells[j, 0]:
                i += 1
            if changes.cells[j, 1] <= changes.cells[j, 2]:
                for part in range(3):
                    cells[at, part] = changes.cells[j, part]
                at += 1
            j += 1
        start[number + 1] = at
    return Regions(start, cells[:at].copy())
