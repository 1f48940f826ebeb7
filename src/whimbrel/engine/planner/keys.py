"""The choice of hash keys: which one, two or three items of each conjunction an event must hit to reach it.

An equality puts its rank into the key, an IN each of its members, a range the buckets of ranks that it covers: such a
conjunction is filed under several keys. A *schema* is the set of attributes of a key, each by rank or by bucket. An
event probes every schema whose attributes it has, so a schema must save more candidates than its probe costs:
schemas are weighed on a sample of the conjunctions, and those that pay least are dropped until all that are left pay.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.engine.compiled.jit import helper, kernel
from whimbrel.engine.intake.clauses import RANGE, SET, Clauses
from whimbrel.engine.planner.weights import Weights, between

PROBE_NS, CANDIDATE_NS = 30.0, 14.0
"""What a probe and a candidate cost, measured; only ratios matter."""
ENTRY_NS = 0.01
"""The price of one entry more: memory that fewer candidates must be worth."""
UNKEYED_NS = CANDIDATE_NS
"""What a conjunction costs per event that has no key."""
BUCKETS = 16
"""Buckets of an attribute in a key, at most."""
MEMBERS = 16
"""Entries of one conjunction, at most."""
KEY_BITS = 50.0
"""Bits of a hash key: the product of the codes of its attributes must stay below."""
SAMPLE = 40_000
"""Conjunctions on which schemas are weighed."""
_ITEMS = 8
_OPTIONS = _ITEMS + _ITEMS * (_ITEMS - 1) // 2 + 4
_ATTRIBUTES = 1 << 20
_ROUNDS = 24
_UNKNOWN, _DROPPED, _KEPT = 0, 1, 2


def bucket_factor(total: np.ndarray) -> np.ndarray:
    """Per attribute the factor f with which (rank * f) >> 32 is the bucket of a rank."""
    factor: np.ndarray = (np.minimum(BUCKETS, total) << 32) // np.maximum(1, total)
    return factor


class Choice(NamedTuple):
    """Per conjunction the items of its key, or -1, what it costs an event (infinite without a key), and its schema."""

    keys: np.ndarray
    cost: np.ndarray
    schema: np.ndarray  # equal for equal schemas, 0 without a key
    price: np.ndarray  # what the probe of its schema costs an event


def choose_keys(clauses: Clauses, weights: Weights, mine: np.ndarray) -> Choice:
    """The hash key of every conjunction of `mine`."""
    factor = bucket_factor(weights.total)
    source = (
        clauses.start, clauses.attr, clauses.kind, clauses.low, clauses.high,
        clauses.set_start, clauses.set_low, clauses.set_high,
        weights.present, weights.total, weights.start, weights.cumulative, factor, _widths(weights.total),
    )  # fmt: skip
    equals = count_equals(clauses, mine)
    step = max(1, len(mine) // SAMPLE)
    counts, schema, cost, known, price = _sampled(mine[::step].copy(), equals[::step].copy(), source)
    state = _weigh(counts, schema, cost, price, float(step))
    return Choice(*_assign(mine, equals, source, *_table(known, state)))


def count_equals(clauses: Clauses, mine: np.ndarray) -> np.ndarray:
    """About how many of these conjunctions have the same items as each: under one key they are checked once."""
    equals = np.empty(len(mine), np.float32)
    _count_equals(mine, clauses.start, clauses.attr, clauses.kind, clauses.low, clauses.high, equals)
    return equals


def _widths(total: np.ndarray) -> np.ndarray:
    """Per attribute the bits of a rank and of a bucket in a key."""
    widths: np.ndarray = np.log2(np.stack([total, np.minimum(total, BUCKETS)], axis=1).astype(np.float64))
    return widths


def _table(known: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Open addressing from the code of a schema to its state."""
    capacity = 1 << max(4, int(np.ceil(np.log2(max(1, len(known)) * 2))))
    table = np.zeros(capacity, np.int64)
    states = np.zeros(capacity, np.uint8)
    _fill(table, states, known, state)
    return table, states


