"""The newest entries, in no order: all of them are passed, and verified in their rows."""

from __future__ import annotations

from whimbrel.compiled.jit import kernel
from whimbrel.spaces.index.questions import NEW_HIGH, NEW_LOW, NEW_VALID, OLD_HIGH, OLD_LOW, OLD_VALID, Questions
from whimbrel.spaces.index.verification import NO, begins, grown, is_first
from whimbrel.spaces.layout import (
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
    Index,
    Int64s,
)


@kernel
def find_in_tail(
    index: Index, width: int, questions: Questions, at: int, need: int, number: int, out: Int64s, found: int
) -> tuple[Int64s, int]:
    """Those among the entries of the tail, around the chosen dimensions, or with a width of 0 by flips."""
    used, tail, rows, spaces = index.rows.counts[TAIL_USED], index.tail, index.rows, index.dimensions.spaces
    spread, chosen = questions.spread[at], questions.chosen
    valid, was_valid = questions.facts[at, NEW_VALID], questions.facts[at, OLD_VALID]
    out = grown(out, found, found + used)
    for place in range(used):
        tag, d = tail[place, TAG], tail[place, DIMENSION]
        low, high, peer = tail[place, CUT], tail[place, OTHER], tag & PEER
        if tag & DEAD != 0 or low >= spread[d, NEW_HIGH] or spread[d, NEW_LOW] >= high:
            continue
        if width == 0 and low < spread[d, OLD_HIGH] and spread[d, OLD_LOW] < high:
            continue
        low, high = tail[place, PEER_LOW], tail[place, PEER_HIGH]
        if (low >= spread[peer, NEW_HIGH] or spread[peer, NEW_LOW] >= high) and valid & ~spaces[peer] == 0:
            continue
        slot = tag >> SLOT_SHIFT
        if rows.flags[slot] & need != need:
            continue
        first = begins(rows.heads, rows.cells, slot, spaces, spread, valid, was_valid)
        is_found = width == 0 and first == d
        for choice in range(width):
            if chosen[choice] == d:
                is_found = first != NO and is_first(rows.heads, rows.cells, slot, spread, chosen, choice)
        if is_found:
            out[found] = slot << SLOT_SHIFT | number
            found += 1
    return out, found
