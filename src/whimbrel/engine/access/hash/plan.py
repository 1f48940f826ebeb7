"""Chooses the conjunctions that get a hash key, and the items of each key.

A key has one, two or three items (keys.py), or it is the presence of an attribute that few events have. A conjunction
with an IN or a range in its key has several keys.

An event probes every key shape whose attributes it has, so a shape must save more candidates than its probe costs. A
sample of the conjunctions decides: the shapes that pay least are dropped, half of them at a time, and their
conjunctions turn to other shapes. The conjunctions of a shape are a group of the plan.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Bools, Float32s, Floats, Int32s, Int64Matrix, Int64s
from whimbrel.compiled.jit import helper, kernel
from whimbrel.engine.access.hash.keys import (
    CANDIDATE_NS,
    ITEMS,
    KEY_BITS,
    PROBE_NS,
    KeySource,
    are_too_many,
    entry_price,
    key_items,
    key_source,
    no_items,
    place_of,
    probes_of,
    shape_code,
    shape_table,
)
from whimbrel.engine.access.shared.arrays import Items
from whimbrel.engine.access.shared.plan import UNKEYED_NS, Plan
from whimbrel.ranks.clauses.clauses import SET

SAMPLE = 40_000
"""Conjunctions on which key shapes are weighed."""
PRESENT_BELOW = 0.01
"""Share of events that may have an attribute for its presence to be a key."""
_OPTIONS = ITEMS + ITEMS * (ITEMS - 1) // 2 + 4
_ROUNDS = 24


def claim(plan: Plan) -> None:
    """Take conjunctions that need a value of a rare attribute: its presence is their key, unless a bid costs less."""
    is_present = np.zeros(len(plan.kind), np.bool_)
    _find_rare(np.flatnonzero(plan.open), plan.items, plan.weights.present, plan.keys, plan.cost, is_present)
    plan.take("present", is_present)


def bid(plan: Plan) -> None:
    """Take every conjunction for which some hash key costs less than its present key."""
    mine = np.flatnonzero(plan.open)
    source = key_source(plan)
    equals = plan.count_equals(mine)
    step = max(1, len(mine) // SAMPLE)
    options = _sample_options(mine[::step].copy(), equals[::step].copy(), source)
    pays = _paying_shapes(options, float(step))
    known, price = options.known, options.price
    singles = known <= 1 << 21  # shapes of one attribute, allowed unless the sample speaks against them
    refused = np.zeros(2 * len(plan.weights.present) + 1, np.bool_)
    refused[known[singles & ~pays]] = True
    known, price = known[~singles & pays], price[~singles & pays]
    alone = np.repeat(plan.weights.present * PROBE_NS, 2)  # by rank and by bucket
    shape = np.zeros(len(plan.kind), np.int32)
    _assign(mine, equals, source, shape_table(known), known, refused, plan.keys, plan.cost, shape)
    plan.take("hash", shape > 0)
    plan.group, plan.price = shape, np.concatenate([np.zeros(1), alone, price])


class _Options(NamedTuple):
    """The keys that sampled conjunctions may have, and the shapes of these keys."""

    counts: Int64s  # [m]: how many options each conjunction has
    shape: Int32s  # [o]: the shape of each option; the options of a conjunction are sorted by cost
    cost: Floats  # [o]: what it costs an event
    known: Int64s  # [s]: the code of each shape
    price: Floats  # [s]: what its probe costs an event
    saved: Floats  # [s]: what it would save if it were the only shape


def _sample_options(mine: np.ndarray, equals: np.ndarray, source: KeySource) -> _Options:
    """The options of these conjunctions; `equals` says how many equal ones each stands for."""
    items = np.minimum(source.start[mine + 1] - source.start[mine], ITEMS)
    most = int((items * (items + 1) // 2 + (items == 3) + 4 * (items > 3)).sum())
    made = _Options(
        np.empty(len(mine), np.int64), np.empty(most, np.int32), np.empty(most), np.empty(most, np.int64),
        np.empty(most), np.empty(most),
    )  # fmt: skip
    found, shapes = _all_options(mine, equals, source, made)
    order = np.argsort(made.known[:shapes])
    rank = np.empty(shapes, np.int32)
    rank[order] = np.arange(shapes)
    return _Options(
        made.counts, rank[made.shape[:found]], made.cost[:found], made.known[order], made.price[order],
        made.saved[order],
    )  # fmt: skip


@kernel
def _all_options(mine: Int64s, equals: Float32s, source: KeySource, made: _Options) -> tuple[int, int]:
    """Write the options of all conjunctions, and number shapes as they come; return how many options and shapes."""
    counts, shapes, costs, known, price, saved = made
    found = no_items()
    item, share, entries, part, bits = found
    present, attr = source.present, source.attr
    codes, cost, probe = np.empty(_OPTIONS, np.int64), np.empty(_OPTIONS), np.empty(_OPTIONS)
    table = np.zeros(1 << 12, np.int32)
    at = count = 0
    for i in range(mine.size):
        n = key_items(mine[i], source, found)
        candidate = CANDIDATE_NS / equals[i]
        o = 0
        for x in range(n):
            there = present[attr[item[x]]]
            codes[o], probe[o] = part[x], there
            cost[o] = share[x] * candidate + entry_price(entries[x])
            o += 1
            for y in range(x):
                pair, width = entries[x] * entries[y], bits[x] + bits[y]
                probes = probes_of(part[x], part[y], 0)
                if probes == 0.0 or are_too_many(entries[x], entries[y]) or width > KEY_BITS:
                    continue
                hit, chance = share[x] * share[y], there * present[attr[item[y]]]
                codes[o], probe[o] = shape_code(part[x], part[y], 0), chance * probes
                cost[o] = hit * candidate + entry_price(pair)
                o += 1
                for z in range(y):  # three only of the four most selective
                    if x >= 4 or are_too_many(pair, entries[z]) or width + bits[z] > KEY_BITS:
                        break
                    probes = probes_of(part[x], part[y], part[z])
                    if probes == 0.0:
                        continue
                    codes[o] = shape_code(part[x], part[y], part[z])
                    probe[o] = chance * present[attr[item[z]]] * probes
                    cost[o] = hit * share[z] * candidate + entry_price(pair * entries[z])
                    o += 1
        counts[i] = o
        for option in range(o):
            place = place_of(table, known, codes[option])
            if table[place] == 0:
                known[count], price[count], saved[count] = codes[option], probe[option] * PROBE_NS, 0.0
                count += 1
                table[place] = count
            j = at + option
            while j > at and costs[j - 1] > cost[option]:
                shapes[j], costs[j] = shapes[j - 1], costs[j - 1]
                j -= 1
            shapes[j], costs[j] = table[place] - 1, cost[option]
            saved[table[place] - 1] += max(0.0, UNKEYED_NS - cost[option])
        at += o
        if 3 * count > table.size:
            table = np.zeros(4 * table.size, np.int32)
            for number in range(count):
                table[place_of(table, known, known[number])] = number + 1
    return at, count


def _paying_shapes(options: _Options, scale: float) -> np.ndarray:
    """Mark the shapes that save more than their probes cost; each sampled conjunction counts `scale` times."""
    price, saved = options.price, options.saved
    kept = np.ones(len(price), np.bool_)
    alone = saved / max(1e-9, float(saved.max(initial=0)))
    last = np.cumsum(options.counts)
    first = last - options.counts
    for turn in range(_ROUNDS):
        gain = np.zeros(len(price))
        _add_gains(first, last, options.shape, options.cost, kept, scale, gain)
        weak = np.flatnonzero(kept & (gain < price))
        if not len(weak):
            break
        worth = gain[weak] / price[weak] + 1e-3 * alone[weak] - (price[weak] > PROBE_NS)  # many probes go first
        drop = np.argsort(worth, kind="stable")
        kept[weak[drop[: len(weak) if turn == _ROUNDS - 1 else (len(weak) + 1) // 2]]] = False
    return kept


@kernel
def _add_gains(
    first: Int64s, last: Int64s, shape: Int32s, cost: Floats, pays: Bools, scale: float,
    gain: Floats,
) -> None:  # fmt: skip
    """Add to `gain` what each shape saves its conjunctions, compared with their second best option.

    `first` moves on to the best option of each conjunction: dropped shapes never come back.
    """
    for i in range(first.size):
        at, end = first[i], last[i]
        while at < end and not pays[shape[at]]:
            at += 1
        first[i] = at
        if at == end or cost[at] >= UNKEYED_NS:
            continue
        best, chosen = cost[at], shape[at]
        while at < end and (shape[at] == chosen or not pays[shape[at]]):
            at += 1
        gain[chosen] += (min(UNKEYED_NS, cost[at] if at < end else UNKEYED_NS) - best) * scale


@kernel
def _find_rare(mine: Int64s, items: Items, present: Floats, keys: Int64Matrix, cost: Floats, is_present: Bools) -> None:
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
def _is_better(cost: float, best: float, code: int, table: Int32s, known: Int64s) -> bool:
    """Whether a shape of several parts pays, and the key costs less than the best so far."""
    return cost < best and table[place_of(table, known, code)] > 0


@kernel
def _assign(
    mine: Int64s, equals: Float32s, source: KeySource, table: Int32s, known: Int64s, refused: Bools,
    keys: Int64Matrix, costs: Floats, shapes: Int32s,
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
