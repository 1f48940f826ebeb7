"""The planner: under which access key each conjunction is filed.

Every conjunction gets the key that the fewest events are expected to hit, weighed against what a probe costs:

* HASH: up to three equalities (or one IN, filed under each member), found by one probe of a hash table;
* PRESENT: an attribute that few events have at all;
* SORTED: a one-sided range alone, or with one range more: candidates are a run of a sorted array, and what is left
  to check is one comparison per candidate on columns beside it;
* BITMAP: everything else, in chunks of 512 with "certainly dead in this bucket" bits.

Expectations come from an event sample when there is one, else every rank of an attribute is taken as equally likely.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from whimbrel.engine.clauses import RANGE, SET, Clauses

HASH, PRESENT, SORTED, BITMAP = 0, 1, 2, 3
KINDS = ("hash", "present", "sorted", "bitmap")

HASH_BELOW = 0.012
"""Share of events that a hash key may hit: above it the chunks' bits are cheaper than checking candidates."""
SORTED_ABOVE = 0.05
"""Share of events above which a second range is worth one comparison per candidate rather than bits."""
PRESENT_BELOW = 0.01
"""Share of events that may have an attribute for its presence to be a key."""
ATTRIBUTES_PER_EVENT = 64.0
"""How many attributes an event is taken to have where there is no sample."""
PROBE_NS, CANDIDATE_NS = 25.0, 20.0
"""What a probe and a candidate cost, measured; only their ratio matters."""
IN_MEMBERS = 16
"""Members up to which an IN is filed under each."""
KEY_BITS = 50.0
"""Bits of a hash key: the product of the ranks of its attributes must stay below."""


@dataclass(frozen=True, slots=True)
class Weights:
    """How likely an event's value falls into ranks: per attribute a cumulative weight of its ranks.

    Without a sample `cumulative` is empty and ranks are equally likely; `present` is the share of events that have
    the attribute.
    """

    present: np.ndarray  # float64[A]
    total: np.ndarray  # int64[A]: ranks of the attribute
    start: np.ndarray  # int64[A + 1]
    cumulative: np.ndarray  # float32: cumulative[start[a] + r] is the weight of ranks below r


@dataclass(frozen=True, slots=True)
class Plan:
    """The choice per conjunction: its kind, and the items (numbers within the clauses) that make its key, or -1."""

    kind: np.ndarray  # uint8[m]
    keys: np.ndarray  # int64[m, 3]
    hits: np.ndarray  # float32[m]: expected share of events that reach it


def guess_weights(clauses: Clauses) -> Weights:
    """Weights from the filters alone: all attributes are equally frequent in events."""
    count = len(clauses.attributes)
    total = clauses.dictionary["rank_base"][:, 4].astype(np.int64)
    present = np.full(count, min(1.0, ATTRIBUTES_PER_EVENT / max(1, count)))
    return Weights(present, total, np.zeros(count + 1, np.int64), np.empty(0, np.float32))


def sample_weights(clauses: Clauses, count: int, attrs: np.ndarray, ranks: np.ndarray) -> Weights:
    """Weights from `count` sample events, given as the (attribute, rank) entries of all of them."""
    total = clauses.dictionary["rank_base"][:, 4].astype(np.int64)
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


def make_plan(clauses: Clauses, weights: Weights) -> Plan:
    """The access key of every conjunction."""
    m = len(clauses.slot)
    kind = np.empty(m, np.uint8)
    keys = np.full((m, 3), -1, np.int64)
    share = np.empty((m, 3), np.float32)
    _choose(
        clauses.start,
        clauses.attr,
        clauses.kind,
        clauses.low,
        clauses.high,
        clauses.flags,
        clauses.set_start,
        clauses.set_low,
        clauses.set_high,
        clauses.dictionary["rank_base"],
        weights.present,
        weights.total,
        weights.start,
        weights.cumulative,
        kind,
        keys,
        share,
    )
    hits = _drop_weak_keys(clauses, weights, kind, keys, share)
    return Plan(kind, keys, hits)


def _drop_weak_keys(
    clauses: Clauses, weights: Weights, kind: np.ndarray, keys: np.ndarray, share: np.ndarray
) -> np.ndarray:
    """Shortens keys whose last attribute saves less than the probe for its set of attributes costs."""
    hits = np.where(keys[:, 2] >= 0, share[:, 2], np.where(keys[:, 1] >= 0, share[:, 1], share[:, 0]))
    for last in (2, 1):
        mine = np.flatnonzero((kind == HASH) & (keys[:, last] >= 0) & (keys[:, 2] < 0 if last == 1 else True))
        if not len(mine):
            continue
        attrs = np.sort(clauses.attr[keys[mine, : last + 1]].astype(np.int64), axis=1)
        code = attrs[:, 0]
        present = weights.present[attrs[:, 0]]
        for column in range(1, last + 1):
            code = code * (1 << 21) + attrs[:, column]
            present = present * weights.present[attrs[:, column]]
        _, first, group = np.unique(code, return_index=True, return_inverse=True)
        saved = np.bincount(group, share[mine, last - 1] - share[mine, last]) * CANDIDATE_NS
        weak = mine[(saved < present[first] * PROBE_NS)[group]]
        keys[weak, last] = -1
        hits[weak] = share[weak, last - 1]
    return hits.astype(np.float32)


