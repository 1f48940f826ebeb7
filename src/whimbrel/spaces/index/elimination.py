"""All regions minus those that are disjoint in some dimension, space by space (ALGORITHMS 19.2, ERR-19c)."""

from __future__ import annotations

from whimbrel.compiled.jit import kernel
from whimbrel.spaces.index.places import disjoint_places
from whimbrel.spaces.index.questions import (
    NEW_HIGH,
    NEW_LOW,
    NEW_VALID,
    OLD_HIGH,
    OLD_LOW,
    OLD_VALID,
    TOUCHES,
    Questions,
)
from whimbrel.spaces.index.verification import grown
from whimbrel.spaces.layout import (
    AT,
    CUT,
    DEAD,
    DIMENSION,
    OTHER,
    REAL,
    SLOT_SHIFT,
    TAG,
    TAIL_USED,
    VALID,
    Ends,
    Index,
    Int64s,
    Rows,
)


@kernel
def _mark(entries: Int64s, spaces: int, disjoint: Int64s) -> None:
    for place in range(len(entries)):
        tag = entries[place, TAG]
        if tag & DEAD == 0:
            disjoint[tag >> SLOT_SHIFT] |= spaces


@kernel
def _mark_disjoint(lows: Ends, highs: Ends, questions: Questions, at: int, spaces: Int64s) -> None:
    """Note with each slot the spaces of the dimensions in which it is disjoint from the new region."""
    for touch in range(questions.facts[at, TOUCHES]):
        d = questions.touched[at, touch]
        spread = questions.spread[at, d]
        above, below = disjoint_places(lows, highs, d, spread[NEW_LOW], spread[NEW_HIGH])
        _mark(lows.entries[above : lows.start[0, d + 1]], spaces[d], questions.disjoint)
        _mark(highs.entries[highs.start[0, d] : below], spaces[d], questions.disjoint)


@kernel
def _matched(rows: Rows, slot: int, shared: int, spread: Int64s, spaces: Int64s) -> bool:
    """Whether a region matches the old one in one of the shared spaces."""
    at = rows.heads[slot, AT]
    for cell in range(at, at + rows.heads[slot, REAL]):
        d = rows.cells[cell, 0]
        if rows.cells[cell, 1] >= spread[d, OLD_HIGH] or spread[d, OLD_LOW] >= rows.cells[cell, 2]:
            shared &= ~spaces[d]
    return shared != 0


@kernel
def find_all(
    index: Index, slots: int, questions: Questions, at: int, need: int, number: int, out: Int64s, found: int
) -> tuple[Int64s, int]:
    """All slots that no entry shows to be disjoint, and that did not match before."""
    rows, tail, spaces, disjoint = index.rows, index.tail, index.dimensions.spaces, questions.disjoint
    _mark_disjoint(index.lows, index.highs, questions, at, spaces)
    _mark_disjoint(index.run_lows, index.run_highs, questions, at, spaces)
    spread = questions.spread[at]
    for place in range(rows.counts[TAIL_USED]):
        tag, d = tail[place, TAG], tail[place, DIMENSION]
        if tag & DEAD == 0 and (tail[place, CUT] >= spread[d, NEW_HIGH] or spread[d, NEW_LOW] >= tail[place, OTHER]):
            disjoint[tag >> SLOT_SHIFT] |= spaces[d]
    out = grown(out, found, found + slots)
    old_valid, new_valid = questions.facts[at, OLD_VALID], questions.facts[at, NEW_VALID]
    for slot in range(slots):
        valid = rows.heads[slot, VALID]
        left = valid & new_valid & ~disjoint[slot]
        disjoint[slot] = 0
        if left == 0 or rows.flags[slot] & need != need:
            continue
        shared = valid & old_valid
        if shared == 0 or not _matched(rows, slot, shared, spread, spaces):
            out[found] = slot << SLOT_SHIFT | number
            found += 1
    return out, found
