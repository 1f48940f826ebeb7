"""Which conjunctions get a sorted key: a one-sided range alone, or with one range more."""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.jit import helper, kernel
from whimbrel.engine.access.shared.arrays import Items, items_of
from whimbrel.engine.access.shared.weights import Weights, share_between
from whimbrel.ranks.clauses.clauses import RANGE, Clauses

CANDIDATE_NS = 0.4
"""What a conjunction costs an event whose value is inside its bound, measured."""
SECOND_ABOVE = 0.05
"""Share of events above which a second range is worth one comparison per candidate rather than bits."""


def plan_sorted(clauses: Clauses, weights: Weights, keys: np.ndarray) -> np.ndarray:
    """Mark the conjunctions that get a sorted key.

    The items of each key go to `keys`: the one-sided range, and the other range or -1.
    """
    is_sorted = np.zeros(len(clauses.start) - 1, np.bool_)
    _find_sorted(items_of(clauses), clauses.flags, clauses.dictionary.rank_base, weights, keys, is_sorted)
    return is_sorted


@helper
def _is_one_sided(base: np.ndarray, low: int, high: int) -> bool:
    """Whether a range reaches to one end of the values of its type; `base` says where the ranks of types begin."""
    one_sided = False
    for t in range(4):
        one_sided |= low == base[t] or high == base[t + 1] - 1
    return one_sided and 0 < low < high


@kernel
def _find_sorted(
    items: Items, flags: np.ndarray, base: np.ndarray, weights: Weights, keys: np.ndarray, is_sorted: np.ndarray
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
