"""The searches of ALGORITHMS 19.2 and 19.3, compiled: all regions that match one, and those that begin to.

Both are one question: which stored regions match `new` and did not match `old`? With no old region it is
findAllMatched, with old and new exchanged it is newly unmatched. Spaces are bits: a pair matches iff a bit is left of
the spaces in which both are valid after removing, for each dimension in which they are disjoint, the spaces that have
it. So the subtraction is per space (ERR-19c), and what matches already through another space is no news (ERR-19d).

Three ways to the candidates, the cheapest by binary search of the lists is taken:

    flips     the entries between old and new ends: a pair that begins to match stops being disjoint in a dimension
    around    the entries of one dimension that overlap the new interval, for each space its most selective dimension
    all       all regions, minus those that an entry of any dimension shows to be disjoint

What is found is verified against rows, so that the way never matters to the answer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from whimbrel.spaces.layout import HIGH, LOW, TAIL_USED, WHOLE, ZONE, Ends, Index, Regions, Rows

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]

_FEW = 64
"""So few entries are passed without asking for a better way."""


class Query(NamedTuple):
    """One region before and after, spread over all dimensions, and the dimensions of which it says something."""

    old: Int64s
    new: Int64s
    touched: Int64s
    is_touched: NDArray[np.bool_]
    facts: Int64s
    """How many dimensions are touched; the spaces in which the old region is valid, and the new one."""
    flips: Int64s
    """By base or run and touched dimension: the ranges of entries between old and new ends, in both lists."""


class Scratch(NamedTuple):
    """Room of one search: who was found (by number of the question), who is disjoint (all zero between questions)."""

    stamps: Int32s
    disjoint: Int64s
    zones: Int64s
    chosen: Int64s


_TOUCHES, _OLD_VALID, _NEW_VALID = range(3)


@njit(cache=True, nogil=True)
def lower_bound(cuts: Int64s, begin: int, end: int, cut: int) -> int:
    """The first place in a sorted range whose cut is not below `cut`."""
    while begin < end:
        middle = (begin + end) >> 1
        if cuts[middle] < cut:
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(cache=True, nogil=True)
def _first(ends: Ends, d: int, cut: int) -> int:
    """The first place of dimension d whose cut is not below `cut`; looks at the zones first."""
    begin, end = int(ends.start[d]), int(ends.start[d + 1])
    if begin == end:
        return begin
    first = ends.zone_start[d]
    zone = lower_bound(ends.zone_cut, first, ends.zone_start[d + 1], cut) - first
    if zone > 0:
        begin += (zone - 1) * ZONE
    return lower_bound(ends.cut, begin, min(begin + ZONE, end), cut)


@njit(cache=True, nogil=True)
def _overlaps(cells: Int64s, at: int, real: int, shared: int, low: Int64s, high: Int64s, spaces: Int64s) -> bool:
    """Whether a row and the region in `low` and `high` match in one of the shared spaces."""
    for cell in range(at, at + real):
        d = cells[cell, 0]
        if cells[cell, 1] >= high[d] or low[d] >= cells[cell, 2]:
            shared &= ~spaces[d]
            if shared == 0:
                return False
    return shared != 0


@njit(cache=True, nogil=True)
def _ask(query: Query, spaces: Int64s, olds: Regions, news: Regions, number: int) -> None:
    """Spread a region over the dimensions."""
    touches = old_valid = new_valid = 0
    for cell in range(olds.start[number], olds.start[number + 1]):
        d = olds.cells[cell, 0]
        query.old[0, d], query.old[1, d] = olds.cells[cell, 1], olds.cells[cell, 2]
        old_valid |= spaces[d]
        query.touched[touches] = d
        query.is_touched[d] = True
        touches += 1
    for cell in range(news.start[number], news.start[number + 1]):
        d = news.cells[cell, 0]
        query.new[0, d], query.new[1, d] = news.cells[cell, 1], news.cells[cell, 2]
        new_valid |= spaces[d]
        if not query.is_touched[d]:
            query.touched[touches] = d
            query.is_touched[d] = True
            touches += 1
    query.facts[_TOUCHES], query.facts[_OLD_VALID], query.facts[_NEW_VALID] = touches, old_valid, new_valid


@njit(cache=True, nogil=True)
def _forget(query: Query) -> None:
    for touch in range(query.facts[_TOUCHES]):
        d = query.touched[touch]
        query.is_touched[d] = False
        query.old[0, d], query.old[1, d], query.new[0, d], query.new[1, d] = LOW, HIGH, LOW, HIGH


@njit(cache=True, nogil=True)
def _flips_up(lows: Ends, d: int, query: Query) -> tuple[int, int]:
    """The entries with old high <= low < new high, without those at the front that end before the new low."""
    above, up_to = query.old[1, d], query.new[1, d]
    start = lows.start[d]
    if above >= up_to or start == lows.start[d + 1]:
        return 0, 0
    first, last = lows.zone_start[d], lows.zone_start[d + 1]
    begin, end = _first(lows, d, above), _first(lows, d, up_to)
    zone = lower_bound(lows.reach, first + (begin - start) // ZONE, last, query.new[0, d] + 1) - first
    return min(max(begin, start + zone * ZONE), end), end


@njit(cache=True, nogil=True)
def _flips_down(highs: Ends, d: int, query: Query) -> tuple[int, int]:
    """The entries with new low < high <= old low, without those at the back that begin after the new high."""
    above, up_to = query.new[0, d], query.old[0, d]
    start = highs.start[d]
    if above >= up_to or start == highs.start[d + 1]:
        return 0, 0
    first = highs.zone_start[d]
    begin, end = _first(highs, d, above + 1), _first(highs, d, up_to + 1)
    zones = min(first + (end - start + ZONE - 1) // ZONE, highs.zone_start[d + 1])
    zone = lower_bound(highs.reach, first + (begin - start) // ZONE, zones, query.new[1, d]) - first
    return begin, max(min(end, start + zone * ZONE), begin)


@njit(cache=True, nogil=True)
def _disjoint_places(lows: Ends, highs: Ends, d: int, low: int, high: int) -> tuple[int, int]:
    """Where the low cuts from `high` on begin, and where the high cuts up to `low` end."""
    above = _first(lows, d, high)
    below = highs.start[d] if low == LOW else _first(highs, d, low + 1)
    return above, below


@njit(cache=True, nogil=True)
def _cost_of_flips(lows: Ends, highs: Ends, query: Query, level: int) -> int:
    """How many entries lie between old and new ends; notes where they are."""
    cost = 0
    for touch in range(query.facts[_TOUCHES]):
        d = query.touched[touch]
        up, up_end = _flips_up(lows, d, query)
        down, down_end = _flips_down(highs, d, query)
        flips = query.flips[level, touch]
        flips[0], flips[1], flips[2], flips[3] = up, up_end, down, down_end
        cost += up_end - up + down_end - down
    return cost


@njit(cache=True, nogil=True)
def _overlap_count(lows: Ends, highs: Ends, d: int, low: int, high: int) -> int:
    above, below = _disjoint_places(lows, highs, d, low, high)
    return int((above - lows.start[d]) - (below - highs.start[d]))


@njit(cache=True, nogil=True)
def _cost_around(index: Index, query: Query, chosen: Int64s) -> tuple[int, int]:
    """Choose a dimension for each space of the new region: the entries to pass, or HIGH, and how many are chosen."""
    spaces, small, rows = index.dimensions.spaces, index.dimensions.small, index.rows
    cost = width = position = 0
    rest = query.facts[_NEW_VALID]
    while rest != 0:
        if rest & 1:
            space = 1 << position
            best, least = -1, HIGH
            for touch in range(query.facts[_TOUCHES]):
                d = query.touched[touch]
                low, high = query.new[0, d], query.new[1, d]
                if spaces[d] & space == 0 or (low == LOW and high == HIGH):
                    continue
                if small[d] & space == 0 and rows.constrains[d] < rows.valid_in[position]:
                    continue  # some region of the space has no entry there
                count = _overlap_count(index.lows, index.highs, d, low, high)
                count += _overlap_count(index.run_lows, index.run_highs, d, low, high)
                if count < least:
                    best, least = d, count
            if best < 0:
                return HIGH, 0
            cost += least
            chosen[width] = best
            width += 1
        rest >>= 1
        position += 1
    return cost, width


@njit(cache=True, nogil=True)
def _cost_of_all(lows: Ends, highs: Ends, query: Query) -> int:
    """How many entries show a region to be disjoint."""
    cost = 0
    for touch in range(query.facts[_TOUCHES]):
        d = query.touched[touch]
        above, below = _disjoint_places(lows, highs, d, query.new[0, d], query.new[1, d])
        cost += lows.start[d + 1] - above + below - highs.start[d]
    return cost


@njit(cache=True, nogil=True)
def _grown(out: Int32s, needed: int) -> Int32s:
    if needed <= out.size:
        return out
    larger = np.empty(max(2 * out.size, needed), np.int32)
    larger[: out.size] = out
    return larger


@njit(cache=True, nogil=True)
def _scan(
    ends: Ends, begin: int, end: int, least: int, most: int, flipped: bool, rows: Rows, spaces: Int64s, query: Query,
    need: int, stamps: Int32s, stamp: int, out: Int32s, found: int,
) -> int:  # fmt: skip
    """Add the news among a list's entries with the other end from `least` to `most`; returns how many there are now.

    With `flipped` they overlap the new region in the list's dimension, did not overlap the old one, and no second space
    can change that: an entry that says all of its region needs no further look.
    """
    low, high, was_low, was_high = query.new[0], query.new[1], query.old[0], query.old[1]
    valid, was_valid = query.facts[_NEW_VALID], query.facts[_OLD_VALID]
    slots, others, peers = ends.slot, ends.other, ends.peer
    peer_low, peer_high = ends.peer_low, ends.peer_high
    cells, ats, reals, valids, flags = rows.cells, rows.at, rows.real, rows.valid, rows.flags
    for place in range(begin, end):
        if others[place] < least or others[place] > most:
            continue
        whole = peers[place] & WHOLE != 0
        d = peers[place] & ~WHOLE
        if (peer_low[place] >= high[d] or low[d] >= peer_high[place]) and valid & ~spaces[d] == 0:
            continue
        slot = slots[place]
        if slot < 0 or stamps[slot] == stamp or (need != 0 and flags[slot] & need != need):
            continue
        if flipped and whole:
            stamps[slot] = stamp
            out[found] = slot
            found += 1
            continue
        at, real = ats[slot], reals[slot]
        if not _overlaps(cells, at, real, valids[slot] & valid, low, high, spaces):
            continue
        shared = valids[slot] & was_valid
        if shared == 0 or not _overlaps(cells, at, real, shared, was_low, was_high, spaces):
            stamps[slot] = stamp
            out[found] = slot
            found += 1
    return found


@njit(cache=True, nogil=True)
def _find_flips(
    lows: Ends, highs: Ends, level: int, alone: bool, rows: Rows, spaces: Int64s, query: Query, need: int,
    stamps: Int32s, stamp: int, out: Int32s, found: int,
) -> tuple[Int32s, int]:  # fmt: skip
    """Scan the entries between old and new ends."""
    for touch in range(query.facts[_TOUCHES]):
        d = query.touched[touch]
        low, high = query.new[0, d], query.new[1, d]
        begin, end = query.flips[level, touch, 0], query.flips[level, touch, 1]
        if begin < end:
            out = _grown(out, found + end - begin)
            found = _scan(lows, begin, end, low + 1, HIGH, alone, rows, spaces, query, need, stamps, stamp, out, found)
        begin, end = query.flips[level, touch, 2], query.flips[level, touch, 3]
        if begin < end:
            out = _grown(out, found + end - begin)
            found = _scan(highs, begin, end, LOW, high - 1, alone, rows, spaces, query, need, stamps, stamp, out, found)
    return out, found


@njit(cache=True, nogil=True)
def _overlapping_zones(ends: Ends, d: int, low: int, high: int, zones: Int64s) -> tuple[int, int]:
    """Gather the zones of a list by low cuts with entries that overlap: how many, and where the low cuts end."""
    begin = ends.start[d]
    end = _first(ends, d, high)
    if end == begin:
        return 0, end
    first = ends.zone_start[d]
    last = first + (end - begin - 1) // ZONE
    count = 0
    for zone in range(lower_bound(ends.reach, first, last + 1, low + 1), last + 1):
        if ends.zone[zone] > low:
            zones[count] = zone
            count += 1
    return count, end


@njit(cache=True, nogil=True)
def _find_around(
    lows: Ends, rows: Rows, spaces: Int64s, query: Query, need: int, scratch: Scratch, width: int, stamp: int,
    out: Int32s, found: int,
) -> tuple[Int32s, int]:  # fmt: skip
    """Scan the entries of the chosen dimensions that overlap the new region."""
    for choice in range(width):
        d = scratch.chosen[choice]
        low = query.new[0, d]
        count, end = _overlapping_zones(lows, d, low, query.new[1, d], scratch.zones)
        out = _grown(out, found + count * ZONE)
        for at in range(count):
            begin = lows.start[d] + (scratch.zones[at] - lows.zone_start[d]) * ZONE
            stop = min(begin + ZONE, end)
            found = _scan(
                lows, begin, stop, low + 1, HIGH, False, rows, spaces, query, need, scratch.stamps, stamp, out, found
            )
    return out, found


@njit(cache=True, nogil=True)
def _mark(slots: Int32s, begin: int, end: int, spaces: int, disjoint: Int64s) -> None:
    for place in range(begin, end):
        slot = slots[place]
        if slot >= 0:
            disjoint[slot] |= spaces


@njit(cache=True, nogil=True)
def _mark_disjoint(lows: Ends, highs: Ends, query: Query, spaces: Int64s, disjoint: Int64s) -> None:
    """Note with each slot the spaces of the dimensions in which it is disjoint from the new region."""
    for touch in range(query.facts[_TOUCHES]):
        d = query.touched[touch]
        above, below = _disjoint_places(lows, highs, d, query.new[0, d], query.new[1, d])
        _mark(lows.slot, above, lows.start[d + 1], spaces[d], disjoint)
        _mark(highs.slot, highs.start[d], below, spaces[d], disjoint)


@njit(cache=True, nogil=True)
def _find_all(
    index: Index, slots: int, query: Query, need: int, disjoint: Int64s, out: Int32s, found: int
) -> tuple[Int32s, int]:
    """Go through all slots that no entry shows to be disjoint."""
    rows, tail, spaces = index.rows, index.tail, index.dimensions.spaces
    _mark_disjoint(index.lows, index.highs, query, spaces, disjoint)
    _mark_disjoint(index.run_lows, index.run_highs, query, spaces, disjoint)
    for place in range(rows.counts[TAIL_USED]):
        slot = tail.slot[place]
        if slot >= 0:
            d = tail.dimension[place]
            if tail.low[place] >= query.new[1, d] or query.new[0, d] >= tail.high[place]:
                disjoint[slot] |= spaces[d]
    out = _grown(out, found + slots)
    old_low, old_high = query.old[0], query.old[1]
    old_valid, new_valid = query.facts[_OLD_VALID], query.facts[_NEW_VALID]
    cells, ats, reals, valids, flags = rows.cells, rows.at, rows.real, rows.valid, rows.flags
    for slot in range(slots):
        valid = valids[slot]
        left = valid & new_valid & ~disjoint[slot]
        disjoint[slot] = 0
        if left == 0 or flags[slot] & need != need:
            continue
        shared = valid & old_valid
        if shared == 0 or not _overlaps(cells, ats[slot], reals[slot], shared, old_low, old_high, spaces):
            out[found] = slot
            found += 1
    return out, found


@njit(cache=True, nogil=True)
def _find_in_tail(
    index: Index, query: Query, need: int, stamps: Int32s, stamp: int, out: Int32s, found: int
) -> tuple[Int32s, int]:
    used = index.rows.counts[TAIL_USED]
    if used == 0:
        return out, found
    tail, none = index.tail, np.zeros(0, np.int64)
    entries = Ends(
        none, tail.low, tail.high, tail.slot, tail.peer, tail.peer_low, tail.peer_high, none, none, none, none
    )
    out = _grown(out, found + used)
    spaces = index.dimensions.spaces
    return out, _scan(entries, 0, used, LOW, HIGH, False, index.rows, spaces, query, need, stamps, stamp, out, found)


@njit(cache=True, nogil=True)
def search(
    index: Index, slots: int, olds: Regions, news: Regions, first: int, last: int, need: int,
    scratch: Scratch, stamp: int,
) -> tuple[Int64s, Int32s]:  # fmt: skip
    """For each of the regions from `first` to `last` the slots that match its new and did not match its old content.

    Returns where the slots of each region begin, and the slots. Only slots with all flags of `need` count. The stamps
    from `stamp` on, one for each region, must be unused.
    """
    rows, spaces, stamps = index.rows, index.dimensions.spaces, scratch.stamps
    count = spaces.size
    old, new = np.full((2, count), LOW, np.int64), np.full((2, count), LOW, np.int64)
    old[1, :], new[1, :] = HIGH, HIGH
    query = Query(
        old,
        new,
        np.empty(count, np.int64),
        np.zeros(count, np.bool_),
        np.zeros(3, np.int64),
        np.zeros((2, count, 4), np.int64),
    )
    begins = np.zeros(last - first + 1, np.int64)
    out, found = np.empty(1024, np.int32), 0
    alone = count > 0 and spaces.max() == 1
    for number in range(first, last):
        _ask(query, spaces, olds, news, number)
        flips = around = everything = HIGH
        width = 0
        if query.facts[_NEW_VALID] & ~query.facts[_OLD_VALID] == 0:
            flips = _cost_of_flips(index.lows, index.highs, query, 0)
            flips += _cost_of_flips(index.run_lows, index.run_highs, query, 1)
        if flips > _FEW:
            around, width = _cost_around(index, query, scratch.chosen)
            everything = _cost_of_all(index.lows, index.highs, query)
            everything += _cost_of_all(index.run_lows, index.run_highs, query)
            everything = (everything + slots) // 2  # to mark is cheaper than to verify
        if everything < flips and everything < around:
            out, found = _find_all(index, slots, query, need, scratch.disjoint, out, found)
        else:
            out, found = _find_in_tail(index, query, need, stamps, stamp, out, found)
            for level in range(2):
                lows = index.lows if level == 0 else index.run_lows
                highs = index.highs if level == 0 else index.run_highs
                if flips <= around:
                    out, found = _find_flips(
                        lows, highs, level, alone, rows, spaces, query, need, stamps, stamp, out, found
                    )
                else:
                    out, found = _find_around(lows, rows, spaces, query, need, scratch, width, stamp, out, found)
        begins[number - first + 1] = found
        _forget(query)
        stamp += 1
    return begins, out[:found]


@njit(cache=True, nogil=True)
def matrix(rows: Rows, spaces: Int64s, regions: Regions, slots: Int32s) -> NDArray[np.bool_]:
    """Which of some regions match which of some slots."""
    count = regions.start.size - 1
    held = np.zeros((count, slots.size), np.bool_)
    low, high = np.full(spaces.size, LOW, np.int64), np.full(spaces.size, HIGH, np.int64)
    for number in range(count):
        valid = 0
        for cell in range(regions.start[number], regions.start[number + 1]):
            d = regions.cells[cell, 0]
            low[d], high[d] = regions.cells[cell, 1], regions.cells[cell, 2]
            valid |= spaces[d]
        for column in range(slots.size):
            slot = slots[column]
            shared = rows.valid[slot] & valid
            held[number, column] = _overlaps(rows.cells, rows.at[slot], rows.real[slot], shared, low, high, spaces)
        for cell in range(regions.start[number], regions.start[number + 1]):
            d = regions.cells[cell, 0]
            low[d], high[d] = LOW, HIGH
    return held
