"""The strategies of a search: crossing scan, overlap scan and elimination.

A crossing scan reads the entries between the old and the new ends of a region. A stored region that begins to match
stops being disjoint in some dimension, so one of its ends lies between the old and the new end there. A small move
crosses few entries, however many regions are stored. A region that several entries lead to is reported by its first
dimension.

An overlap scan reads the entries of one dimension that overlap the new region: for each space of the region, the most
selective dimension. A region that several chosen dimensions lead to is reported by the first of them.

Elimination marks every entry outside the new region, then reads off the rows that are left, space by space (ERR-19c).
It is the cheapest strategy where most regions match.

If one space has all dimensions and no flags are required, both scans decide a complete entry (the entry and its peer
are the whole region) without reading the row and without branches: whether it matches is hard to predict. Other entries
are decided by their rows. The tail has no order, so `tail_scan` checks all its entries, for both scans.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Bytes, Int32s, Int64s
from whimbrel.compiled.jit import kernel
from whimbrel.spaces.index.bounds import between, disjoint_places, first_place, lower_bound
from whimbrel.spaces.index.query import (
    CANDIDATES,
    CROSSED,
    ELIMINATED,
    IN_TAIL,
    NEW_HIGH,
    NEW_LOW,
    NEW_VALID,
    NOT_BEGUN,
    OLD_HIGH,
    OLD_LOW,
    OLD_VALID,
    OVERLAPPED,
    TOUCHES,
    QueryBatch,
    begins_in,
    is_first,
    with_capacity,
)
from whimbrel.spaces.index.region_arrays import (
    AT,
    COMPLETE,
    CUT,
    DEAD,
    DIMENSION,
    EXTREME,
    HIGH,
    LOW,
    OTHER,
    PEER,
    PEER_HIGH,
    PEER_LOW,
    REACH,
    REAL,
    ROW,
    ROW_SHIFT,
    TAG,
    TAIL_USED,
    VALID,
    ZONE,
    IndexArrays,
    OrderedList,
    RegionRows,
)

# Unsigned, so that Numba does not check for negative places.
_OTHER, _TAG, _PEER_LOW, _PEER_HIGH = np.uint64(OTHER), np.uint64(TAG), np.uint64(PEER_LOW), np.uint64(PEER_HIGH)
_NEW_LOW, _NEW_HIGH, _OLD_HIGH = np.uint64(NEW_LOW), np.uint64(NEW_HIGH), np.uint64(OLD_HIGH)


class QueryConditions(NamedTuple):
    """The conditions of a query beside its bounds."""

    valid: int
    """The spaces of the new region."""
    was_valid: int
    """The spaces of the old region."""
    required: int
    """Flags that a row must have."""
    one_space: bool
    """Whether one space has all dimensions and no flags are required."""
    number: int
    """The name of the region in the results."""


@kernel
def _crossed_complete(
    entries: Int64s, begin: int, end: int, least: int, most: int, d: int, bounds: Int64s, first: int, number: int,
    out: Int64s, found: int,
) -> tuple[int, bool]:  # fmt: skip
    """Report the complete entries from `begin` to `end` whose regions begin to match, in a crossing scan.

    The other end of an entry must be from `least` to `most`. Returns the number of results so far, and whether
    `_scan_rows` must look at the other entries. Arrays are flat; `first` is where the query's bounds begin.
    """
    has_others = False
    flip, bound = (0, least) if most == HIGH else (-1, ~most)  # one comparison: other <= most is ~other >= ~most
    for place in range(np.uint64(5 * begin), np.uint64(5 * end), np.uint64(5)):
        other, tag = entries[place + _OTHER], entries[place + _TAG]
        low, high = entries[place + _PEER_LOW], entries[place + _PEER_HIGH]
        peer = tag & PEER
        at = np.uint64(first + 4 * peer)
        good = (other ^ flip >= bound) & (low < bounds[at + _NEW_HIGH]) & (bounds[at + _NEW_LOW] < high)
        met = (low < bounds[at + _OLD_HIGH]) & (bounds[at] < high)
        is_complete = tag & COMPLETE != 0
        has_others |= good & (not is_complete)
        out[np.uint64(found)] = (tag & ROW) | number
        found += good & is_complete & (met | (peer >= d))
    return found, has_others


@kernel
def _overlapping_complete(
    entries: Int64s, begin: int, end: int, new_low: int, old_low: int, old_high: int, had: bool, bounds: Int64s,
    number: int, out: Int64s, found: int,
) -> tuple[int, bool]:  # fmt: skip
    """Report complete entries in an overlap scan. The low cuts of all entries are below the new high end."""
    has_others = False
    for place in range(np.uint64(5 * begin), np.uint64(5 * end), np.uint64(5)):
        other, tag = entries[place + _OTHER], entries[place + _TAG]
        low, high = entries[place + _PEER_LOW], entries[place + _PEER_HIGH]
        at = np.uint64(4 * (tag & PEER))
        good = (other > new_low) & (low < bounds[at + _NEW_HIGH]) & (bounds[at + _NEW_LOW] < high)
        met = had & (low < bounds[at + _OLD_HIGH]) & (bounds[at] < high)
        met &= (entries[place] < old_high) & (old_low < other)
        is_complete = tag & COMPLETE != 0
        has_others |= good & (not is_complete)
        out[np.uint64(found)] = (tag & ROW) | number
        found += good & is_complete & (not met)
    return found, has_others


@kernel
def _scan_rows(
    entries: Int64s, begin: int, end: int, least: int, most: int, d: int, chosen: Int64s, choice: int, heads: Int64s,
    cells: Int64s, flags: Bytes, spaces: Int64s, bounds: Int64s, asked: QueryConditions, out: Int64s, found: int,
) -> int:  # fmt: skip
    """Report the entries from `begin` to `end` whose regions begin to match, reading the row where the peer fits.

    The other end must be from `least` to `most`. With `choice` -1 dimension d must be the first in which the region
    stops being disjoint (crossing scan), else the first of the chosen ones that finds it (overlap scan). In one space
    complete entries are skipped.
    """
    for place in range(begin, end):
        other, tag = entries[place, OTHER], entries[place, TAG]
        if other < least or other > most or tag & DEAD != 0 or (asked.one_space and tag & COMPLETE != 0):
            continue
        peer, row = tag & PEER, tag >> ROW_SHIFT
        meets = entries[place, PEER_LOW] < bounds[peer, NEW_HIGH] and bounds[peer, NEW_LOW] < entries[place, PEER_HIGH]
        if (not meets and asked.valid & ~spaces[peer] == 0) or flags[row] & asked.required != asked.required:
            continue
        first = begins_in(heads, cells, row, spaces, bounds, asked.valid, asked.was_valid)
        if first == d if choice < 0 else first != NOT_BEGUN and is_first(heads, cells, row, bounds, chosen, choice):
            out[found] = row << ROW_SHIFT | asked.number
            found += 1
    return found


@kernel
def _scan_between(
    entries: Int64s, flat: Int64s, zones: Int32s, low: int, high: int, least: int, most: int, d: int, rows: RegionRows,
    spaces: Int64s, queries: QueryBatch, flat_bounds: Int64s, at: int, asked: QueryConditions, out: Int64s, found: int,
) -> int:  # fmt: skip
    """Scan the entries with low <= cut < high, which lie in the entry range `zones`."""
    begin, end = between(entries, zones[0], zones[1], low, high)
    queries.work[CROSSED] += end - begin
    queries.work[CANDIDATES] += end - begin
    has_others = True
    if asked.one_space:
        first = 4 * at * queries.head.size
        found, has_others = _crossed_complete(
            flat, begin, end, least, most, d, flat_bounds, first, asked.number, out, found
        )
    if has_others:
        found = _scan_rows(
            entries, begin, end, least, most, d, queries.chosen, -1, rows.heads, rows.cells, rows.flags, spaces,
            queries.bounds[at], asked, out, found,
        )  # fmt: skip
    return found


@kernel
def crossing_scan(
    rows: RegionRows, spaces: Int64s, lows: Int64s, highs: Int64s, level: int, d: int, queries: QueryBatch,
    numbers: Int64s, required: int, one_space: bool, out: Int64s, found: int,
) -> int:  # fmt: skip
    """Report the regions with an end of dimension d between old and new ends, for all queries linked to d.

    `lows` and `highs` are the entries of one level, the base (0) or the run (2). `out` must be large enough.
    """
    bounds, crossings, link = queries.bounds, queries.crossings, queries.link
    flat_lows, flat_highs, flat_bounds = lows.ravel(), highs.ravel(), bounds.ravel()
    dimensions = queries.head.size
    item = queries.head[d]
    while item >= 0:
        at, touch = item // dimensions, item % dimensions
        item = link[item]
        asked = QueryConditions(
            queries.header[at, NEW_VALID], queries.header[at, OLD_VALID], required, one_space, numbers[at]
        )
        up, down = crossings[at, touch, level], crossings[at, touch, level + 1]
        low, high = bounds[at, d, NEW_LOW], bounds[at, d, NEW_HIGH]
        if up[0] < up[1]:
            found = _scan_between(
                lows, flat_lows, up, bounds[at, d, OLD_HIGH], high, low + 1, HIGH, d, rows, spaces, queries,
                flat_bounds, at, asked, out, found,
            )  # fmt: skip
        if down[0] < down[1]:
            found = _scan_between(
                highs, flat_highs, down, low + 1, bounds[at, d, OLD_LOW] + 1, LOW, high - 1, d, rows, spaces, queries,
                flat_bounds, at, asked, out, found,
            )  # fmt: skip
    return found


@kernel
def overlap_scan(
    rows: RegionRows, spaces: Int64s, lows: OrderedList, width: int, queries: QueryBatch, at: int,
    asked: QueryConditions, out: Int64s, found: int,
) -> tuple[Int64s, int]:  # fmt: skip
    """Report the regions that begin to match query `at`, from one level of the chosen dimensions' lists.

    Skips zones in which all entries end below the new region. Returns the buffer, enlarged if needed, and the number
    of results.
    """
    bounds, chosen, zones, entries = queries.bounds[at], queries.chosen, lows.zones, lows.entries
    flat, flat_bounds = entries.ravel(), bounds.ravel()
    for choice in range(width):
        d = chosen[choice]
        low = bounds[d, NEW_LOW]
        start, end = lows.start[0, d], first_place(lows, d, bounds[d, NEW_HIGH])
        if end == start:
            continue
        first = lows.start[1, d]
        last = first + (end - start - 1) // ZONE
        zone = lower_bound(zones, REACH, first, last + 1, low + 1)
        out = with_capacity(out, found, found + end - start - (zone - first) * ZONE)
        while zone <= last:
            begin = start + (zone - first) * ZONE
            while zone <= last and zones[zone, EXTREME] > low:
                zone += 1
            stop = min(start + (zone - first) * ZONE, end)
            queries.work[OVERLAPPED] += stop - begin
            queries.work[CANDIDATES] += stop - begin
            has_others = True
            if asked.one_space:
                found, has_others = _overlapping_complete(
                    flat, begin, stop, low, bounds[d, OLD_LOW], bounds[d, OLD_HIGH], asked.was_valid != 0, flat_bounds,
                    asked.number, out, found,
                )  # fmt: skip
            if has_others:
                found = _scan_rows(
                    entries, begin, stop, low + 1, HIGH, d, chosen, choice, rows.heads, rows.cells, rows.flags, spaces,
                    bounds, asked, out, found,
                )  # fmt: skip
            zone += 1
    return out, found


@kernel
def tail_scan(
    index: IndexArrays, width: int, queries: QueryBatch, at: int, asked: QueryConditions, out: Int64s, found: int
) -> tuple[Int64s, int]:
    """Report the regions in the tail that begin to match query `at`, each by one entry.

    With `width` 0 that entry is the first crossed one, as in a crossing scan; otherwise the first of the `width` chosen
    dimensions, as in an overlap scan. Returns the buffer, enlarged if needed, and the number of results.
    """
    used, tail, rows, spaces = index.rows.counts[TAIL_USED], index.tail, index.rows, index.dimensions.spaces
    bounds, chosen = queries.bounds[at], queries.chosen
    queries.work[IN_TAIL] += used
    queries.work[CANDIDATES] += used
    out = with_capacity(out, found, found + used)
    for place in range(used):
        tag, d = tail[place, TAG], tail[place, DIMENSION]
        low, high, peer = tail[place, CUT], tail[place, OTHER], tag & PEER
        if tag & DEAD != 0 or low >= bounds[d, NEW_HIGH] or bounds[d, NEW_LOW] >= high:
            continue
        if width == 0 and low < bounds[d, OLD_HIGH] and bounds[d, OLD_LOW] < high:
            continue
        low, high = tail[place, PEER_LOW], tail[place, PEER_HIGH]
        if (low >= bounds[peer, NEW_HIGH] or bounds[peer, NEW_LOW] >= high) and asked.valid & ~spaces[peer] == 0:
            continue
        row = tag >> ROW_SHIFT
        if rows.flags[row] & asked.required != asked.required:
            continue
        first = begins_in(rows.heads, rows.cells, row, spaces, bounds, asked.valid, asked.was_valid)
        is_found = width == 0 and first == d
        for choice in range(width):
            if chosen[choice] == d:
                is_found = first != NOT_BEGUN and is_first(rows.heads, rows.cells, row, bounds, chosen, choice)
        if is_found:
            out[found] = row << ROW_SHIFT | asked.number
            found += 1
    return out, found


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
        queries.work[ELIMINATED] += lows.start[0, d + 1] - above + below - highs.start[0, d]
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
    index: IndexArrays, row_count: int, queries: QueryBatch, at: int, asked: QueryConditions, out: Int64s, found: int
) -> tuple[Int64s, int]:
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
    candidates = 0
    for row in range(row_count):
        valid = rows.heads[row, VALID]
        left = valid & asked.valid & ~disjoint[row]
        disjoint[row] = 0
        candidates += left != 0
        if left == 0 or rows.flags[row] & asked.required != asked.required:
            continue
        shared = valid & asked.was_valid
        if shared == 0 or not _matched(rows, row, shared, bounds, spaces):
            out[found] = row << ROW_SHIFT | asked.number
            found += 1
    queries.work[CANDIDATES] += candidates
    queries.work[IN_TAIL] += rows.counts[TAIL_USED]
    return out, found
