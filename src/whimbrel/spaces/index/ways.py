"""Three ways to the regions that begin to match, and what each costs in entries to pass.

What they are:

    flips     the entries between old and new ends: a pair that begins to match stops being disjoint in a dimension
    around    the entries of one dimension that overlap the new interval, for each space its most selective dimension
    all       all regions, minus those that an entry of any dimension shows to be disjoint
"""

from __future__ import annotations

from whimbrel.compiled.jit import kernel
from whimbrel.spaces.index.places import disjoint_places, flips_down, flips_up, overlap_count
from whimbrel.spaces.index.questions import (
    NEW_HIGH,
    NEW_LOW,
    NEW_VALID,
    OLD_HIGH,
    OLD_LOW,
    TOUCHES,
    Questions,
)
from whimbrel.spaces.layout import HIGH, LOW, Ends, Index, Int64s


@kernel
def cost_of_flips(lows: Ends, highs: Ends, questions: Questions, at: int, level: int) -> int:
    """How many entries are in the zones between old and new ends; notes where they are."""
    cost, flips = 0, questions.flips
    for touch in range(questions.facts[at, TOUCHES]):
        d = questions.touched[at, touch]
        low, high = questions.spread[at, d, NEW_LOW], questions.spread[at, d, NEW_HIGH]
        up, up_end = flips_up(lows, d, questions.spread[at, d, OLD_HIGH], low, high)
        down, down_end = flips_down(highs, d, questions.spread[at, d, OLD_LOW], low, high)
        flips[at, touch, level, 0], flips[at, touch, level, 1] = up, up_end
        flips[at, touch, level + 1, 0], flips[at, touch, level + 1, 1] = down, down_end
        cost += up_end - up + down_end - down
    return cost


@kernel
def cost_around(index: Index, questions: Questions, at: int) -> tuple[int, int]:
    """Choose a dimension for each space of the new region: the entries to pass, or HIGH, and how many are chosen."""
    cost = width = position = 0
    rest = questions.facts[at, NEW_VALID]
    while rest != 0:
        if rest & 1:
            best, least = _most_selective(index, questions, at, position)
            if best < 0:
                return HIGH, 0
            is_new = True
            for choice in range(width):
                is_new = is_new and questions.chosen[choice] != best
            if is_new:
                cost += least
                questions.chosen[width] = best
                width += 1
        rest >>= 1
        position += 1
    return cost, width


@kernel
def _most_selective(index: Index, questions: Questions, at: int, position: int) -> tuple[int, int]:
    """The dimension in which all regions of a space have an entry and the fewest overlap, or -1; how many do."""
    spaces, small, rows = index.dimensions.spaces, index.dimensions.small, index.rows
    space = 1 << position
    best, least = -1, HIGH
    for touch in range(questions.facts[at, TOUCHES]):
        d = questions.touched[at, touch]
        low, high = questions.spread[at, d, NEW_LOW], questions.spread[at, d, NEW_HIGH]
        if spaces[d] & space == 0 or (low == LOW and high == HIGH):
            continue
        if small[d] & space == 0 and rows.constrains[d] < rows.valid_in[position]:
            continue  # some region of the space has no entry there
        count = overlap_count(index.lows, index.highs, d, low, high)
        count += overlap_count(index.run_lows, index.run_highs, d, low, high)
        if count < least:
            best, least = d, count
    return best, least


@kernel
def cost_of_all(lows: Ends, highs: Ends, questions: Questions, at: int) -> int:
    """How many entries show a region to be disjoint."""
    cost = 0
    for touch in range(questions.facts[at, TOUCHES]):
        d = questions.touched[at, touch]
        spread: Int64s = questions.spread[at, d]
        above, below = disjoint_places(lows, highs, d, spread[NEW_LOW], spread[NEW_HIGH])
        cost += lows.start[0, d + 1] - above + below - highs.start[0, d]
    return cost
