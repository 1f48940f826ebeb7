"""The arrays of sorted keys: the bounds of one-sided ranges, sorted, in groups.

A group has the ranges of one attribute that are open on the same side, end at the same place there, and have a second
range of the same attribute, or none. Its bounds are sorted so that the ranges that admit a rank come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from whimbrel.engine.access.shared.arrays import Arrays, Explained, KeyArrays, Packed
from whimbrel.engine.access.shared.rows import ROW_MASK
from whimbrel.engine.access.sorted.plan import CANDIDATE_NS
from whimbrel.ranks.clauses.clauses import Clauses


class SortedArrays(NamedTuple):
    """The groups, and the ranges of each."""

    first: np.ndarray  # int32[A + 1]: the groups of an attribute
    start: np.ndarray  # int32[groups + 1]: the ranges of a group
    upper: np.ndarray  # uint8[groups]: whether the ranges are bounded above, and open below
    fixed: np.ndarray  # int32[groups]: the rank at which the ranges end on their open side
    second: np.ndarray  # int32[groups]: the attribute of the second ranges, or -1
    bound: np.ndarray  # int32[m]: the bound of each range
    low: np.ndarray  # int32[m]: the first rank of its second range
    high: np.ndarray  # int32[m]: the last rank of its second range
    row: np.ndarray  # int32[m]: its row; never with flags


SORTED = KeyArrays(SortedArrays, "sorted_", {"upper": ("uint8", 1)}, stored={"row": "slot"})


def lay_out(clauses: Clauses, mine: np.ndarray, keys: np.ndarray, rows: np.ndarray) -> dict[str, np.ndarray]:
    """The arrays of these conjunctions, whose keys have these items."""
    k, other = keys[mine, 0], keys[mine, 1]
    attr, low, high = clauses.attr[k], clauses.low[k], clauses.high[k]
    has_other = other >= 0
    second = np.where(has_other, clauses.attr[other], -1)
    blocks = clauses.dictionary.rank_base[attr]
    is_upper = (low[:, None] == blocks[:, :4]).any(axis=1)
    bound, fixed = np.where(is_upper, high, low), np.where(is_upper, low, high)
    order = np.lexsort((np.where(is_upper, -bound, bound), second, fixed, is_upper, attr))
    groups = np.stack([attr, fixed, is_upper, second], axis=1)[order]
    starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(mine)), bool), (groups[1:] != groups[:-1]).any(axis=1)]))
    heads = groups[starts].astype(np.int32)
    return {
        "sorted_start": np.append(starts, len(mine)).astype(np.int32),
        "sorted_first": np.searchsorted(heads[:, 0], np.arange(len(clauses.attributes) + 1)).astype(np.int32),
        "sorted_upper": heads[:, 2].astype(np.uint8),
        "sorted_fixed": heads[:, 1].copy(),
        "sorted_second": heads[:, 3].copy(),
        "sorted_bound": bound[order].astype(np.int32),
        "sorted_low": np.where(has_other, clauses.low[other], 0)[order].astype(np.int32),
        "sorted_high": np.where(has_other, clauses.high[other], 0)[order].astype(np.int32),
        "sorted_slot": rows[mine][order],
    }


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
