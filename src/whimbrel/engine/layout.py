"""The layout: planned clauses to the flat arrays of a segment, one group of arrays per kind of access key.

hash_*   one open-addressing table of exact 64-bit keys; a key has groups of entries with the same residual items
sorted_* runs of bounds and slots per (attribute, side, second attribute), the second range in columns beside them
bits_*   chunks of 512 conjunctions: zones, dead bits per attribute and bucket, residual items (see chunks.py)
set_*    sets of several rank intervals, which items of kind SET name
An entry's slot carries its flags in the two high bits (`PACK`); an item's attribute carries its kind in bits 28-29.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from whimbrel.engine.chunks import build_chunks
from whimbrel.engine.clauses import SHARED, VERIFY, Clauses
from whimbrel.engine.planner import HASH, PRESENT, SORTED, Plan, Weights, item_share

VERIFY_BIT, SHARED_BIT = 1 << 29, 1 << 30
SLOT_MASK = VERIFY_BIT - 1
KIND_SHIFT = 28
ATTR_MASK = (1 << KIND_SHIFT) - 1

Arrays = dict[str, np.ndarray]


def lay_out(clauses: Clauses, plan: Plan, weights: Weights) -> Arrays:
    """All arrays that matching touches, for one segment."""
    if _key_space(clauses, plan) >= 2.0**62:  # thousands of wide schemas: keep one attribute per key
        plan.keys[:, 1:] = -1
    slot = packed_slots(clauses)
    shares = item_shares(clauses, weights)
    return {
        "set_start": clauses.set_start.astype(np.int32),
        "set_low": clauses.set_low,
        "set_high": clauses.set_high,
        "always": clauses.always,
        **_hash_arrays(clauses, plan, slot, shares),
        **_sorted_arrays(clauses, plan, slot),
        **build_chunks(clauses, plan, weights, slot, shares),
    }


def packed_slots(clauses: Clauses) -> np.ndarray:
    """The slot of every conjunction with its flags in the high bits."""
    packed = clauses.slot.astype(np.int32)
    packed = packed | np.where(clauses.flags & VERIFY, np.int32(VERIFY_BIT), np.int32(0))
    return packed | np.where(clauses.flags & SHARED, np.int32(SHARED_BIT), np.int32(0))


def item_shares(clauses: Clauses, weights: Weights) -> np.ndarray:
    """The expected share of events that each item admits."""
    out = np.empty(len(clauses.attr), np.float32)
    _shares(
        clauses.attr, clauses.kind, clauses.low, clauses.high, clauses.set_start, clauses.set_low, clauses.set_high,
        weights.present, weights.total, weights.start, weights.cumulative, out,
    )  # fmt: skip
    return out


@numba.njit(cache=True, nogil=True)
def _shares(attr, kind, low, high, set_start, set_low, set_high, present, total, start, cumulative, out):  # type: ignore[no-untyped-def]
    for k in range(attr.size):
        out[k] = item_share(k, attr, kind, low, high, set_start, set_low, set_high, present, total, start, cumulative)


def _hash_arrays(clauses: Clauses, plan: Plan, slot: np.ndarray, shares: np.ndarray) -> Arrays:
    mine = np.flatnonzero((plan.kind == HASH) | (plan.kind == PRESENT))
    count = _count_entries(mine, plan.kind, plan.keys, clauses.kind, clauses.low, clauses.set_start)
    conjunction = np.empty(count, np.int32)
    attrs = np.full((count, 3), -1, np.int32)
    ranks = np.zeros((count, 3), np.int32)
    _fill_entries(
        mine, plan.kind, plan.keys, clauses.attr, clauses.kind, clauses.low, clauses.set_start, clauses.set_low,
        conjunction, attrs, ranks,
    )  # fmt: skip
    is_present = plan.kind[conjunction] == PRESENT
    code = (attrs[:, 0].astype(np.int64) + 1) << 42
    code |= (attrs[:, 1].astype(np.int64) + 1) << 21
    code |= attrs[:, 2].astype(np.int64) + 1
    _, first, schema = np.unique(code * 2 + is_present, return_index=True, return_inverse=True)
    schema_attrs, schema_present = attrs[first], is_present[first]
    size, radix = _radixes(clauses, schema_attrs, schema_present)
    base = np.concatenate([np.zeros(1, np.int64), np.cumsum(size)])
    key = base[schema] + (ranks * radix[schema]).sum(axis=1)
    residual = _residuals(clauses, conjunction, plan.keys, plan.kind, shares)
    order = np.lexsort((residual.hash, key)) if _has_repeats(key) else np.argsort(key, kind="stable")
    conjunction, key = conjunction[order], key[order]
    groups, group_start, items = _group(order, key, residual.start, residual.attr, residual.low, residual.high)
    group_key = key[group_start[:-1]]
    starts = np.flatnonzero(np.concatenate([np.ones(min(1, groups), bool), group_key[1:] != group_key[:-1]]))
    lengths = np.diff(np.append(starts, groups))
    capacity = 1 << max(3, int(np.ceil(np.log2(max(1, len(starts)) * 1.7))))
    table = np.full((capacity, 2), -1, np.int64)
    _fill_table(table, group_key[starts], (starts << 32) | lengths)
    by_first = np.argsort(schema_attrs[:, 0], kind="stable").astype(np.int32)
    first_start = np.searchsorted(schema_attrs[by_first, 0], np.arange(len(clauses.attributes) + 1)).astype(np.int32)
    return {
        "hash_attrs": schema_attrs[by_first],
        "hash_present": schema_present[by_first].astype(np.uint8),
        "hash_base": base[:-1][by_first],
        "hash_radix": radix[by_first],
        "hash_first": first_start,
        "hash_table": table,
        "hash_group": group_start,
        "hash_slot": slot[conjunction],
        "hash_item_start": items[0],
        "hash_items": items[1],
    }


def _has_repeats(key: np.ndarray) -> bool:
    return len(np.unique(key)) < len(key)


def _radixes(clauses: Clauses, attrs: np.ndarray, present: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per schema the number of keys, and the factor of each attribute's rank in the key."""
    total = clauses.dictionary["rank_base"][:, 4].astype(np.int64)
    sizes = np.where(attrs >= 0, total[attrs], 1)
    sizes[present] = 1
    radix = np.stack([sizes[:, 1] * sizes[:, 2], sizes[:, 2], np.ones(len(sizes), np.int64)], axis=1)
    radix[attrs < 0] = 0
    radix[present] = 0
    return sizes.prod(axis=1), radix


