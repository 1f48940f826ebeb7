"""Whether an item of a conjunction holds for the values of an event."""

from __future__ import annotations

from whimbrel.compiled.jit import expanded, helper
from whimbrel.engine.access.shared.packing import KIND_SHIFT

NO_ITEM = 2 << KIND_SHIFT
"""Packed attributes from here on belong to items that ask for no value inside."""


@expanded
def in_set(sets, number, rank):  # type: ignore[no-untyped-def]
    """Whether a rank is in one of the intervals of a set."""
    start, lows, highs = sets
    low, end = start[number], start[number + 1]
    high = end
    while low < high:  # the first interval that does not end below the rank
        middle = (low + high) >> 1
        if highs[middle] < rank:
            low = middle + 1
        else:
            high = middle
    return low < end and lows[low] <= rank


@helper
def holds(sets, kind, low, high, v, attrs, ranks, end):  # type: ignore[no-untyped-def]
    """Whether an item holds for a value as it is in scratch."""
    if v >= 0:
        if kind & 1 == 0:
            return (low <= v <= high) == (kind < 2)
        # `high` is the set's mask: by it most ranks are seen to be outside.
        return ((high >> ((v >> 1) & 31)) & 1 == 1 and in_set(sets, low, v)) == (kind < 2)
    if v == -1:
        return kind >= 2
    i = -2 - v
    a = attrs[i]
    while i < end and attrs[i] == a:
        if (low <= ranks[i] <= high) if kind & 1 == 0 else in_set(sets, low, ranks[i]):
            return kind < 2
        i += 1
    return kind >= 2
