"""The tables by which kernels that read single events find short strings (`string_kernels`)."""

from __future__ import annotations

import numpy as np

from whimbrel.ranks.string_kernels import fill_short_table

MOST = 1 << 12
"""Strings of an attribute that has such a table, at most: a larger one does not stay in the caches of a processor."""


def short_tables(start: np.ndarray, offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The tables of all attributes, and where each begins; attribute a has the strings start[a]:start[a + 1]."""
    counts = np.diff(start)
    sizes = np.zeros(len(start), np.int64)
    for attr in np.flatnonzero((counts > 0) & (counts <= MOST)).tolist():
        sizes[attr + 1] = 2 << int(2 * counts[attr] - 1).bit_length()
    first = np.cumsum(sizes)
    table = np.zeros(int(first[-1]), np.int64)
    for attr in np.flatnonzero(sizes[1:]).tolist():
        own = table[first[attr] : first[attr + 1]]
        fill_short_table(offsets, data, int(start[attr]), int(counts[attr]), own)
    return first, table
