"""The way by flips: entries between old and new ends, for all questions that ask for a dimension.

Where one space has all dimensions, an entry that with its peer says all of its region is judged without a look at the
row, and without branches: whether a region matches cannot be foretold. All others are verified in their rows. A region
that several entries lead to is found by the first of its dimensions that does.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.jit import kernel
from whimbrel.spaces.index.places import between
from whimbrel.spaces.index.questions import NEW_HIGH, NEW_LOW, NEW_VALID, OLD_HIGH, OLD_LOW, OLD_VALID, Questions
from whimbrel.spaces.index.verification import begins
from whimbrel.spaces.layout import (
    DEAD,
    HIGH,
    LOW,
    OTHER,
    PEER,
    PEER_HIGH,
    PEER_LOW,
    SLOT,
    SLOT_SHIFT,
    TAG,
    WHOLE,
    Bytes,
    Int32s,
    Int64s,
    Rows,
)

# Unsigned, so that no place can be one from the end.
_OTHER, _TAG, _PEER_LOW, _PEER_HIGH = np.uint64(OTHER), np.uint64(TAG), np.uint64(PEER_LOW), np.uint64(PEER_HIGH)
_NEW_LOW, _NEW_HIGH, _OLD_HIGH = np.uint64(NEW_LOW), np.uint64(NEW_HIGH), np.uint64(OLD_HIGH)


@kernel
def _judge_flips(
    entries: Int64s, begin: int, end: int, least: int, most: int, d: int, spread: Int64s, first: int, number: int,
    out: Int64s, found: int,
) -> tuple[int, bool]:  # fmt: skip
    """Those of `_scan_flips` that are whole; whether others are worth a look at their rows. All arrays are flat."""
    has_others = False
    flip, bound = (0, least) if most == HIGH else (-1, ~most)  # one comparison: other <= most is ~other >= ~most
    for place in range(np.uint64(5 * begin), np.uint64(5 * end), np.uint64(5)):
        other, tag = entries[place + _OTHER], entries[place + _TAG]
        low, high = entries[place + _PEER_LOW], entries[place + _PEER_HIGH]
        peer = tag & PEER
        at = np.uint64(first + 4 * peer)
        good = (other ^ flip >= bound) & (low < spread[at + _NEW_HIGH]) & (spread[at + _NEW_LOW] < high)
        met = (low < spread[at + _OLD_HIGH]) & (spread[at] < high)
        is_whole = tag & WHOLE != 0
        has_others |= good & (not is_whole)
        out[np.uint64(found)] = (tag & SLOT) | number
        found += good & is_whole & (met | (peer >= d))
    return found, has_others


@kernel
def _scan_flips(
    entries: Int64s, begin: int, end: int, least: int, most: int, d: int, heads: Int64s, cells: Int64s, flags: Bytes,
    spaces: Int64s, spread: Int64s, valid: int, was_valid: int, need: int, plain: bool, number: int, out: Int64s,
    found: int,
) -> int:  # fmt: skip
    """Entries of dimension d that were disjoint from the old region, the other end from `least` to `most`."""
    for place in range(begin, end):
        other, tag = entries[place, OTHER], entries[place, TAG]
        if other < least or other > most or tag & DEAD != 0 or (plain and tag & WHOLE != 0):
            continue
        peer, slot = tag & PEER, tag >> SLOT_SHIFT
        meets = entries[place, PEER_LOW] < spread[peer, NEW_HIGH] and spread[peer, NEW_LOW] < entries[place, PEER_HIGH]
        if not meets and valid & ~spaces[peer] == 0:
            continue
        if flags[slot] & need == need and begins(heads, cells, slot, spaces, spread, valid, was_valid) == d:
            out[found] = slot << SLOT_SHIFT | number
            found += 1
    return found


@kernel
def _find_between(
    entries: Int64s, flat: Int64s, zones: Int32s, low: int, high: int, least: int, most: int, d: int, rows: Rows,
    spaces: Int64s, questions: Questions, flat_spread: Int64s, at: int, need: int, plain: bool, number: int,
    out: Int64s, found: int,
) -> int:  # fmt: skip
    """The same for the entries with cuts from `low` up to `high`, which are in some zones."""
    begin, end = between(entries, zones[0], zones[1], low, high)
    has_others = True
    if plain:
        first = 4 * at * questions.head.size
        found, has_others = _judge_flips(flat, begin, end, least, most, d, flat_spread, first, number, out, found)
    if has_others:
        valid, was_valid = questions.facts[at, NEW_VALID], questions.facts[at, OLD_VALID]
        found = _scan_flips(
            entries, begin, end, least, most, d, rows.heads, rows.cells, rows.flags, spaces, questions.spread[at],
            valid, was_valid, need, plain, number, out, found,
        )  # fmt: skip
    return found


@kernel
def find_flips(
    rows: Rows, spaces: Int64s, lows: Int64s, highs: Int64s, level: int, d: int, questions: Questions, numbers: Int64s,
    need: int, plain: bool, out: Int64s, found: int,
) -> int:  # fmt: skip
    """Those among the entries of dimension d between old and new ends, for all questions that are linked to it."""
    spread, flips, link = questions.spread, questions.flips, questions.link
    flat_lows, flat_highs, flat_spread = lows.ravel(), highs.ravel(), spread.ravel()
    dimensions = questions.head.size
    item = questions.head[d]
    while item >= 0:
        at, touch = item // dimensions, item % dimensions
        item = link[item]
        up, down = flips[at, touch, level], flips[at, touch, level + 1]
        low, high = spread[at, d, NEW_LOW], spread[at, d, NEW_HIGH]
        if up[0] < up[1]:
            found = _find_between(
                lows, flat_lows, up, spread[at, d, OLD_HIGH], high, low + 1, HIGH, d, rows, spaces, questions,
                flat_spread, at, need, plain, numbers[at], out, found,
            )  # fmt: skip
        if down[0] < down[1]:
            found = _find_between(
                highs, flat_highs, down, low + 1, spread[at, d, OLD_LOW] + 1, LOW, high - 1, d, rows, spaces, questions,
                flat_spread, at, need, plain, numbers[at], out, found,
            )  # fmt: skip
    return found
