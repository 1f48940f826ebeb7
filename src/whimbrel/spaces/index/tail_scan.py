"""Tail scan: all entries of the tail, which are unsorted; each is checked against its row."""

from __future__ import annotations

from whimbrel.compiled.jit import kernel
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
    CUT,
    DEAD,
    DIMENSION,
    OTHER,
    PEER,
    PEER_HIGH,
    PEER_LOW,
    SLOT_SHIFT,
    TAG,
    TAIL_USED,
    IndexArrays,
    Int64s,
)


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
        slot = tag >> SLOT_SHIFT
        if rows.flags[slot] & required != required:
            continue
        first = begins_in(rows.heads, rows.cells, slot, spaces, bounds, valid, was_valid)
        is_found = width == 0 and first == d
        for choice in range(width):
            if chosen[choice] == d:
                is_found = first != NOT_BEGUN and is_first(rows.heads, rows.cells, slot, bounds, chosen, choice)
        if is_found:
            out[found] = slot << SLOT_SHIFT | number
            found += 1
    return out, found
