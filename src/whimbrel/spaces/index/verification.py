"""What a row says of a question, and room for what was found."""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.jit import kernel
from whimbrel.spaces.index.questions import NEW_HIGH, NEW_LOW, OLD_HIGH, OLD_LOW
from whimbrel.spaces.layout import AT, LENGTH, REAL, VALID, Int64s

NO, ANYWHERE = -2, -1
"""Instead of a dimension: the region does not begin to match; it does, and was disjoint in none."""


@kernel
def grown(out: Int64s, found: int, needed: int) -> Int64s:
    """The findings, with room for so many."""
    if needed <= len(out):
        return out
    larger = np.empty(max(3 * len(out) // 2, needed), np.int64)
    larger[:found] = out[:found]
    return larger


@kernel
def begins(heads: Int64s, cells: Int64s, slot: int, spaces: Int64s, spread: Int64s, valid: int, was_valid: int) -> int:
    """The first dimension in which a region that begins to match stops being disjoint; NO if it does not begin to."""
    shared, was = heads[slot, VALID] & valid, heads[slot, VALID] & was_valid
    if shared == 0:
        return NO
    first = ANYWHERE
    at = heads[slot, AT]
    for cell in range(at, at + heads[slot, REAL]):
        d, low, high = cells[cell, 0], cells[cell, 1], cells[cell, 2]
        meets = low < spread[d, NEW_HIGH] and spread[d, NEW_LOW] < high
        if not meets:
            shared &= ~spaces[d]
            if shared == 0:
                return NO
        if low >= spread[d, OLD_HIGH] or spread[d, OLD_LOW] >= high:
            was &= ~spaces[d]
            if meets and first < 0:
                first = d
    return first if was == 0 else NO


@kernel
def is_first(heads: Int64s, cells: Int64s, slot: int, spread: Int64s, chosen: Int64s, choice: int) -> bool:
    """Whether none of the dimensions chosen before leads to a region."""
    at = heads[slot, AT]
    for before in range(choice):
        d = chosen[before]
        for cell in range(at, at + heads[slot, LENGTH]):
            if cells[cell, 0] == d:
                if cells[cell, 1] < spread[d, NEW_HIGH] and spread[d, NEW_LOW] < cells[cell, 2]:
                    return False
                break
    return True
