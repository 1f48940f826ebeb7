"""What events are expected to be like: how often they have an attribute, and where its values fall."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.jit import helper, kernel
from whimbrel.engine.access.shared.arrays import Items, items_of
from whimbrel.ranks.clauses.clauses import Clauses

ATTRIBUTES_PER_EVENT = 64.0
"""How many attributes an event is taken to have where there is no sample."""

LINK_SHARE = 0.9
"""The share of events for which a comparison of two attributes is taken to hold where there is no sample: anything else
is a better key."""


class Weights(NamedTuple):
    """How likely an event's value falls into some ranks of an attribute.

    Without a sample `cumulative` is empty, and all ranks of an attribute are equally likely.
    """

    present: np.ndarray  # float64[A]: the share of events that have the attribute
    total: np.ndarray  # int64[A]: the number of ranks of the attribute
    start: np.ndarray  # int64[A + 1]: where an attribute begins in `cumulative`
    cumulative: np.ndarray  # float32: cumulative[start[a] + r] is the weight of ranks below r


def guess_weights(clauses: Clauses) -> Weights:
    """Weights from the filters alone: all attributes are equally frequent in events."""
    count = len(clauses.attributes)
    total = clauses.dictionary.rank_base[:, 4].astype(np.int64)
    present = np.full(count, min(1.0, ATTRIBUTES_PER_EVENT / max(1, count)))
    return Weights(present, total, np.zeros(count + 1, np.int64), np.empty(0, np.float32))


def sample_weights(clauses: Clauses, count: int, attrs: np.ndarray, ranks: np.ndarray) -> Weights:
    """Weights from `count` sample events, given as the (attribute, rank) entries of all of them."""
    total = clauses.dictionary.rank_base[:, 4].astype(np.int64)
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(total + 1)])
    real = ranks > 0
    hits = np.bincount(start[attrs[real]] + ranks[real] + 1, minlength=int(start[-1])).astype(np.float64)
    share = 1.0 / max(1, count)
    cumulative = np.cumsum(hits)
    cumulative = cumulative - np.repeat(cumulative[start[:-1]], total + 1)
    present = np.bincount(attrs[real], minlength=len(total)) * share
    # A value that the sample lacks is not impossible: half a hit is spread over all ranks.
    spread = np.concatenate([np.arange(n + 1, dtype=np.float64) / n for n in total]) if len(total) else np.empty(0)
    weights = (cumulative + 0.5 * spread) * share
    return Weights(np.minimum(1.0, present + share), total, start, weights.astype(np.float32))


def item_shares(clauses: Clauses, weights: Weights) -> np.ndarray:
    """The share of events that each item is expected to admit."""
    out = np.empty(len(clauses.attr), np.float32)
    _shares(items_of(clauses), weights, weights.present / np.maximum(1, weights.total - 8), out)
    links = [attr for attr, _, _ in clauses.dictionary.meta.links]
    if links and weights.cumulative.size == 0:
        compares = np.isin(clauses.attr, links)
        out[compares] = LINK_SHARE * weights.present[clauses.attr[compares]]
    return out


@helper
def share_between(weights: Weights, a: int, low: int, high: int) -> float:
    """The share of events with a value of attribute a in the ranks low .. high."""
    if weights.cumulative.size == 0:  # all constants equally likely, and gaps between them only for ranges
        own = max(1, weights.total[a] - 8)
        return float(weights.present[a] * min(1.0, (2.0 if low == high else float(high - low + 1)) / own))
    at = weights.start[a]
    return float(weights.cumulative[at + high + 1] - weights.cumulative[at + low])


@kernel
def _shares(items: Items, weights: Weights, scale: np.ndarray, out: np.ndarray) -> None:
    """What `share_between` says of each item; `scale` is the share of one rank where all are equally likely."""
    _, attr, kind, low, high, set_start, set_low, set_high = items
    present, _, start, cumulative = weights
    guessed = cumulative.size == 0
    for k in range(attr.size):
        a, is_range = attr[k], kind[k] % 2 == 0
        first, last = (0, 1) if is_range else (set_start[low[k]], set_start[low[k] + 1])
        ranks, share = np.int64(0), 0.0
        for s in range(first, last):
            one, two = (low[k], high[k]) if is_range else (set_low[s], set_high[s])
            if guessed:
                ranks += 2 if one == two else two - one + 1
            else:
                share += float(cumulative[start[a] + two + 1] - cumulative[start[a] + one])
        share = min(present[a], ranks * scale[a]) if guessed else min(share, 1.0)
        out[k] = share if kind[k] < 2 else 1.0 - share


@kernel
def match_shares(mine: np.ndarray, start: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The share of events that each of these conjunctions is expected to match."""
    out = np.ones(mine.size)
    for i in range(mine.size):
        for k in range(start[mine[i]], start[mine[i] + 1]):
            out[i] *= shares[k]
    return out