def _key_space(clauses: Clauses, plan: Plan) -> float:
    """An upper bound of the number of hash keys: every conjunction as a schema of its own, at most one each."""
    total = clauses.dictionary["rank_base"][:, 4].astype(np.float64)
    mine = plan.keys[(plan.kind == HASH) & (plan.keys[:, 1] >= 0)]
    sizes = np.where(mine >= 0, total[clauses.attr[np.maximum(mine, 0)]], 1.0).prod(axis=1)
    return float(np.unique(sizes).sum() * min(len(sizes), len(total) ** 3)) if len(sizes) else 0.0


@numba.njit(cache=True, nogil=True)
def _count_entries(mine, plan_kind, keys, kind, low, set_start):  # type: ignore[no-untyped-def]
    count = 0
    for c in mine:
        k = keys[c, 0]
        count += set_start[low[k] + 1] - set_start[low[k]] if kind[k] == 1 and plan_kind[c] == HASH else 1
    return count


@numba.njit(cache=True, nogil=True)
def _fill_entries(mine, plan_kind, keys, attr, kind, low, set_start, set_low, conjunction, attrs, ranks):  # type: ignore[no-untyped-def]
    e = 0
    for c in mine:
        k = keys[c, 0]
        if plan_kind[c] == PRESENT or kind[k] == 1:
            # One entry per member of the IN; presence has one entry, whatever its item is.
            members = set_start[low[k] + 1] - set_start[low[k]] if plan_kind[c] == HASH else 1
            for i in range(members):
                conjunction[e] = c
                attrs[e, 0] = attr[k]
                if plan_kind[c] != PRESENT:
                    ranks[e, 0] = set_low[set_start[low[k]] + i]
                e += 1
            continue
        n = 1 + (keys[c, 1] >= 0) + (keys[c, 2] >= 0)
        conjunction[e] = c
        for i in range(n):  # sorted by attribute, so that equal sets of attributes are one schema
            a, r = attr[keys[c, i]], low[keys[c, i]]
            j = i
            while j > 0 and attrs[e, j - 1] > a:
                attrs[e, j], ranks[e, j] = attrs[e, j - 1], ranks[e, j - 1]
                j -= 1
            attrs[e, j], ranks[e, j] = a, r
        e += 1


@numba.njit(cache=True, nogil=True)
def probe_start(key, mask):  # type: ignore[no-untyped-def]
    """Where the search for a key begins in a table of mask + 1 places."""
    h = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((h >> np.uint64(29)) & np.uint64(mask))


