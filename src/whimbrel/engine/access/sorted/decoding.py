"""Sorted keys read back: to conjunctions, for merges, and to what `plan` says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from whimbrel.engine.access.shared.arrays import Arrays
from whimbrel.engine.access.shared.decoded import Explained, Packed
from whimbrel.engine.access.shared.rows import ROW_MASK
from whimbrel.engine.access.sorted.plan import CANDIDATE_NS


def decode(arrays: Arrays) -> Packed:
    """All conjunctions with sorted keys."""
    a = arrays
    sizes = np.diff(a["sorted_start"])
    group_attr = np.repeat(np.arange(len(a["sorted_first"]) - 1, dtype=np.int32), np.diff(a["sorted_first"]))
    attr = np.repeat(group_attr, sizes)
    upper = np.repeat(a["sorted_upper"] != 0, sizes)
    fixed = np.repeat(a["sorted_fixed"], sizes)
    low, high = np.where(upper, fixed, a["sorted_bound"]), np.where(upper, a["sorted_bound"], fixed)
    second = np.repeat(a["sorted_second"], sizes)
    both = np.stack([attr, second], axis=1).ravel()
    kept = both >= 0
    lows = np.stack([low, a["sorted_low"]], axis=1).ravel()[kept]
    highs = np.stack([high, a["sorted_high"]], axis=1).ravel()[kept]
    counts = 1 + (second >= 0).astype(np.int64)
    return Packed(a["sorted_slot"], counts, both[kept].astype(np.int32), lows.astype(np.int32), highs.astype(np.int32))


def explain(arrays: Arrays, names: Sequence[str], row: int) -> Iterator[Explained]:
    """The sorted keys of a row."""
    a = arrays
    for entry in np.flatnonzero((a["sorted_slot"] & ROW_MASK) == row).tolist():
        group = int(np.searchsorted(a["sorted_start"], entry, "right")) - 1
        attr = int(np.searchsorted(a["sorted_first"], group, "right")) - 1
        bound, fixed = int(a["sorted_bound"][entry]), int(a["sorted_fixed"][group])
        low, high = (fixed, bound) if a["sorted_upper"][group] else (bound, fixed)
        checks = int(a["sorted_second"][group] >= 0)
        yield Explained("sorted", [attr], {"checks": checks}, [[(attr, low, high)]], CANDIDATE_NS)
