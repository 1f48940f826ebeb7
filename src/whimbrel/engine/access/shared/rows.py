"""Rows in the arrays of a segment: the number of a subscription's version, with two flags in its high bits."""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.jit import helper, kernel
from whimbrel.ranks.clauses.clauses import SHARED, VERIFY, Clauses

VERIFY_BIT = 1 << 29
"""The filter itself has the last word: ranks do not decide."""
SHARED_BIT = 1 << 30
"""Other conjunctions have the same row, so an event may reach it twice."""
ROW_MASK = VERIFY_BIT - 1
"""The largest row: the flags have the bits above it."""


def packed_rows(clauses: Clauses) -> np.ndarray:
    """The row of every conjunction with its flags."""
    packed = clauses.row.astype(np.int32)
    packed = packed | np.where(clauses.flags & VERIFY, np.int32(VERIFY_BIT), np.int32(0))
    return packed | np.where(clauses.flags & SHARED, np.int32(SHARED_BIT), np.int32(0))


@helper
def emit(packed: int, several: bool, stamp: np.ndarray, epoch: int, out: np.ndarray, n: int) -> int:
    """Append a row, once per event where an event may reach it twice; the new length, or -1 without room."""
    if several or packed & SHARED_BIT:
        row = packed & ROW_MASK
        if stamp[row] == epoch:
            return n
        stamp[row] = epoch
    if n >= out.size:
        return -1
    out[n] = packed & (ROW_MASK | VERIFY_BIT)
    return n + 1


@kernel
def leave_out_dead(offsets: np.ndarray, rows: np.ndarray, died: np.ndarray, version: int) -> int:
    """Close up the rows that had not died at that version, event by event, in place; flags stay. How many are left."""
    kept = 0
    begin = offsets[0]
    for event in range(offsets.size - 1):
        end = offsets[event + 1]
        for i in range(begin, end):
            row = rows[i]
            death = died[row & ROW_MASK]
            rows[kept] = row
            kept += (death == 0) | (death > version)
        begin = end
        offsets[event + 1] = kept
    return kept
