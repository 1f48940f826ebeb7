"""Which key shapes are worth a probe, weighed on a sample of the conjunctions.

An event probes every key shape whose attributes it has, so a shape must save more candidates than its probe costs.
The shapes that pay least are dropped first, half of them at a time, as their conjunctions turn to other shapes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.jit import kernel
from whimbrel.engine.access.hash.key_items import (
    CANDIDATE_NS,
    ITEMS,
    KEY_BITS,
    PROBE_NS,
    KeySource,
    are_too_many,
    entry_price,
    key_items,
    no_items,
    place_of,
    probes_of,
    shape_code,
)

UNKEYED_NS = CANDIDATE_NS
"""What a conjunction without a key costs an event."""
_OPTIONS = ITEMS + ITEMS * (ITEMS - 1) // 2 + 4
_ROUNDS = 24


class Options(NamedTuple):
    """The keys that sampled conjunctions may have, and the shapes of these keys."""

    counts: np.ndarray  # int64[m]: how many options each conjunction has
    shape: np.ndarray  # int32[o]: the shape of each option; those of a conjunction come by cost
    cost: np.ndarray  # float64[o]: what it costs an event
    known: np.ndarray  # int64[s]: the code of each shape
    price: np.ndarray  # float64[s]: what its probe costs an event
    saved: np.ndarray  # float64[s]: what it would save if there were no other


def sample_options(mine: np.ndarray, equals: np.ndarray, source: KeySource) -> Options:
    """The options of these conjunctions, each of which stands for so many equal ones."""
    items = np.minimum(source.start[mine + 1] - source.start[mine], ITEMS)
    most = int((items * (items + 1) // 2 + (items == 3) + 4 * (items > 3)).sum())
    made = Options(
        np.empty(len(mine), np.int64), np.empty(most, np.int32), np.empty(most), np.empty(most, np.int64),
        np.empty(most), np.empty(most),
    )  # fmt: skip
    found, shapes = _all_options(mine, equals, source, made)
    order = np.argsort(made.known[:shapes])
    rank = np.empty(shapes, np.int32)
    rank[order] = np.arange(shapes)
    return Options(
        made.counts, rank[made.shape[:found]], made.cost[:found], made.known[order], made.price[order],
        made.saved[order],
    )  # fmt: skip


@kernel
def _all_options(mine: np.ndarray, equals: np.ndarray, source: KeySource, made: Options) -> tuple[int, int]:
    """Write the options of all conjunctions, and number shapes as they come. Return how many there are of both."""
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


def paying_shapes(options: Options, scale: float) -> np.ndarray:
    """Mark the shapes that save more than their probes cost; a sampled conjunction stands for `scale` ones."""
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
        worth = gain[weak] / price[weak] + 1e-3 * alone[weak] - (price[weak] > PROBE_NS)  # first those of many probes
        drop = np.argsort(worth, kind="stable")
        kept[weak[drop[: len(weak) if turn == _ROUNDS - 1 else (len(weak) + 1) // 2]]] = False
    return kept


@kernel
def _add_gains(
    first: np.ndarray, last: np.ndarray, shape: np.ndarray, cost: np.ndarray, pays: np.ndarray, scale: float,
    gain: np.ndarray,
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
