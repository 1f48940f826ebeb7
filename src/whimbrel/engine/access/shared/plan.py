"""The plan of a segment: its conjunctions, the expected events, and the access key that each conjunction has so far.

Weights say how often events have an attribute and where its values fall. They come from a sample of events; without
one, every rank of an attribute counts as equally likely.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Bools, Float32s, Floats, Int32s, Int64s
from whimbrel.compiled.jit import helper, kernel
from whimbrel.engine.access.shared.arrays import Items
from whimbrel.engine.access.shared.packing import SHARED_BIT, VERIFY_BIT
from whimbrel.ranks.clauses.clauses import SHARED, VERIFY, Clauses

ATTRIBUTES_PER_EVENT = 64.0
"""Assumed number of attributes of an event, without a sample."""

LINK_SHARE = 0.9
"""Assumed share of events for which a comparison of two attributes holds, without a sample: so high that any other item
is a better key."""
FIXED_RANKS = 8
"""Ranks that an attribute has whatever its constants are: null, booleans, gaps of further types."""
NO_KEY = 255
"""The kind of a conjunction that has no key yet."""
UNKEYED_NS = 9.0
"""What a conjunction without a key costs an event."""


class Weights(NamedTuple):
    """The probability that the value of an event falls into given ranks of an attribute.

    Without a sample `cumulative` is empty, and all ranks of an attribute are equally likely.
    """

    present: Floats  # [A]: the share of events that have the attribute
    total: Int64s  # [A]: the number of ranks of the attribute
    start: Int64s  # [A + 1]: where an attribute begins in `cumulative`
    cumulative: Float32s  # cumulative[start[a] + r] is the weight of ranks below r


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
    _shares(_items_of(clauses), weights, weights.present / np.maximum(1, weights.total - FIXED_RANKS), out)
    links = [attr for attr, _, _ in clauses.dictionary.meta.links]
    if links and weights.cumulative.size == 0:
        compares = np.isin(clauses.attr, links)
        out[compares] = LINK_SHARE * weights.present[clauses.attr[compares]]
    return out


@dataclass
class Plan:
    """The key of every conjunction and its cost per event, while access keys take conjunctions one after the other.

    Conjunctions that share a key form a group. A conjunction costs an event `cost`; its group costs `price` in
    addition, as long as it has any conjunction.
    """

    clauses: Clauses
    weights: Weights
    shares: Float32s  # [k]: the share of events that each item admits
    kinds: tuple[str, ...]  # the names of the kinds of keys

    def __post_init__(self) -> None:
        count = len(self.clauses.start) - 1
        self.kind = np.full(count, NO_KEY, np.uint8)  # the number of a name in `kinds`
        self.open = np.ones(count, bool)  # which conjunctions keys may still take
        self.keys = np.full((count, 3), -1, np.int64)  # the items (numbers within the clauses) that make the key, or -1
        self.cost = np.full(count, np.inf)
        self.group = np.zeros(count, np.int32)  # the group of each conjunction, 0 for none
        self.price = np.zeros(1)  # float64[groups + 1]: the cost of each group
        self.rest = np.zeros(count, bool)  # the conjunctions of the bitmap key, which takes what no other key wants
        self.load = 0.0  # what that key costs an event if it has any conjunction
        self.notes: dict[str, object] = {}  # what a key keeps between `bid` and `lay_out`, by its name
        self.records: list[np.ndarray] = []  # the records that were laid out so far

    def take(self, kind: str, which: np.ndarray) -> None:
        """Give conjunctions this kind of key and take them out of their groups; `which` has numbers or is a mask."""
        self.kind[which] = self.kinds.index(kind)
        self.group[which] = 0

    def of(self, *kinds: str) -> np.ndarray:
        """The conjunctions that have one of these kinds of key."""
        return np.flatnonzero(np.isin(self.kind, [self.kinds.index(kind) for kind in kinds]))

    def has(self, kind: str, which: np.ndarray) -> bool:
        """Whether all of these conjunctions have this kind of key."""
        return bool((self.kind[which] == self.kinds.index(kind)).all())

    def prices(self, those: np.ndarray) -> float:
        """The sum of the prices of the groups to which these conjunctions belong."""
        return float(self.price[np.bincount(self.group[those], minlength=len(self.price)) > 0].sum())

    def unpaid(self, otherwise: np.ndarray) -> np.ndarray:
        """The conjunctions of groups whose price is more than they save, given the cost of each with another key."""
        own = np.flatnonzero(self.group)
        group = self.group[own]
        saved = np.bincount(group, otherwise[own] - self.cost[own], len(self.price))
        unpaid: np.ndarray = own[(saved < self.price)[group]]
        return unpaid

    @cached_property
    def items(self) -> Items:
        """The items of all conjunctions."""
        return _items_of(self.clauses)

    @cached_property
    def rows(self) -> np.ndarray:
        """The row of every conjunction with its flags."""
        packed = self.clauses.row.astype(np.int32)
        packed = packed | np.where(self.clauses.flags & VERIFY, np.int32(VERIFY_BIT), np.int32(0))
        return packed | np.where(self.clauses.flags & SHARED, np.int32(SHARED_BIT), np.int32(0))

    def used_attributes(self, mine: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The attributes of these conjunctions, and for every attribute its place among them, or -1."""
        uses = np.zeros(len(self.clauses.attributes), bool)
        _mark_used(mine, self.clauses.start, self.clauses.attr, uses)
        attrs = np.flatnonzero(uses)
        compact = np.full(len(uses), -1, np.int32)
        compact[attrs] = np.arange(len(attrs), dtype=np.int32)
        return attrs, compact

    def count_equals(self, mine: np.ndarray) -> np.ndarray:
        """Estimate for each conjunction how many have the same items: under one key these are checked once."""
        equals = np.empty(len(mine), np.float32)
        _count_equals(mine, self.items, equals)
        return equals