@numba.njit(cache=True, nogil=True)
def _fill_table(table, keys, places):  # type: ignore[no-untyped-def]
    mask = table.shape[0] - 1
    for i in range(keys.size):
        at = probe_start(keys[i], mask)
        while table[at, 0] >= 0:
            at = (at + 1) & mask
        table[at, 0] = keys[i]
        table[at, 1] = places[i]


class _Residuals(NamedTuple):
    """The items that the key does not prove, per entry, most selective first, and a hash of them."""

    start: np.ndarray
    attr: np.ndarray
    low: np.ndarray
    high: np.ndarray
    hash: np.ndarray


def _residuals(
    clauses: Clauses, conjunction: np.ndarray, keys: np.ndarray, kinds: np.ndarray, shares: np.ndarray
) -> _Residuals:
    room = int(np.diff(clauses.start)[conjunction].sum())
    start = np.zeros(len(conjunction) + 1, np.int64)
    attr, low, high = (np.empty(room, np.int32) for _ in range(3))
    hashes = np.empty(len(conjunction), np.int64)
    _fill_residuals(
        conjunction, keys, kinds, clauses.start, clauses.attr, clauses.kind, clauses.low, clauses.high, shares,
        start, attr, low, high, hashes,
    )  # fmt: skip
    return _Residuals(start, attr, low, high, hashes)


@numba.njit(cache=True, nogil=True)
def _fill_residuals(  # type: ignore[no-untyped-def]
    conjunction, keys, kinds, start, attr, kind, low, high, shares, out_start, out_attr, out_low, out_high, hashes
):
    at = 0
    order = np.empty(64, np.int64)
    for e in range(conjunction.size):
        c = conjunction[e]
        n = 0
        if start[c + 1] - start[c] > order.size:
            order = np.empty(2 * (start[c + 1] - start[c]), np.int64)
        for k in range(start[c], start[c + 1]):
            if kinds[c] != PRESENT and (k == keys[c, 0] or k == keys[c, 1] or k == keys[c, 2]):
                continue
            j = n
            while j > 0 and (
                shares[order[j - 1]] > shares[k] or (shares[order[j - 1]] == shares[k] and attr[order[j - 1]] > attr[k])
            ):
                order[j] = order[j - 1]
                j -= 1
            order[j] = k
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


@numba.njit(cache=True, nogil=True)
def _group(order, key, start, attr, low, high):  # type: ignore[no-untyped-def]
    """Groups sorted entries with the same key and the same items: their number, first entries and items."""
    count = order.size
    first = np.zeros(count + 1, np.int32)
    item_start = np.zeros(count + 1, np.int32)
    items = np.empty((attr.size, 3), np.int32)  # attribute, low and high side by side: one cache line per test
    groups = at = 0
    for i in range(count):
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
    return groups, first[: groups + 1].copy(), (item_start[: groups + 1].copy(), items[:at].copy())


def _sorted_arrays(clauses: Clauses, plan: Plan, slot: np.ndarray) -> Arrays:
    mine = np.flatnonzero(plan.kind == SORTED)
    k, other = plan.keys[mine, 0], plan.keys[mine, 1]
    attr, low, high = clauses.attr[k], clauses.low[k], clauses.high[k]
    has_other = other >= 0
    second = np.where(has_other, clauses.attr[other], -1)
    blocks = clauses.dictionary["rank_base"][attr]
    is_upper = (low[:, None] == blocks[:, :4]).any(axis=1)  # bounded above only
    bound, fixed = np.where(is_upper, high, low), np.where(is_upper, low, high)
    order = np.lexsort((np.where(is_upper, -bound, bound), second, fixed, is_upper, attr))
    groups = np.stack([attr, fixed, is_upper, second], axis=1)[order]
    starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(mine)), bool), (groups[1:] != groups[:-1]).any(axis=1)]))
    heads = groups[starts].astype(np.int32)
    return {
        "sorted_start": np.append(starts, len(mine)).astype(np.int32),
        "sorted_first": np.searchsorted(heads[:, 0], np.arange(len(clauses.attributes) + 1)).astype(np.int32),
        "sorted_upper": heads[:, 2].astype(np.uint8),
        "sorted_fixed": heads[:, 1].copy(),
        "sorted_second": heads[:, 3].copy(),
        "sorted_bound": bound[order].astype(np.int32),
        "sorted_low": np.where(has_other, clauses.low[other], 0)[order].astype(np.int32),
        "sorted_high": np.where(has_other, clauses.high[other], 0)[order].astype(np.int32),
        "sorted_slot": slot[mine][order],
    }
