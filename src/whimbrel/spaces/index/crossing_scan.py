"""Crossing scan: the entries between the old and the new ends of a region.

A stored region that begins to match stops being disjoint in some dimension, so one of its ends lies between the old
and the new end there. A small move crosses few entries, however many regions are stored.

If one space has all dimensions and no flags are required, a complete entry (the entry and its peer are the whole
region) is decided without reading the row and without branches: whether it matches is hard to predict. Other entries
are decided by their rows. A region that several entries lead to is reported by its first dimension.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.jit import kernel
from whimbrel.spaces.index.bounds import between
from whimbrel.spaces.index.query import (
    NEW_HIGH,
    NEW_LOW,
    NEW_VALID,
    OLD_HIGH,
    OLD_LOW,
    OLD_VALID,
    QueryBatch,
    begins_in,
)
from whimbrel.spaces.index.region_arrays import (
    COMPLETE,
    DEAD,
    HIGH,
    LOW,
    OTHER,
    PEER,
    PEER_HIGH,
    PEER_LOW,
    ROW,
    ROW_SHIFT,
    TAG,
    Bytes,
    Int32s,
    Int64s,
    RegionRows,
)

# Unsigned, so that Numba does not check for negative places.
_OTHER, _TAG, _PEER_LOW, _PEER_HIGH = np.uint64(OTHER), np.uint64(TAG), np.uint64(PEER_LOW), np.uint64(PEER_HIGH)
_NEW_LOW, _NEW_HIGH, _OLD_HIGH = np.uint64(NEW_LOW), np.uint64(NEW_HIGH), np.uint64(OLD_HIGH)


@kernel
def _scan_complete(
    entries: Int64s, begin: int, end: int, least: int, most: int, d: int, bounds: Int64s, first: int, number: int,
    out: Int64s, found: int,
) -> tuple[int, bool]:  # fmt: skip
    """Report the complete entries from `begin` to `end` whose regions begin to match.

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
def _scan_rows(
    entries: Int64s, begin: int, end: int, least: int, most: int, d: int, heads: Int64s, cells: Int64s, flags: Bytes,
    spaces: Int64s, bounds: Int64s, valid: int, was_valid: int, required: int, one_space: bool, number: int,
    out: Int64s, found: int,
) -> int:  # fmt: skip
    """Report the entries of dimension d from `begin` to `end` whose regions begin to match, reading their rows.

    All these entries were disjoint from the old region. The other end must be from `least` to `most`. With `one_space`
    complete entries are skipped.
    """
    for place in range(begin, end):
        other, tag = entries[place, OTHER], entries[place, TAG]
        if other < least or other > most or tag & DEAD != 0 or (one_space and tag & COMPLETE != 0):
            continue
        peer, row = tag & PEER, tag >> ROW_SHIFT
        meets = entries[place, PEER_LOW] < bounds[peer, NEW_HIGH] and bounds[peer, NEW_LOW] < entries[place, PEER_HIGH]
        if not meets and valid & ~spaces[peer] == 0:
            continue
        if flags[row] & required == required and begins_in(heads, cells, row, spaces, bounds, valid, was_valid) == d:
            out[found] = row << ROW_SHIFT | number
            found += 1
    return found


@kernel
def _scan_between(
    entries: Int64s, flat: Int64s, zones: Int32s, low: int, high: int, least: int, most: int, d: int, rows: RegionRows,
    spaces: Int64s, queries: QueryBatch, flat_bounds: Int64s, at: int, required: int, one_space: bool, number: int,
    out: Int64s, found: int,
) -> int:  # fmt: skip
    """Scan the entries with low <= cut < high, which lie in the entry range `zones`."""
    begin, end = between(entries, zones[0], zones[1], low, high)
    has_others = True
    if one_space:
        first = 4 * at * queries.head.size
        found, has_others = _scan_complete(flat, begin, end, least, most, d, flat_bounds, first, number, out, found)
    if has_others:
        valid, was_valid = queries.header[at, NEW_VALID], queries.header[at, OLD_VALID]
        found = _scan_rows(
            entries, begin, end, least, most, d, rows.heads, rows.cells, rows.flags, spaces, queries.bounds[at],
            valid, was_valid, required, one_space, number, out, found,
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
        up, down = crossings[at, touch, level], crossings[at, touch, level + 1]
        low, high = bounds[at, d, NEW_LOW], bounds[at, d, NEW_HIGH]
        if up[0] < up[1]:
            found = _scan_between(
                lows, flat_lows, up, bounds[at, d, OLD_HIGH], high, low + 1, HIGH, d, rows, spaces, queries,
                flat_bounds, at, required, one_space, numbers[at], out, found,
            )  # fmt: skip
        if down[0] < down[1]:
            found = _scan_between(
                highs, flat_highs, down, low + 1, bounds[at, d, OLD_LOW] + 1, LOW, high - 1, d, rows, spaces, queries,
                flat_bounds, at, required, one_space, numbers[at], out, found,
            )  # fmt: skip
    return found
