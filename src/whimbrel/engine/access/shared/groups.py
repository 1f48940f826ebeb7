"""Groups: conjunctions with the same key and the same residual items, which are tested once for all of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.intrinsics import prefetch
from whimbrel.compiled.jit import kernel
from whimbrel.engine.access.shared.arrays import Items, items_of
from whimbrel.engine.access.shared.items import ATTR_MASK, KIND_SHIFT
from whimbrel.ranks.clauses.clauses import RANGE, Clauses
from whimbrel.ranks.distinct import sort_by_two

AHEAD = 8
"""Conjunctions between asking for one and coming to it."""


class Groups(NamedTuple):
    """Conjunctions sorted by key; those with the same key and the same residual items are one group."""

    order: np.ndarray  # the conjunctions, group by group
    size: int  # how many groups there are
    first: np.ndarray  # int32[size + 1]: where the conjunctions of a group begin in `order`
    item_start: np.ndarray  # int32[size + 1]: where its residual items begin
    items: np.ndarray  # int32[items, 3]: attribute with kind, low, high
    key: np.ndarray  # int64[size]: the key of each group


class _Residuals(NamedTuple):
    """The items that keys do not prove, conjunction by conjunction, and a hash of those of each."""

    start: np.ndarray
    attr: np.ndarray
    low: np.ndarray
    high: np.ndarray
    hashes: np.ndarray


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
    items = int(np.diff(clauses.start)[mine].sum())
    attr, low, high = (np.empty(items, np.int32) for _ in range(3))
    left = _Residuals(np.zeros(len(mine) + 1, np.int64), attr, low, high, np.empty(len(mine), np.int64))
    _fill_residuals(mine, key_items, keep_key, items_of(clauses), shares, factor, left)
    order = sort_by_two(key, left.hashes)
    size, first, item_start, grouped = _group(order, key[order], left)
    return Groups(order, size, first, item_start, grouped, key[order[first[:-1]]])


@kernel
def _fill_residuals(
    mine: np.ndarray, keys: np.ndarray, keep_key: bool, items: Items, shares: np.ndarray, factor: np.ndarray,
    left: _Residuals,
) -> None:  # fmt: skip
    """Write the items that the key of each conjunction does not prove, most selective first, and a hash of them.

    Where the key's items are kept, their selectivity is that among the events that reach the conjunction by its key.
    """
    start, attr, kind, low, high, _, _, _ = items
    out_start, out_attr, out_low, out_high, hashes = left
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
def _group(order: np.ndarray, key: np.ndarray, left: _Residuals) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """Group sorted conjunctions with the same key and the same items: `size`, `first`, `item_start` and `items`."""
    start, attr, low, high, _ = left
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
