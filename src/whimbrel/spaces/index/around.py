"""The way around the new region: entries of one dimension that overlap it, for each space of the region.

Entries are judged as those of flips are. A region that several chosen dimensions lead to is found by the first.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.jit import kernel
from whimbrel.spaces.index.places import first_place, lower_bound
from whimbrel.spaces.index.questions import NEW_HIGH, NEW_LOW, NEW_VALID, OLD_HIGH, OLD_LOW, OLD_VALID, Questions
from whimbrel.spaces.index.verification import NO, begins, grown, is_first
from whimbrel.spaces.layout import (
    DEAD,
    EXTREME,
    OTHER,
    PEER,
    PEER_HIGH,
    PEER_LOW,
    REACH,
    SLOT,
    SLOT_SHIFT,
    TAG,
    WHOLE,
    ZONE,
    Bytes,
    Ends,
    Int64s,
    Rows,
)

# Unsigned, so that no place can be one from the end.
_OTHER, _TAG, _PEER_LOW, _PEER_HIGH = np.uint64(OTHER), np.uint64(TAG), np.uint64(PEER_LOW), np.uint64(PEER_HIGH)
_NEW_LOW, _NEW_HIGH, _OLD_HIGH = np.uint64(NEW_LOW), np.uint64(NEW_HIGH), np.uint64(OLD_HIGH)


@kernel
def _judge_around(
    entries: Int64s, begin: int, end: int, new_low: int, old_low: int, old_high: int, had: bool, spread: Int64s,
    number: int, out: Int64s, found: int,
) -> tuple[int, bool]:  # fmt: skip
    """Those of `_scan_around` that are whole; whether others are worth a look at their rows. All arrays are flat."""
    has_others = False
    for place in range(np.uint64(5 * begin), np.uint64(5 * end), np.uint64(5)):
        other, tag = entries[place + _OTHER], entries[place + _TAG]
        low, high = entries[place + _PEER_LOW], entries[place + _PEER_HIGH]
        at = np.uint64(4 * (tag & PEER))
        good = (other > new_low) & (low < spread[at + _NEW_HIGH]) & (spread[at + _NEW_LOW] < high)
        met = had & (low < spread[at + _OLD_HIGH]) & (spread[at] < high)
        met &= (entries[place] < old_high) & (old_low < other)
        is_whole = tag & WHOLE != 0
        has_others |= good & (not is_whole)
        out[np.uint64(found)] = (tag & SLOT) | number
        found += good & is_whole & (not met)
    return found, has_others


@kernel
def _scan_around(
    entries: Int64s, begin: int, end: int, chosen: Int64s, choice: int, heads: Int64s, cells: Int64s, flags: Bytes,
    spaces: Int64s, spread: Int64s, valid: int, was_valid: int, need: int, plain: bool, number: int, out: Int64s,
    found: int,
) -> int:  # fmt: skip
    """Entries of a chosen dimension, with low cuts below the new high one."""
    new_low = spread[chosen[choice], NEW_LOW]
    for place in range(begin, end):
        tag = entries[place, TAG]
        if entries[place, OTHER] <= new_low or tag & DEAD != 0 or (plain and tag & WHOLE != 0):
            continue
        peer, slot = tag & PEER, tag >> SLOT_SHIFT
        meets = entries[place, PEER_LOW] < spread[peer, NEW_HIGH] and spread[peer, NEW_LOW] < entries[place, PEER_HIGH]
        if not meets and valid & ~spaces[peer] == 0:
            continue
        if (
            flags[slot] & need == need
            and begins(heads, cells, slot, spaces, spread, valid, was_valid) != NO
            and is_first(heads, cells, slot, spread, chosen, choice)
        ):
            out[found] = slot << SLOT_SHIFT | number
            found += 1
    return found


@kernel
def find_around(
    rows: Rows, spaces: Int64s, lows: Ends, width: int, questions: Questions, at: int, need: int, plain: bool,
    number: int, out: Int64s, found: int,
) -> tuple[Int64s, int]:  # fmt: skip
    """Those among the entries of the chosen dimensions that overlap the new region; zones that end before are left."""
    spread, chosen, zones, entries = questions.spread[at], questions.chosen, lows.zones, lows.entries
    valid, was_valid = questions.facts[at, NEW_VALID], questions.facts[at, OLD_VALID]
    flat, flat_spread = entries.ravel(), spread.ravel()
    for choice in range(width):
        d = chosen[choice]
        low = spread[d, NEW_LOW]
        start, end = lows.start[0, d], first_place(lows, d, spread[d, NEW_HIGH])
        if end == start:
            continue
        first = lows.start[1, d]
        last = first + (end - start - 1) // ZONE
        zone = lower_bound(zones, REACH, first, last + 1, low + 1)
        out = grown(out, found, found + end - start - (zone - first) * ZONE)
        while zone <= last:
            begin = start + (zone - first) * ZONE
            while zone <= last and zones[zone, EXTREME] > low:
                zone += 1
            stop = min(start + (zone - first) * ZONE, end)
            has_others = True
            if plain:
                found, has_others = _judge_around(
                    flat, begin, stop, low, spread[d, OLD_LOW], spread[d, OLD_HIGH], was_valid != 0, flat_spread,
                    number, out, found,
                )  # fmt: skip
            if has_others:
                found = _scan_around(
                    entries, begin, stop, chosen, choice, rows.heads, rows.cells, rows.flags, spaces, spread, valid,
                    was_valid, need, plain, number, out, found,
                )  # fmt: skip
            zone += 1
    return out, found
