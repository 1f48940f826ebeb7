"""Sorted keys: which conjunctions get one, and the arrays of their bounds.

A conjunction can have one if it is a one-sided range, alone or with one more range. A group has the ranges of one
attribute that are open on the same side, end there at the same rank, and have their second ranges, if any, on the same
attribute. Its bounds are sorted so that the ranges that admit a rank come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Bools, Bytes, Int32Matrix, Int32s, Int64Matrix
from whimbrel.compiled.jit import helper, kernel
from whimbrel.engine.access.shared.arrays import Arrays, Items
from whimbrel.engine.access.shared.key import Explained, KeyArrays, Packed
from whimbrel.engine.access.shared.packing import ROW_MASK
from whimbrel.engine.access.shared.plan import Plan, Weights, share_between
from whimbrel.ranks.clauses.clauses import RANGE

CANDIDATE_NS = 0.4
"""What a conjunction costs an event whose value is inside its bound, measured."""
SECOND_ABOVE = 0.05
"""Share of events that a second range must admit: then a comparison per candidate costs less than bits."""


class SortedArrays(NamedTuple):
    """The groups, and the ranges of each."""

    first: Int32s  # [A + 1]: the groups of an attribute
    start: Int32s  # [groups + 1]: the ranges of a group
    upper: Bytes  # [groups]: whether the ranges are bounded above, and open below
    fixed: Int32s  # [groups]: the rank at which the ranges end on their open side
    second: Int32s  # [groups]: the attribute of the second ranges, or -1
    bound: Int32s  # [m]: the bound of each range
    low: Int32s  # [m]: the first rank of its second range
    high: Int32s  # [m]: the last rank of its second range
    row: Int32s  # [m]: its row; never with flags


SORTED = KeyArrays(SortedArrays, "sorted_", stored={"row": "slot"})


def claim(plan: Plan) -> None:
    """Take the conjunctions that can have a sorted key: no other key costs less.

    Writes the items of each key to `plan.keys`: the one-sided range, then the other range or -1.
    """
    clauses = plan.clauses
    is_sorted = np.zeros(len(plan.kind), np.bool_)
    _find_sorted(plan.items, clauses.flags, clauses.dictionary.rank_base, plan.weights, plan.keys, is_sorted)
    plan.take("sorted", is_sorted)
    plan.open &= ~is_sorted


@helper
def _is_one_sided(base: Int32s, low: int, high: int) -> bool:
    """Whether a range reaches to one end of the values of its type; `base` says where the ranks of types begin."""
    one_sided = False
    for t in range(4):
        one_sided |= low == base[t] or high == base[t + 1] - 1
    return one_sided and 0 < low < high


@kernel
def _find_sorted(
    items: Items, flags: Bytes, base: Int32Matrix, weights: Weights, keys: Int64Matrix, is_sorted: Bools
) -> None:
    start, attr, kind, low, high, _, _, _ = items
    for c in range(start.size - 1):
        first, last = start[c], start[c + 1]
        if flags[c] != 0 or last - first > 2 or kind[first] != RANGE or kind[last - 1] != RANGE:
            continue
        run, other = -1, -1
        run_share, other_share = 2.0, 1.0
        for k in range(first, last):
            s = share_between(weights, attr[k], low[k], high[k])
            if s < run_share and _is_one_sided(base[attr[k]], low[k], high[k]):
                run, run_share = k, s
        if run >= 0 and last - first == 2:
            other = first + last - 1 - run
            other_share = share_between(weights, attr[other], low[other], high[other])
        if run >= 0 and other_share > SECOND_ABOVE and (other < 0 or attr[other] != attr[run]):
            is_sorted[c] = True
            keys[c, 0], keys[c, 1] = run, other


def lay_out(plan: Plan) -> dict[str, np.ndarray]:
    """The arrays of the conjunctions with sorted keys."""
    clauses, mine = plan.clauses, plan.of("sorted")
    k, other = plan.keys[mine, 0], plan.keys[mine, 1]
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
        "sorted_slot": plan.rows[mine][order],
    }


def decode(arrays: Arrays) -> Packed:
    """Read back all conjunctions with sorted keys."""
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
