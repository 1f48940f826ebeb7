"""Structures that make sorted constants quick to search: a table of all integers in their range, or buckets.

Both are built from the constants when the first column is encoded, and kept in memory; a segment does not store them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from whimbrel.compiled.views import read_only

TABLE_ENTRIES = 1 << 16
"""A table may always have this many entries, which fit the second-level cache."""
TABLE_SPARSENESS = 8
"""With more constants a table may have this many entries for each."""
CACHED = 1 << 17
"""Most constants that get four buckets each, which stay in the cache; more constants get two each."""


class Buckets(NamedTuple):
    """Sorted constants and, for equal steps of magnitude, the index of the first constant of each step."""

    constants: np.ndarray
    buckets: np.ndarray
    origin: float
    scale: float

    @staticmethod
    def of(constants: np.ndarray) -> Buckets:
        """Buckets of equal width with a few constants each. The outermost 1 % share the end buckets."""
        count = len(constants)
        steps = (4 if count <= CACHED else 2) * count
        finite = constants[np.isfinite(constants)] if constants.dtype.kind == "f" else constants
        if len(finite) > 1:
            low, high = (float(finite[int(len(finite) * share)]) for share in (0.01, 0.99))
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                scale = float(np.float64(steps) / (np.float64(high) - low))
                if 0 < scale < math.inf:
                    places = np.clip((constants.astype(np.float64) - low) * scale, 0, steps).astype(np.int64)
                    buckets = np.zeros(steps + 2, np.int32)
                    np.cumsum(np.bincount(places, minlength=steps + 1), out=buckets[1:])
                    return Buckets(read_only(constants), read_only(buckets), low, scale)
        return Buckets(read_only(constants), read_only(np.array([0, count], np.int32)), 0.0, 0.0)


class Table(NamedTuple):
    """The ranks of all integers from one below the first constant to one above the last."""

    table: np.ndarray
    low: int

    @staticmethod
    def of(constants: np.ndarray) -> Table | None:
        """The table, or None where it would be too sparse."""
        low, high = int(constants[0]) - 1, int(constants[-1]) + 1
        if high - low >= max(TABLE_ENTRIES, TABLE_SPARSENESS * len(constants)) or low < -(1 << 62) or high > 1 << 62:
            return None
        equal = np.zeros(high - low + 1, np.int32)
        equal[constants - low] = 1
        return Table(read_only((2 * np.cumsum(equal, dtype=np.int32) - equal).astype(np.int32)), low)
