"""Items: what a key does not prove of a conjunction, checked against the values of an event.

An item is stored as three int32: its attribute with its kind in bits 28 and 29, and the first and last rank of a range,
or the number of a set and its mask.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.jit import expanded, helper

KIND_SHIFT = 28
ATTR_MASK = (1 << KIND_SHIFT) - 1
NO_ITEM = 2 << KIND_SHIFT
"""Packed attributes from here on belong to items that ask for no value inside."""


@expanded
def in_set(sets: tuple[np.ndarray, np.ndarray, np.ndarray], number: int, rank: int) -> bool:
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
    return bool(low < end and lows[low] <= rank)


@helper
def holds(
    sets: tuple[np.ndarray, np.ndarray, np.ndarray], kind: int, low: int, high: int, v: int, attrs: np.ndarray,
    ranks: np.ndarray, end: int,
) -> bool:  # fmt: skip
    """Whether an item holds for value `v` of an event, as `EventValues` has it."""
    if v >= 0:
        if kind & 1 == 0:
            return (low <= v <= high) == (kind < 2)
        # `high` is the set's mask: it shows for most ranks that they are outside.
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
