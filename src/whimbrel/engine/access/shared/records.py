"""Groups of conjunctions, and the records that store them for hash keys and signatures.

A group has conjunctions with the same key and the same residual items (items that the key does not prove), which are
tested once for all of them. Its record is a run of int32: the number of items, the number of rows, the items (attribute
with kind, low, high), the rows with their flags. A visit reads one or two cache lines. The records of one key are
adjacent; the records of signatures follow those of hash keys.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Float32s, Int32Matrix, Int32s, Int64Matrix, Int64s
from whimbrel.compiled.intrinsics import copy, prefetch
from whimbrel.compiled.jit import helper, kernel
from whimbrel.engine.access.shared.arrays import Arrays, EventState, EventValues, Items
from whimbrel.engine.access.shared.packing import (
    ATTR_MASK,
    KIND_SHIFT,
    NO_ITEM,
    ROW_MASK,
    SHARED_BIT,
    append_rows,
    holds,
    in_set,
)
from whimbrel.engine.access.shared.plan import Plan
from whimbrel.ranks.clauses.clauses import RANGE
from whimbrel.ranks.distinct import sort_by_two

HEAD = 2
"""Words before the items of a record."""
PLAIN = 1 << 30
"""A flag in the number of rows: no other conjunction has these rows, so they can be copied as a whole."""
COUNT = PLAIN - 1
COPIED = 8
"""More rows than this are copied as a whole."""
AHEAD = 16
"""A record is prefetched so many records before its visit."""
SOON = 8
"""A conjunction is prefetched so many conjunctions before its turn."""


class Groups(NamedTuple):
    """Conjunctions sorted by key; those with the same key and the same residual items are one group."""

    order: np.ndarray  # the conjunctions, group by group
    size: int  # how many groups there are
    first: Int32s  # [size + 1]: where the conjunctions of a group begin in `order`
    item_start: Int32s  # [size + 1]: where its residual items begin
    items: Int32Matrix  # [items, 3]: attribute with kind, low, high
    key: Int64s  # [size]: the key of each group


class _Residuals(NamedTuple):
    """The residual items, conjunction by conjunction, and a hash of the items of each conjunction."""

    start: Int64s
    attr: Int32s
    low: Int32s
    high: Int32s
    hashes: Int64s


def make_groups(
    plan: Plan, mine: np.ndarray, key_items: np.ndarray, key: np.ndarray, factor: np.ndarray, keep_key: bool
) -> Groups:
    """Group the conjunctions `mine` by `key` and residual items.

    `key_items` has the items of each key. They are residual too if `keep_key`, because the key may not prove them.
    `factor` is that of `bucket_factor` (hash/keys.py).
    """
    items = int(np.diff(plan.clauses.start)[mine].sum())
    attr, low, high = (np.empty(items, np.int32) for _ in range(3))
    left = _Residuals(np.zeros(len(mine) + 1, np.int64), attr, low, high, np.empty(len(mine), np.int64))
    _fill_residuals(mine, key_items, keep_key, plan.items, plan.shares, factor, left)
    order = sort_by_two(key, left.hashes)
    size, first, item_start, grouped = _group(order, key[order], left)
    return Groups(order, size, first, item_start, grouped, key[order[first[:-1]]])


@kernel
def _fill_residuals(
    mine: Int64s, keys: Int64Matrix, keep_key: bool, items: Items, shares: Float32s, factor: Int64s,
    left: _Residuals,
) -> None:  # fmt: skip
    """Write the items that the key of each conjunction does not prove, most selective first, and a hash of them.

    The selectivity of a key's item that is kept is measured among the events that reach the conjunction by its key.
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
        # The first attribute leads the hash: sorting then puts groups side by side that test the same one first.
        lead = np.int64(out_attr[out_start[e]] & ATTR_MASK) + 1 if n else np.int64(0)
        hashes[e] = (lead << 40) | np.int64(h >> np.uint64(24))
        out_start[e + 1] = at


@kernel
def _group(order: Int64s, key: Int64s, left: _Residuals) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """Group sorted conjunctions with the same key and the same items: `size`, `first`, `item_start` and `items`."""
    start, attr, low, high, _ = left
    count = order.size
    first = np.zeros(count + 1, np.int32)
    item_start = np.zeros(count + 1, np.int32)
    items = np.empty((attr.size, 3), np.int32)  # attribute, low and high side by side: one cache line per test
    groups = at = 0
    for i in range(count):
        if i + 2 * SOON < count:
            prefetch(start, order[i + 2 * SOON])
            soon = start[order[i + SOON]]
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