@numba.njit(cache=True, nogil=True)
def _between(a, low, high, present, total, start, cumulative):  # type: ignore[no-untyped-def]
    if cumulative.size == 0:  # all constants equally likely, and gaps between them only for ranges
        own = max(1, total[a] - 8)
        return present[a] * min(1.0, (2.0 if low == high else float(high - low + 1)) / own)
    return float(cumulative[start[a] + high + 1] - cumulative[start[a] + low])


@numba.njit(cache=True, nogil=True)
def item_share(k, attr, kind, low, high, set_start, set_low, set_high, present, total, start, cumulative):  # type: ignore[no-untyped-def]
    """The share of events that item k is expected to admit."""
    a = attr[k]
    if kind[k] % 2 == 0:
        share = _between(a, low[k], high[k], present, total, start, cumulative)
    else:
        share = 0.0
        for s in range(set_start[low[k]], set_start[low[k] + 1]):
            share += _between(a, set_low[s], set_high[s], present, total, start, cumulative)
    share = min(share, 1.0)
    return share if kind[k] < 2 else 1.0 - share


@numba.njit(cache=True, nogil=True)
def _is_one_sided(k, attr, low, high, base):  # type: ignore[no-untyped-def]
    a = attr[k]
    one_sided = False
    for t in range(4):
        one_sided |= low[k] == base[a, t] or high[k] == base[a, t + 1] - 1
    return one_sided and 0 < low[k] < high[k]


@numba.njit(cache=True, nogil=True)
def _choose(  # type: ignore[no-untyped-def]
    start, attr, kind, low, high, flags, set_start, set_low, set_high, base, present, total, wstart, cumulative,
    out_kind, keys, share,
):  # fmt: skip
    for c in range(start.size - 1):
        first, last = start[c], start[c + 1]
        if flags[c] == 0 and last - first <= 2 and kind[first] == RANGE and kind[last - 1] == RANGE:
            run, other = -1, -1
            run_share, other_share = 2.0, 1.0
            for k in range(first, last):
                s = _between(attr[k], low[k], high[k], present, total, wstart, cumulative)
                if s < run_share and _is_one_sided(k, attr, low, high, base):
                    run, run_share = k, s
            if run >= 0 and last - first == 2:
                other = first + last - 1 - run
                other_share = _between(attr[other], low[other], high[other], present, total, wstart, cumulative)
            if run >= 0 and other_share > SORTED_ABOVE and (other < 0 or attr[other] != attr[run]):
                out_kind[c] = SORTED
                keys[c, 0], keys[c, 1] = run, other
                share[c, 0] = run_share
                continue
        # The three most selective equalities, the most selective IN, the rarest attribute.
        best_in, best_in_share = -1, 2.0
        rare, rare_share = -1, 2.0
        s0, s1, s2 = 2.0, 2.0, 2.0
        k0, k1, k2 = -1, -1, -1
        for k in range(first, last):
            if kind[k] > SET:
                continue
            a = attr[k]
            if present[a] < rare_share and (low[k] > 0 or kind[k] == SET):
                rare, rare_share = k, present[a]
            if kind[k] == RANGE and low[k] == high[k]:
                s = _between(a, low[k], high[k], present, total, wstart, cumulative)
                if s < s0:
                    s2, k2, s1, k1, s0, k0 = s1, k1, s0, k0, s, k
                elif s < s1:
                    s2, k2, s1, k1 = s1, k1, s, k
                elif s < s2:
                    s2, k2 = s, k
            elif kind[k] == SET:
                points = 0
                s = 0.0
                for i in range(set_start[low[k]], set_start[low[k] + 1]):
                    points += set_high[i] - set_low[i] + 1
                    s += _between(a, set_low[i], set_high[i], present, total, wstart, cumulative)
                spread = set_start[low[k] + 1] - set_start[low[k]]
                if points == spread and points <= IN_MEMBERS and s < best_in_share:
                    best_in, best_in_share = k, s
        # Two equalities on one attribute (CONTAINS ALL) cannot share a key: the key has one value per attribute.
        if k1 >= 0 and attr[k1] == attr[k0]:
            s1, k1, s2, k2 = s2, k2, 2.0, -1
            if k1 >= 0 and attr[k1] == attr[k0]:
                s1, k1 = 2.0, -1
        if k2 >= 0 and (attr[k2] == attr[k0] or attr[k2] == attr[k1]):
            s2, k2 = 2.0, -1
        bits = np.log2(float(total[attr[k0]])) if k0 >= 0 else 0.0
        if k1 >= 0:
            bits += np.log2(float(total[attr[k1]]))
            if bits > KEY_BITS:
                k1, k2 = -1, -1
        if k2 >= 0 and bits + np.log2(float(total[attr[k2]])) > KEY_BITS:
            k2 = -1
        h0 = s0 if k0 >= 0 else 1.0
        h1 = h0 * s1 if k1 >= 0 else h0
        h2 = h1 * s2 if k2 >= 0 else h1
        if k0 >= 0 and h2 <= HASH_BELOW:
            out_kind[c] = HASH
            keys[c, 0], keys[c, 1], keys[c, 2] = k0, k1, k2
            share[c, 0], share[c, 1], share[c, 2] = h0, h1, h2
        elif best_in >= 0 and best_in_share <= HASH_BELOW * 4:
            out_kind[c] = HASH
            keys[c, 0] = best_in
            share[c, 0] = best_in_share
        elif rare >= 0 and rare_share <= PRESENT_BELOW:
            out_kind[c] = PRESENT
            keys[c, 0] = rare
            share[c, 0] = rare_share
        else:
            out_kind[c] = BITMAP
            share[c, 0] = 1.0
