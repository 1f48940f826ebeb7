"""Groups: conjunctions with the same hash key and the same residual items, which are tested once for all of them."""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.intrinsics import prefetch
from whimbrel.compiled.jit import kernel
from whimbrel.engine.access.shared.packing import ATTR_MASK, KIND_SHIFT
from whimbrel.ranks.clauses.clauses import RANGE, Clauses
from whimbrel.ranks.distinct import sort_by_two

AHEAD = 8
"""Conjunctions between asking for one and coming to it."""


class Groups:
    """Conjunctions sorted by key, those with the same key and residual items as one group."""

    def __init__(self, order: np.ndarray, key: np.ndarray, grouped: tuple[int, np.ndarray, np.ndarray, np.ndarray]):
        self.order = order
        self.count, self.first, self.item_start, self.items = grouped
        self.key = key[order[self.first[:-1]]]


def make_groups(
    clauses: Clauses,
    mine: np.ndarray,
    key_items: np.ndarray,
    key: np.ndarray,
    shares: np.ndarray,
    factor: np.ndarray,
    keep_key: bool,
) -> Groups:
    """The groups of conjunctions whose keys have these items; `keep_key` keeps what the key may not prove."""
    room = int(np.diff(clauses.start)[mine].sum())
    start = np.zeros(len(mine) + 1, np.int64)
    attr, low, high = (np.empty(room, np.int32) for _ in range(3))
    hashes = np.empty(len(mine), np.int64)
    _fill_residuals(
        mine, key_items, keep_key, clauses.start, clauses.attr, clauses.kind, clauses.low, clauses.high, shares, factor,
        start, attr, low, high, hashes,
    )  # fmt: skip
    order = sort_by_two(key, hashes)
    return Groups(order, key, _group(order, key[order], start, attr, low, high))


@kernel
def _fill_residuals(  # type: ignore[no-untyped-def]
    mine, keys, keep_key, start, attr, kind, low, high, shares, factor,
    out_start, out_attr, out_low, out_high, hashes,
):  # fmt: skip
    """Per conjunction the items that its key does not prove, most selective first, and a hash of them.

    Where the key's items are kept, they come where they belong among those that reach the conjunction by its key.
    """
    at = 0
    order = np.empty(64, np.int64)
    given = np.empty(64, np.float64)
    for e in range(mine.size):
        c = mine[e]
        n = 0
        if start[c + 1] - start[c] > order.size:
            order = np.empty(2 * (start[c + 1] - start[c]), np.int64)
            given = np.empty(order.size, np.float64)
        for k in range(start[c], start[c + 1]):
            share = float(shares[k])
            if k == keys[e, 0] or k == keys[e, 1] or k == keys[e, 2]:
                if not keep_key:
                    continue
                share = 1.0
                if kind[k] == RANGE and low[k] < high[k]:
                    f = factor[attr[k]]
                    covered = ((high[k] * f) >> 32) - ((low[k] * f) >> 32) + 1
                    share = min(1.0, (high[k] - low[k] + 1) * float(f) / (covered * 4294967296.0))
            j = n
            while j > 0 and (given[j - 1] > share or (given[j - 1] == share and attr[order[j - 1]] > attr[k])):
                order[j], given[j] = order[j - 1], given[j - 1]
                j -= 1
            order[j], given[j] = k, share
            n += 1
        h = np.uint64(0)
        for i in range(n):
            k = order[i]
            out_attr[at] = attr[k] | (np.int32(kind[k]) << KIND_SHIFT)
            out_low[at] = low[k]
            out_high[at] = high[k]
            h = (h ^ np.uint64(out_attr[at])) * np.uint64(0x9E3779B97F4A7C15)
            h = (h ^ np.uint64(low[k])) * np.uint64(0x9E3779B97F4A7C15)
            h = (h ^ np.uint64(high[k])) * np.uint64(0x9E3779B97F4A7C15)
            h ^= h >> np.uint64(31)
            at += 1
        # Sorted by it, groups that test the same attribute first stand together.
        lead = np.int64(out_attr[out_start[e]] & ATTR_MASK) + 1 if n else np.int64(0)
        hashes[e] = (lead << 40) | np.int64(h >> np.uint64(24))
        out_start[e + 1] = at


@kernel
def _group(order, key, start, attr, low, high):  # type: ignore[no-untyped-def]
    """Groups sorted conjunctions with the same key and the same items: their number, first ones and items."""
    count = order.size
    first = np.zeros(count + 1, np.int32)
    item_start = np.zeros(count + 1, np.int32)
    items = np.empty((attr.size, 3), np.int32)  # attribute, low and high side by side: one cache line per test
    groups = at = 0
    for i in range(count):
        if i + 2 * AHEAD < count:
            prefetch(start, order[i + 2 * AHEAD])  # type: ignore[call-arg]
            soon = start[order[i + AHEAD]]
            prefetch(attr, soon)
            prefetch(low, soon)
            prefetch(high, soon)
        e = order[i]
        size = start[e + 1] - start[e]
        same = i > 0 and key[i] == key[i - 1]
        if same:
            last = item_start[groups - 1]
            same = item_start[groups] - last == size
            for j in range(size):
                k = start[e] + j
                if not same:
                    break
                same = items[last + j, 0] == attr[k] and items[last + j, 1] == low[k] and items[last + j, 2] == high[k]
        if not same:
            first[groups] = i
            for k in range(start[e], start[e + 1]):
                items[at, 0], items[at, 1], items[at, 2] = attr[k], low[k], high[k]
                at += 1
            groups += 1
            item_start[groups] = at
    first[groups] = count
    return groups, first[: groups + 1], item_start[: groups + 1], items[:at]
