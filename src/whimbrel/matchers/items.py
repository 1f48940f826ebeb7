"""Whether an event's ranks satisfy an item of a row: the innermost compiled functions."""

from __future__ import annotations

from whimbrel.compiled.jit import helper
from whimbrel.matchers.coding import Int32s, Int64s
from whimbrel.matchers.conjunction_rows import ATTR, HIGH, KIND, LOW, POINTS

# Arrays are passed one by one: to unpack a tuple of them in a hot loop costs more than the test itself.


@helper
def in_set(rank: int, number: int, start: Int64s, low: Int32s, high: Int32s) -> bool:  # pragma: no cover
    """Whether a rank is in one of the intervals of a set."""
    left, right = start[number], start[number + 1]
    while left < right:  # the first interval that ends at or above the rank
        middle = (left + right) >> 1
        if high[middle] < rank:
            left = middle + 1
        else:
            right = middle
    return bool(left < start[number + 1] and low[left] <= rank)


@helper
def admits(
    items: Int32s, item: int, rank: int, set_start: Int64s, set_low: Int32s, set_high: Int32s
) -> bool:  # pragma: no cover
    """Whether one rank satisfies an item; `MISSING` never does."""
    if items[item, KIND] >= POINTS:
        return bool(in_set(rank, items[item, LOW], set_start, set_low, set_high))
    return bool(items[item, LOW] <= rank <= items[item, HIGH])


@helper
def admits_some(
    items: Int32s,
    item: int,
    first: Int32s,
    event: int,
    starts: Int64s,
    more: Int32s,
    set_start: Int64s,
    set_low: Int32s,
    set_high: Int32s,
) -> bool:  # pragma: no cover
    """Whether some value of the item's attribute satisfies it, in a block with lists."""
    attribute = items[item, ATTR]
    if admits(items, item, first[event, attribute], set_start, set_low, set_high):
        return True
    cell = event * first.shape[1] + attribute
    for place in range(starts[cell], starts[cell + 1]):
        if admits(items, item, more[place], set_start, set_low, set_high):
            return True
    return False
