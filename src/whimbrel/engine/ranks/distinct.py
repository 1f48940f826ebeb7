"""Distinct values and ties, without the hash table of NumPy's `unique`.

It takes three times as long as sorting where values hardly repeat, and much longer than a table where they are dense.
"""

from __future__ import annotations

import numpy as np


def distinct(values: np.ndarray) -> np.ndarray:
    """The sorted distinct values: marked in a table where they are dense integers, else sorted.

    >>> distinct(np.array([7, 5, 7]))
    array([5, 7])
    """
    if values.dtype.kind == "i" and len(values):
        low, high = int(values.min()), int(values.max())
        if high - low <= 4 * len(values):
            there = np.zeros(high - low + 1, bool)
            there[values - low] = True
            return (np.flatnonzero(there) + low).astype(values.dtype)
    ordered = np.sort(values)
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered if first.all() else ordered[first]


def sort_by_two(major: np.ndarray, minor: np.ndarray) -> np.ndarray:
    """The stable order by one array of integers and, only where it has ties, by another: what `lexsort` gives.

    >>> sort_by_two(np.array([3, 1, 3, 2]), np.array([9, 9, 8, 9]))
    array([1, 3, 2, 0])
    """
    order: np.ndarray = np.argsort(major, kind="stable")
    ordered = major[order]
    same = ordered[1:] == ordered[:-1]
    tied = np.zeros(len(order), bool)
    tied[1:] = same
    tied[:-1] |= same
    mine = order[tied]
    order[tied] = mine[np.lexsort((minor[mine], major[mine]))]
    return order