def write_records(first: np.ndarray, item_start: np.ndarray, items: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The records of groups: group g has the rows first[g]:first[g + 1], and the items from item_start[g] on."""
    records = np.empty(HEAD * (len(first) - 1) + items.size + len(rows), np.int32)
    _write(first, item_start, items, rows, records)
    return records


def record_sizes(first: np.ndarray, item_start: np.ndarray) -> np.ndarray:
    """How many words the record of each group takes."""
    return np.asarray(HEAD + 3 * np.diff(item_start).astype(np.int64) + np.diff(first))


def split_records(arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """The records of hash keys, and those of signatures."""
    records, own = arrays["hash_records"], arrays["signature_record"]
    first = int(own[0]) if len(own) else len(records)
    return records[:first], records[first:]


def records_with(records: np.ndarray, row: int) -> list[int]:
    """The places of the records that contain a row."""
    starts = record_starts(records)
    found = np.flatnonzero((records & ROW_MASK) == row)  # some of these words may belong to items
    groups = np.searchsorted(starts, found, "right") - 1
    return [
        int(start) for start, at in zip(starts[groups], found, strict=True) if at >= start + HEAD + 3 * records[start]
    ]


def items_at(records: np.ndarray, place: int) -> np.ndarray:
    """The items of the record that begins at a place."""
    return np.asarray(records[place + HEAD :][: 3 * records[place]].reshape(-1, 3))


@kernel
def _write(first: Int32s, item_start: Int32s, items: Int32Matrix, rows: Int32s, records: Int32s) -> None:
    at = 0
    for g in range(first.size - 1):
        plain = True
        for t in range(first[g], first[g + 1]):
            plain &= rows[t] & SHARED_BIT == 0
        records[at] = item_start[g + 1] - item_start[g]
        records[at + 1] = first[g + 1] - first[g] + (PLAIN if plain else 0)
        at += HEAD
        for k in range(item_start[g], item_start[g + 1]):
            records[at], records[at + 1], records[at + 2] = items[k, 0], items[k, 1], items[k, 2]
            at += 3
        for t in range(first[g], first[g + 1]):
            records[at] = rows[t]
            at += 1


@kernel
def record_starts(records: Int32s) -> np.ndarray:
    """The place of each record, then the end of the last one."""
    count = at = 0
    while at < records.size:
        at += HEAD + 3 * records[at] + (records[at + 1] & COUNT)
        count += 1
    starts = np.empty(count + 1, np.int64)
    at = 0
    for g in range(count):
        starts[g] = at
        at += HEAD + 3 * records[at] + (records[at + 1] & COUNT)
    starts[count] = at
    return starts


@helper
def visit(
    records: Int32s, listed: Int32s, start: int, count: int, values: EventValues, event: EventState,
    out: Int32s, n: int,
) -> int:  # fmt: skip
    """Append the rows of records whose items hold; return the new length, or -1 if `out` is full.

    The records are `count` adjacent ones from `start` on, or, if `start` is -1, those at the first `count` places of
    `listed`.
    """
    sets, value, attrs, ranks, stamp = values
    at = np.int64(start)
    for x in range(min(count, AHEAD) if start < 0 else 0):
        prefetch(records, np.int64(listed[x]))
        prefetch(records, np.int64(listed[x]) + 16)
    for x in range(count):
        if start < 0:
            at = np.int64(listed[x])
            if x + AHEAD < count:
                prefetch(records, np.int64(listed[x + AHEAD]))
                prefetch(records, np.int64(listed[x + AHEAD]) + 16)
        items = at + HEAD
        rows = items + 3 * records[at]
        size = records[at + 1] & COUNT
        plain = size > COPIED and size != records[at + 1] and not event.several
        at = last = rows + size
        good = True
        for k in range(items, rows, 3):
            packed, low, high = records[k], records[k + 1], records[k + 2]
            v = value[packed & ATTR_MASK]
            if packed <= ATTR_MASK and v >= -1:  # a range and at most one value: the common case, in line
                if low <= v <= high:
                    continue
            elif packed < NO_ITEM and v >= -1:
                if v >= 0 and (high >> ((v >> 1) & 31)) & 1 == 1 and in_set(sets, low, v):
                    continue
            elif holds(sets, packed >> KIND_SHIFT, low, high, v, attrs, ranks, event.end):
                continue
            good = False
            break
        if not good:
            continue
        if n + size > out.size:
            return -1
        if plain:
            copy(records, np.int64(rows), np.int64(size), out, np.int64(n))
            n += size
            continue
        n = append_rows(records, rows, last, event.several, stamp, event.epoch, out, n)
    return n