@helper
def _place(table, code):  # type: ignore[no-untyped-def]
    mask = table.size - 1
    at = np.int64((np.uint64(code) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask
    while table[at] != 0 and table[at] != code:
        at = (at + 1) & mask
    return at


@kernel
def _fill(table, states, known, state):  # type: ignore[no-untyped-def]
    for i in range(known.size):
        at = _place(table, known[i])
        table[at], states[at] = known[i], state[i]


@helper
def _options(c, equals, source, item, share, entries, part, bits, code, cost, probe, picked):  # type: ignore[no-untyped-def]
    """The possible keys of a conjunction: their number, and per key its schema, cost, chance of a probe and items."""
    start, attr, kind, low, high, set_start, set_low, set_high, present, total, wstart, cumulative, factor, widths = (
        source
    )
    n = 0
    for k in range(start[c], start[c + 1]):
        a = attr[k]
        if kind[k] > SET or a >= _ATTRIBUTES:
            continue
        if kind[k] == RANGE and low[k] == high[k]:
            s, e, is_bucket = between(a, low[k], low[k], present, total, wstart, cumulative), 1, 0
        elif kind[k] == RANGE:
            if low[k] <= 0:
                continue
            b0, b1 = (low[k] * factor[a]) >> 32, (high[k] * factor[a]) >> 32
            r0 = min(np.int64(low[k]), -((-b0 << 32) // factor[a]))
            r1 = max(np.int64(high[k]), -((-(b1 + 1) << 32) // factor[a]) - 1)
            s, e, is_bucket = between(a, r0, min(r1, total[a] - 1), present, total, wstart, cumulative), b1 - b0 + 1, 1
        else:
            e, points, s, is_bucket = set_start[low[k] + 1] - set_start[low[k]], 0, 0.0, 0
            if e > MEMBERS:
                continue
            for i in range(set_start[low[k]], set_start[low[k] + 1]):
                points += set_high[i] - set_low[i] + 1
                s += between(a, set_low[i], set_high[i], present, total, wstart, cumulative)
            if points != e:
                continue
        if e > MEMBERS:
            continue
        if n == _ITEMS and s >= share[n - 1]:
            continue
        n = min(n + 1, _ITEMS)
        j = n - 1
        while j > 0 and share[j - 1] > s:
            item[j], share[j], entries[j], part[j], bits[j] = (
                item[j - 1], share[j - 1], entries[j - 1], part[j - 1], bits[j - 1]
            )  # fmt: skip
            j -= 1
        item[j], share[j], entries[j], part[j] = k, s, e, 2 * np.int64(a) + is_bucket + 1
        bits[j] = widths[a, is_bucket]
    options = 0
    for i in range(n):
        code[options], cost[options], probe[options] = (
            part[i],
            _cost(share[i] / equals, entries[i]),
            present[attr[item[i]]],
        )
        picked[options, 0], picked[options, 1], picked[options, 2] = i, -1, -1
        options += 1
        for j in range(i):
            pair, width = entries[i] * entries[j], bits[i] + bits[j]
            if attr[item[i]] == attr[item[j]] or pair > MEMBERS or width > KEY_BITS:
                continue
            hit, chance = share[i] * share[j], present[attr[item[i]]] * present[attr[item[j]]]
            code[options] = (max(part[i], part[j]) << 21) | min(part[i], part[j])
            cost[options], probe[options] = _cost(hit / equals, pair), chance
            picked[options, 0], picked[options, 1], picked[options, 2] = j, i, -1
            options += 1
            for h in range(j):  # three only of the four most selective
                if i >= 4 or pair * entries[h] > MEMBERS or width + bits[h] > KEY_BITS:
                    break
                a = attr[item[h]]
                if a == attr[item[i]] or a == attr[item[j]]:
                    continue
                largest = max(part[i], part[j], part[h])
                smallest = min(part[i], part[j], part[h])
                middle = part[i] + part[j] + part[h] - largest - smallest
                code[options] = (largest << 42) | (middle << 21) | smallest
                cost[options], probe[options] = _cost(hit * share[h] / equals, pair * entries[h]), chance * present[a]
                picked[options, 0], picked[options, 1], picked[options, 2] = h, j, i
                options += 1
    return options


@kernel
def _count_equals(mine, start, attr, kind, low, high, out):  # type: ignore[no-untyped-def]
    size = 16
    while size < 4 * mine.size:
        size *= 2
    counts = np.zeros(size, np.int32)
    places = np.empty(mine.size, np.int64)
    for i in range(mine.size):
        total = np.uint64(0)
        for k in range(start[mine[i]], start[mine[i] + 1]):  # in any order
            h = np.uint64(attr[k]) * np.uint64(4) + np.uint64(kind[k])
            for part in (np.uint64(low[k]), np.uint64(high[k])):
                h = (h ^ part) * np.uint64(0x9E3779B97F4A7C15)
                h ^= h >> np.uint64(29)
            total += h
        places[i] = np.int64(total & np.uint64(size - 1))
        counts[places[i]] += 1
    for i in range(mine.size):
        out[i] = counts[places[i]]


@helper
def _cost(share, entries):  # type: ignore[no-untyped-def]
    return share * CANDIDATE_NS + (entries - 1) * ENTRY_NS


@helper
def _room():  # type: ignore[no-untyped-def]
    return (
        np.empty(_ITEMS + 1, np.int64), np.empty(_ITEMS + 1), np.empty(_ITEMS + 1, np.int64),
        np.empty(_ITEMS + 1, np.int64), np.empty(_ITEMS + 1),
        np.empty(_OPTIONS, np.int64), np.empty(_OPTIONS), np.empty(_OPTIONS), np.empty((_OPTIONS, 3), np.int64),
    )  # fmt: skip


def _sampled(mine: np.ndarray, equals: np.ndarray, source: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """The options of conjunctions: how many each has, of all the schema and cost; per schema its code and price."""
    items = np.minimum(source[0][mine + 1] - source[0][mine], _ITEMS)
    most = int((items * (items + 1) // 2 + (items == 3) + 4 * (items > 3)).sum())
    counts = np.empty(len(mine), np.int64)
    schema, cost = np.empty(most, np.int32), np.empty(most)
    known, price = np.empty(most, np.int64), np.empty(most)
    table = np.zeros(1 << max(4, (2 * most).bit_length()), np.int64)
    found, schemas = _all_options(
        mine, equals, source, table, np.empty(table.size, np.int32), counts, schema, cost, known, price
    )
    order = np.argsort(known[:schemas])
    rank = np.empty(schemas, np.int32)
    rank[order] = np.arange(schemas)
    return counts, rank[schema[:found]], cost[:found], known[order], price[order]


@kernel
def _all_options(mine, equals, source, table, numbers, counts, schemas, costs, known, price):  # type: ignore[no-untyped-def]
    """Writes the options of all; schemas are numbered as they come. How many options and schemas there are."""
    item, share, entries, part, bits, code, cost, probe, picked = _room()
    at = count = 0
    for i in range(mine.size):
        n = _options(mine[i], equals[i], source, item, share, entries, part, bits, code, cost, probe, picked)
        counts[i] = n
        for o in range(n):
            place = _place(table, code[o])
            if table[place] == 0:
                table[place], numbers[place], known[count] = code[o], count, code[o]
                count += 1
            schemas[at + o], costs[at + o] = numbers[place], cost[o]
            price[numbers[place]] = probe[o] * PROBE_NS
        at += n
    return at, count


def _weigh(counts: np.ndarray, schema: np.ndarray, cost: np.ndarray, price: np.ndarray, scale: float) -> np.ndarray:
    """Which schemas pay: the least paying go first, as what they served turns to others."""
    state = np.full(len(price), _KEPT, np.uint8)
    saved: np.ndarray = np.bincount(schema, np.maximum(0.0, UNKEYED_NS - cost), len(price))  # if there were no other
    alone = saved / max(1e-9, float(saved.max(initial=0)))
    for turn in range(_ROUNDS):
        gain = np.zeros(len(price))
        _add_gains(counts, schema, cost, state, scale, gain)
        weak = np.flatnonzero((state == _KEPT) & (gain < price))
        if not len(weak):
            break
        drop = np.argsort(gain[weak] / price[weak] + 1e-3 * alone[weak], kind="stable")
        state[weak[drop[: len(weak) if turn == _ROUNDS - 1 else (len(weak) + 1) // 2]]] = _DROPPED
    return state


@kernel
def _add_gains(counts, schema, cost, state, scale, gain):  # type: ignore[no-untyped-def]
    """Adds what each schema saves those that it serves, compared with their second best.

    Options of dropped schemas, which never come back, are removed on the way.
    """
    at = kept = 0
    for i in range(counts.size):
        best, next_best, chosen = UNKEYED_NS, UNKEYED_NS, -1
        first = kept
        for o in range(at, at + counts[i]):
            if state[schema[o]] != _KEPT:
                continue
            its_cost, its_schema = cost[o], schema[o]
            cost[kept], schema[kept] = its_cost, its_schema
            kept += 1
            if its_cost >= next_best:
                continue
            if its_schema == chosen:
                best = min(best, its_cost)
            elif its_cost < best:
                next_best, best, chosen = best, its_cost, its_schema
            else:
                next_best = its_cost
        at += counts[i]
        counts[i] = kept - first
        if chosen >= 0:
            gain[chosen] += (next_best - best) * scale


@kernel
def _assign(mine, equals, source, table, states):  # type: ignore[no-untyped-def]
    item, share, entries, part, bits, code, cost, probe, picked = _room()
    keys = np.full((mine.size, 3), -1, np.int64)
    costs = np.full(mine.size, np.inf)
    schema = np.zeros(mine.size, np.int64)
    price = np.zeros(mine.size)
    for i in range(mine.size):
        n = _options(mine[i], equals[i], source, item, share, entries, part, bits, code, cost, probe, picked)
        for o in range(n):
            if cost[o] >= costs[i]:
                continue
            found = states[_place(table, code[o])]
            if found == _KEPT or (found == _UNKNOWN and picked[o, 1] < 0):
                costs[i], schema[i], price[i] = cost[o], code[o], probe[o] * PROBE_NS
                for x in range(3):
                    keys[i, x] = item[picked[o, x]] if picked[o, x] >= 0 else -1
    return keys, costs, schema, price
