"""Searching a part of a sorted array."""

from __future__ import annotations

from whimbrel.compiled.jit import helper


@helper
def lower_bound(values, low, high, value):  # type: ignore[no-untyped-def]
    """The first place from `low` on, and below `high`, that is not below the value; `high` if there is none."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low
