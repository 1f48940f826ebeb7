"""Which schemas are worth a probe, weighed on a sample of the conjunctions."""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.jit import kernel
from whimbrel.engine.access.hash.candidates import (
    CANDIDATE_NS,
    ENTRY_NS,
    ITEMS,
    KEY_BITS,
    MEMBERS,
    PROBE_NS,
    candidates,
    place_of,
    room,
    schema_code,
)

UNKEYED_NS = CANDIDATE_NS
"""What a conjunction costs per event that has no key."""
_OPTIONS = ITEMS + ITEMS * (ITEMS - 1) // 2 + 4
_ROUNDS = 24


def sample_options(mine: np.ndarray, equals: np.ndarray, source: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """The options of conjunctions: how many each has, of all the schema and cost.

    Per schema its code, its price, and what it would save if there were no other.
    """
    items = np.minimum(source[0][mine + 1] - source[0][mine], ITEMS)
    most = int((items * (items + 1) // 2 + (items == 3) + 4 * (items > 3)).sum())
    counts = np.empty(len(mine), np.int64)
    schema, cost = np.empty(most, np.int32), np.empty(most)
    known, price, saved = np.empty(most, np.int64), np.empty(most), np.empty(most)
    found, schemas = _all_options(mine, equals, source, counts, schema, cost, known, price, saved)
    order = np.argsort(known[:schemas])
    rank = np.empty(schemas, np.int32)
    rank[order] = np.arange(schemas)
    return counts, rank[schema[:found]], cost[:found], known[order], price[order], saved[order]


@kernel
def _all_options(mine, equals, source, counts, schemas, costs, known, price, saved):  # type: ignore[no-untyped-def]
    """Writes the options of all, the cheapest of each first; schemas are numbered as they come. How many of both."""
    item, share, entries, part, bits = room()
    present, attr = source[7], source[1]
    codes, cost, probe = np.empty(_OPTIONS, np.int64), np.empty(_OPTIONS), np.empty(_OPTIONS)
    table = np.zeros(1 << 12, np.int32)
    at = count = 0
    for i in range(mine.size):
        n = candidates(mine[i], source, item, share, entries, part, bits)
        candidate = CANDIDATE_NS / equals[i]
        o = 0
        for x in range(n):
            there = present[attr[item[x]]]
            codes[o], probe[o] = part[x], there
            cost[o] = share[x] * candidate + (entries[x] - 1) * ENTRY_NS
            o += 1
            for y in range(x):
                pair, width = entries[x] * entries[y], bits[x] + bits[y]
                if attr[item[x]] == attr[item[y]] or pair > MEMBERS or width > KEY_BITS:
                    continue
                hit, chance = share[x] * share[y], there * present[attr[item[y]]]
                codes[o], probe[o] = schema_code(part[x], part[y], 0), chance
                cost[o] = hit * candidate + (pair - 1) * ENTRY_NS
                o += 1
                for z in range(y):  # three only of the four most selective
                    if x >= 4 or pair * entries[z] > MEMBERS or width + bits[z] > KEY_BITS:
                        break
                    a = attr[item[z]]
                    if a == attr[item[x]] or a == attr[item[y]]:
                        continue
                    codes[o], probe[o] = schema_code(part[x], part[y], part[z]), chance * present[a]
                    cost[o] = hit * share[z] * candidate + (pair * entries[z] - 1) * ENTRY_NS
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
                schemas[j], costs[j] = schemas[j - 1], costs[j - 1]
                j -= 1
            schemas[j], costs[j] = table[place] - 1, cost[option]
            saved[table[place] - 1] += max(0.0, UNKEYED_NS - cost[option])
        at += o
        if 3 * count > table.size:
            table = np.zeros(4 * table.size, np.int32)
            for number in range(count):
                table[place_of(table, known, known[number])] = number + 1
    return at, count


def weigh(
    counts: np.ndarray, schema: np.ndarray, cost: np.ndarray, price: np.ndarray, saved: np.ndarray, scale: float
) -> np.ndarray:
    """Which schemas pay: the least paying go first, as what they served turns to others."""
    kept = np.ones(len(price), np.bool_)
    alone = saved / max(1e-9, float(saved.max(initial=0)))
    last = np.cumsum(counts)
    first = last - counts
    for turn in range(_ROUNDS):
        gain = np.zeros(len(price))
        _add_gains(first, last, schema, cost, kept, scale, gain)
        weak = np.flatnonzero(kept & (gain < price))
        if not len(weak):
            break
        drop = np.argsort(gain[weak] / price[weak] + 1e-3 * alone[weak], kind="stable")
        kept[weak[drop[: len(weak) if turn == _ROUNDS - 1 else (len(weak) + 1) // 2]]] = False
    return kept


@kernel
def _add_gains(first, last, schema, cost, pays, scale, gain):  # type: ignore[no-untyped-def]
    """Adds what each schema saves those that it serves, compared with their second best.

    `first` moves on to the best option of each conjunction: those of dropped schemas never come back.
    """
    for i in range(first.size):
        at, end = first[i], last[i]
        while at < end and not pays[schema[at]]:
            at += 1
        first[i] = at
        if at == end or cost[at] >= UNKEYED_NS:
            continue
        best, chosen = cost[at], schema[at]
        while at < end and (schema[at] == chosen or not pays[schema[at]]):
            at += 1
        gain[chosen] += (min(UNKEYED_NS, cost[at] if at < end else UNKEYED_NS) - best) * scale
