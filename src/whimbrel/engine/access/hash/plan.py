"""Which conjunctions get a hash key, and which one: the items that an event must hit to reach the conjunction.

A key has one, two or three items (key_items.py), or it is the presence of an attribute that few events have. A
conjunction with an IN or a range in its key is filed under several keys. Only key shapes that pay are used
(key_shapes.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.jit import helper, kernel
from whimbrel.engine.access.hash.key_items import (
    CANDIDATE_NS,
    KEY_BITS,
    PROBE_NS,
    KeySource,
    are_too_many,
    entry_price,
    key_items,
    key_source,
    no_items,
    place_of,
    shape_code,
    shape_table,
)
from whimbrel.engine.access.hash.key_shapes import paying_shapes, sample_options
from whimbrel.engine.access.shared.arrays import Items, items_of
from whimbrel.engine.access.shared.weights import Weights
from whimbrel.ranks.clauses.clauses import SET, Clauses

SAMPLE = 40_000
"""Conjunctions on which key shapes are weighed."""
PRESENT_BELOW = 0.01
"""Share of events that may have an attribute for its presence to be a key."""


class HashPlan(NamedTuple):
    """The key shape of every conjunction, 0 where it has no hash key, and what the probe of each costs an event."""

    shape: np.ndarray  # int32[m]
    price: np.ndarray

    def prices(self, those: np.ndarray) -> float:
        """What the probes of the shapes of some conjunctions cost."""
        return float(self.price[np.bincount(self.shape[those], minlength=len(self.price)) > 0].sum())

    def unpaid(self, own: np.ndarray, cost: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
        """The conjunctions of `own` whose key shape costs more than it saves.

        `cost` says what each conjunction costs with its hash key, `otherwise` what it costs with another key.
        """
        shape = self.shape[own]
        saved = np.bincount(shape, otherwise[own] - cost[own], len(self.price))
        unpaid: np.ndarray = own[(saved < self.price)[shape]]
        return unpaid


def plan_present(
    clauses: Clauses, weights: Weights, mine: np.ndarray, keys: np.ndarray, cost: np.ndarray
) -> np.ndarray:
    """Mark the conjunctions of `mine` that ask for a value of a rare attribute.

    The item goes to `keys`, and what its presence as a key costs an event to `cost`.
    """
    is_present = np.zeros(len(clauses.start) - 1, np.bool_)
    _find_rare(mine, items_of(clauses), weights.present, keys, cost, is_present)
    return is_present


def plan_hash(
    clauses: Clauses, weights: Weights, shares: np.ndarray, mine: np.ndarray, keys: np.ndarray, cost: np.ndarray
) -> HashPlan:
    """Find the hash key of every conjunction of `mine` that has one which costs less than `cost` says.

    The items of the key go to `keys`, and what it costs an event to `cost`.
    """
    source = key_source(clauses, weights, shares)
    equals = count_equals(clauses, mine)
    step = max(1, len(mine) // SAMPLE)
    options = sample_options(mine[::step].copy(), equals[::step].copy(), source)
    pays = paying_shapes(options, float(step))
    known, price = options.known, options.price
    singles = known <= 1 << 21  # an attribute alone may be a key if nothing is known of it
    refused = np.zeros(2 * len(weights.present) + 1, np.bool_)
    refused[known[singles & ~pays]] = True
    known, price = known[~singles & pays], price[~singles & pays]
    alone = np.repeat(weights.present * PROBE_NS, 2)  # by rank and by bucket
    shape = np.zeros(len(clauses.start) - 1, np.int32)
    _assign(mine, equals, source, shape_table(known), known, refused, keys, cost, shape)
    return HashPlan(shape, np.concatenate([np.zeros(1), alone, price]))


def count_equals(clauses: Clauses, mine: np.ndarray) -> np.ndarray:
    """About how many of these conjunctions have the same items as each: under one key they are checked once."""
    equals = np.empty(len(mine), np.float32)
    _count_equals(mine, items_of(clauses), equals)
    return equals


@kernel
def _count_equals(mine: np.ndarray, items: Items, out: np.ndarray) -> None:
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


@kernel
def _find_rare(
    mine: np.ndarray, items: Items, present: np.ndarray, keys: np.ndarray, cost: np.ndarray, is_present: np.ndarray
) -> None:
    start, attr, kind, low, _, _, _, _ = items
    for c in mine:
        rare, share = -1, PRESENT_BELOW
        for k in range(start[c], start[c + 1]):
            if kind[k] <= SET and present[attr[k]] <= share and (low[k] > 0 or kind[k] == SET):
                rare, share = k, present[attr[k]]
        if rare >= 0:
            is_present[c] = True
            keys[c, 0] = rare
            cost[c] = share * CANDIDATE_NS


@helper
def _is_better(cost: float, best: float, code: int, table: np.ndarray, known: np.ndarray) -> bool:
    """Whether a shape of several parts pays, and the key costs less than the best so far."""
    return cost < best and table[place_of(table, known, code)] > 0


@kernel
def _assign(
    mine: np.ndarray, equals: np.ndarray, source: KeySource, table: np.ndarray, known: np.ndarray, refused: np.ndarray,
    keys: np.ndarray, costs: np.ndarray, shapes: np.ndarray,
) -> None:  # fmt: skip
    """Find the best key of every conjunction: write its items, what it costs, and its shape."""
    found = no_items()
    item, share, entries, part, bits = found
    for i in range(mine.size):
        c = mine[i]
        n = key_items(c, source, found)
        candidate = CANDIDATE_NS / equals[i]
        best = costs[c]
        code: int = np.int64(0)  # type: ignore[assignment]
        one = two = three = -1
        for x in range(n):
            if x > 1 and share[0] * share[1] * share[x] * candidate >= best:
                break
            cost = share[x] * candidate + entry_price(entries[x])
            if cost < best and not refused[part[x]]:
                best, code, one, two, three = cost, part[x], x, -1, -1
            for y in range(x):
                pair, width = entries[x] * entries[y], bits[x] + bits[y]
                if are_too_many(entries[x], entries[y]) or width > KEY_BITS:
                    continue
                hit = share[x] * share[y]
                cost = hit * candidate + entry_price(pair)
                if _is_better(cost, best, shape_code(part[x], part[y], 0), table, known):
                    best, code, one, two, three = cost, shape_code(part[x], part[y], 0), y, x, -1
                for z in range(y):
                    if x >= 4 or are_too_many(pair, entries[z]) or width + bits[z] > KEY_BITS:
                        break
                    cost = hit * share[z] * candidate + entry_price(pair * entries[z])
                    if _is_better(cost, best, shape_code(part[x], part[y], part[z]), table, known):
                        best, code, one, two, three = cost, shape_code(part[x], part[y], part[z]), z, y, x
        if one < 0:
            continue
        costs[c] = best
        keys[c, 0] = item[one]
        keys[c, 1] = item[two] if two >= 0 else -1
        keys[c, 2] = item[three] if three >= 0 else -1
        shapes[c] = code if two < 0 else refused.size + table[place_of(table, known, code)] - 1