def _items_of(clauses: Clauses) -> Items:
    return Items(*(getattr(clauses, name) for name in Items._fields))


@helper
def share_between(weights: Weights, a: int, low: int, high: int) -> float:
    """The share of events with a value of attribute a in the ranks low .. high."""
    if weights.cumulative.size == 0:  # constants are equally likely, and gaps between them count for ranges only
        own = max(1, weights.total[a] - FIXED_RANKS)
        return float(weights.present[a] * min(1.0, (2.0 if low == high else float(high - low + 1)) / own))
    at = weights.start[a]
    return float(weights.cumulative[at + high + 1] - weights.cumulative[at + low])


@kernel
def _shares(items: Items, weights: Weights, scale: Floats, out: Float32s) -> None:
    """Write the share of events that each item admits; `scale` is the share of one rank if all are equally likely."""
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
def match_shares(mine: Int64s, start: Int64s, shares: Float32s) -> np.ndarray:
    """The share of events that each of these conjunctions is expected to match."""
    out = np.ones(mine.size)
    for i in range(mine.size):
        for k in range(start[mine[i]], start[mine[i] + 1]):
            out[i] *= shares[k]
    return out


@kernel
def _mark_used(mine: Int64s, start: Int64s, attr: Int32s, uses: Bools) -> None:
    for c in mine:
        for k in range(start[c], start[c + 1]):
            uses[attr[k]] = True


@kernel
def _count_equals(mine: Int64s, items: Items, out: Float32s) -> None:
    start, attr, kind, low, high, _, _, _ = items
    size = 16
    while size < 4 * mine.size:
        size *= 2
    counts = np.zeros(size, np.uint16)
    places = np.empty(mine.size, np.int32)
    for i in range(mine.size):
        total = np.uint64(0)
        for k in range(start[mine[i]], start[mine[i] + 1]):  # in any order
            h = np.uint64(attr[k]) * np.uint64(4) + np.uint64(kind[k])
            for part in (np.uint64(low[k]), np.uint64(high[k])):
                h = (h ^ part) * np.uint64(0x9E3779B97F4A7C15)
                h ^= h >> np.uint64(29)
            total += h
        places[i] = np.int64(total & np.uint64(size - 1))
        counts[places[i]] += counts[places[i]] < 65_535
    for i in range(mine.size):
        out[i] = counts[places[i]]
