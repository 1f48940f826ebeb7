"""The choice of hash keys: which one, two or three items of each conjunction an event must hit to reach it.

An equality puts its rank into the key, an IN each of its members, a range the buckets of ranks that it covers: such a
conjunction is filed under several keys. A *schema* is the set of attributes of a key, each by rank or by bucket. An
event probes every schema whose attributes it has, so a schema must save more candidates than its probe costs:
schemas are weighed on a sample of the conjunctions, and those that pay least are dropped until all that are left pay.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.jit import helper, kernel
from whimbrel.engine.access.hash.candidates import (
    CANDIDATE_NS,
    ENTRY_NS,
    KEY_BITS,
    MEMBERS,
    PROBE_NS,
    candidates,
    key_source,
    place_of,
    room,
    schema_code,
    schema_table,
)
from whimbrel.engine.access.hash.key_shapes import sample_options, weigh
from whimbrel.engine.access.shared.weights import Weights
from whimbrel.ranks.clauses.clauses import Clauses

SAMPLE = 40_000
"""Conjunctions on which schemas are weighed."""


class Choice(NamedTuple):
    """The schema of every conjunction, 0 where it has no hash key, and per schema what its probe costs an event."""

    schema: np.ndarray  # int32[m]
    price: np.ndarray

    def prices(self, those: np.ndarray) -> float:
        """What the probes of the schemas of some conjunctions cost."""
        return float(self.price[np.bincount(self.schema[those], minlength=len(self.price)) > 0].sum())


def choose_keys(
    clauses: Clauses, weights: Weights, shares: np.ndarray, mine: np.ndarray, keys: np.ndarray, cost: np.ndarray
) -> Choice:
    """The hash key of every conjunction of `mine`, where it has one that costs less than `cost` says.

    Its items are written to `keys`, and what it costs an event to `cost`.
    """
    source = key_source(clauses, weights, shares)
    equals = count_equals(clauses, mine)
    step = max(1, len(mine) // SAMPLE)
    counts, schema, costs, known, price, saved = sample_options(mine[::step].copy(), equals[::step].copy(), source)
    pays = weigh(counts, schema, costs, price, saved, float(step))
    singles = known <= 1 << 21  # an attribute alone may be a key if nothing is known of it
    refused = np.zeros(2 * len(weights.present) + 1, np.bool_)
    refused[known[singles & ~pays]] = True
    known, price = known[~singles & pays], price[~singles & pays]
    alone = np.repeat(weights.present * PROBE_NS, 2)  # by rank and by bucket
    schema = np.zeros(len(clauses.row), np.int32)
    _assign(mine, equals, source, schema_table(known), known, refused, keys, cost, schema)
    return Choice(schema, np.concatenate([np.zeros(1), alone, price]))


def count_equals(clauses: Clauses, mine: np.ndarray) -> np.ndarray:
    """About how many of these conjunctions have the same items as each: under one key they are checked once."""
    equals = np.empty(len(mine), np.float32)
    _count_equals(mine, clauses.start, clauses.attr, clauses.kind, clauses.low, clauses.high, equals)
    return equals


@kernel
def _count_equals(mine, start, attr, kind, low, high, out):  # type: ignore[no-untyped-def]
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


@helper
def _is_better(cost, best, code, table, known):  # type: ignore[no-untyped-def]
    """Whether a schema of several attributes pays, and the key costs less than the best so far."""
    return cost < best and table[place_of(table, known, code)] > 0


@kernel
def _assign(mine, equals, source, table, known, refused, keys, costs, schemas):  # type: ignore[no-untyped-def]
    """Finds the best key of every conjunction: its items, what it costs, and its schema."""
    item, share, entries, part, bits = room()
    attr = source[1]
    for i in range(mine.size):
        c = mine[i]
        n = candidates(c, source, item, share, entries, part, bits)
        candidate = CANDIDATE_NS / equals[i]
        best, code = costs[c], np.int64(0)
        one = two = three = -1
        for x in range(n):
            if x > 1 and share[0] * share[1] * share[x] * candidate >= best:
                break
            cost = share[x] * candidate + (entries[x] - 1) * ENTRY_NS
            if cost < best and not refused[part[x]]:
                best, code, one, two, three = cost, part[x], x, -1, -1
            for y in range(x):
                pair, width = entries[x] * entries[y], bits[x] + bits[y]
                if attr[item[x]] == attr[item[y]] or pair > MEMBERS or width > KEY_BITS:
                    continue
                hit = share[x] * share[y]
                cost = hit * candidate + (pair - 1) * ENTRY_NS
                if _is_better(cost, best, schema_code(part[x], part[y], 0), table, known):
                    best, code, one, two, three = cost, schema_code(part[x], part[y], 0), y, x, -1
                for z in range(y):
                    if x >= 4 or pair * entries[z] > MEMBERS or width + bits[z] > KEY_BITS:
                        break
                    a = attr[item[z]]
                    if a == attr[item[x]] or a == attr[item[y]]:
                        continue
                    cost = hit * share[z] * candidate + (pair * entries[z] - 1) * ENTRY_NS
                    if _is_better(cost, best, schema_code(part[x], part[y], part[z]), table, known):
                        best, code, one, two, three = cost, schema_code(part[x], part[y], part[z]), z, y, x
        if one < 0:
            continue
        costs[c] = best
        keys[c, 0] = item[one]
        keys[c, 1] = item[two] if two >= 0 else -1
        keys[c, 2] = item[three] if three >= 0 else -1
        schemas[c] = code if two < 0 else refused.size + table[place_of(table, known, code)] - 1
