"""Overlap scan: the entries of one dimension that overlap the new region, for each space of the region.

The dimension is the most selective one of the space. Each overlapping entry is checked as in the crossing scan. A
region that several chosen dimensions lead to is reported by the first of them.

The tail has no order, so `tail_scan` checks all its entries, for overlap and crossing scans alike.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.jit import kernel
from whimbrel.spaces.index.bounds import first_place, lower_bound
from whimbrel.spaces.index.query import (
    NEW_HIGH,
    NEW_LOW,
    NEW_VALID,
    NOT_BEGUN,
    OLD_HIGH,
    OLD_LOW,
    OLD_VALID,
    QueryBatch,
    begins_in,
    is_first,
    with_capacity,
)
from whimbrel.spaces.index.region_arrays import (
    COMPLETE,
    CUT,
    DEAD,
    DIMENSION,
    EXTREME,
    OTHER,
    PEER,
    PEER_HIGH,
    PEER_LOW,
    REACH,
    ROW,
    ROW_SHIFT,
    TAG,
    TAIL_USED,
    ZONE,
    Bytes,
    IndexArrays,
    Int64s,
    OrderedList,
    RegionRows,
)

# Unsigned, so that Numba does not check for negative places.
_OTHER, _TAG, _PEER_LOW, _PEER_HIGH = np.uint64(OTHER), np.uint64(TAG), np.uint64(PEER_LOW), np.uint64(PEER_HIGH)
_NEW_LOW, _NEW_HIGH, _OLD_HIGH = np.uint64(NEW_LOW), np.uint64(NEW_HIGH), np.uint64(OLD_HIGH)


@kernel
def _scan_complete(
    entries: Int64s, begin: int, end: int, new_low: int, old_low: int, old_high: int, had: bool, bounds: Int64s,
    number: int, out: Int64s, found: int,
) -> tuple[int, bool]:  # fmt: skip
    """Report the complete entries from `begin` to `end` whose regions begin to match. It reads no rows.

    Returns the number of results so far, and whether `_scan_rows` must look at the other entries. Arrays are flat. The
    loop has no branches: whether a region matches is hard to predict.
    """
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
    entries: Int64s, begin: int, end: int, chosen: Int64s, choice: int, heads: Int64s, cells: Int64s, flags: Bytes,
    spaces: Int64s, bounds: Int64s, valid: int, was_valid: int, required: int, one_space: bool, number: int,
    out: Int64s, found: int,
) -> int:  # fmt: skip
    """Report the entries from `begin` to `end` whose regions begin to match, reading the row where the peer fits.

    The low cuts of all these entries are below the new high end. With `one_space` complete entries are skipped.
    """
    new_low = bounds[chosen[choice], NEW_LOW]
    for place in range(begin, end):
        tag = entries[place, TAG]
        if entries[place, OTHER] <= new_low or tag & DEAD != 0 or (one_space and tag & COMPLETE != 0):
            continue
        peer, row = tag & PEER, tag >> ROW_SHIFT
        meets = entries[place, PEER_LOW] < bounds[peer, NEW_HIGH] and bounds[peer, NEW_LOW] < entries[place, PEER_HIGH]
        if not meets and valid & ~spaces[peer] == 0:
            continue
        if (
            flags[row] & required == required
            and begins_in(heads, cells, row, spaces, bounds, valid, was_valid) != NOT_BEGUN
            and is_first(heads, cells, row, bounds, chosen, choice)
        ):
            out[found] = row << ROW_SHIFT | number
            found += 1
    return found


@kernel
def overlap_scan(
    rows: RegionRows, spaces: Int64s, lows: OrderedList, width: int, queries: QueryBatch, at: int, required: int,
    one_space: bool, number: int, out: Int64s, found: int,
) -> tuple[Int64s, int]:  # fmt: skip
    """Report the regions that begin to match query `at`, from one level of the chosen dimensions' lists.

    Skips zones in which all entries end below the new region. Returns the buffer, enlarged if needed, and the number
    of results.
    """
    bounds, chosen, zones, entries = queries.bounds[at], queries.chosen, lows.zones, lows.entries
    valid, was_valid = queries.header[at, NEW_VALID], queries.header[at, OLD_VALID]
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
            has_others = True
            if one_space:
                found, has_others = _scan_complete(
                    flat, begin, stop, low, bounds[d, OLD_LOW], bounds[d, OLD_HIGH], was_valid != 0, flat_bounds,
                    number, out, found,
                )  # fmt: skip
            if has_others:
                found = _scan_rows(
                    entries, begin, stop, chosen, choice, rows.heads, rows.cells, rows.flags, spaces, bounds, valid,
                    was_valid, required, one_space, number, out, found,
                )  # fmt: skip
            zone += 1
    return out, found


@kernel
def tail_scan(
    index: IndexArrays, width: int, queries: QueryBatch, at: int, required: int, number: int, out: Int64s, found: int
) -> tuple[Int64s, int]:
    """Report the regions in the tail that begin to match query `at`, each by one entry.

    With `width` 0 that entry is the first crossed one, as in a crossing scan; otherwise the first of the `width` chosen
    dimensions, as in an overlap scan. Returns the buffer, enlarged if needed, and the number of results.
    """
    used, tail, rows, spaces = index.rows.counts[TAIL_USED], index.tail, index.rows, index.dimensions.spaces
    bounds, chosen = queries.bounds[at], queries.chosen
    valid, was_valid = queries.header[at, NEW_VALID], queries.header[at, OLD_VALID]
    out = with_capacity(out, found, found + used)
    for place in range(used):
        tag, d = tail[place, TAG], tail[place, DIMENSION]
        low, high, peer = tail[place, CUT], tail[place, OTHER], tag & PEER
        if tag & DEAD != 0 or low >= bounds[d, NEW_HIGH] or bounds[d, NEW_LOW] >= high:
            continue
        if width == 0 and low < bounds[d, OLD_HIGH] and bounds[d, OLD_LOW] < high:
            continue
        low, high = tail[place, PEER_LOW], tail[place, PEER_HIGH]
        if (low >= bounds[peer, NEW_HIGH] or bounds[peer, NEW_LOW] >= high) and valid & ~spaces[peer] == 0:
            continue
        row = tag >> ROW_SHIFT
        if rows.flags[row] & required != required:
            continue
        first = begins_in(rows.heads, rows.cells, row, spaces, bounds, valid, was_valid)
        is_found = width == 0 and first == d
        for choice in range(width):
            if chosen[choice] == d:
                is_found = first != NOT_BEGUN and is_first(rows.heads, rows.cells, row, bounds, chosen, choice)
        if is_found:
            out[found] = row << ROW_SHIFT | number
            found += 1
    return out, found
