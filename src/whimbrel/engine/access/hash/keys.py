"""Hash keys: which items of a conjunction may be in one, how selective each is, and the table that finds keys.

An equality puts its rank into a key, an IN each of its members, a range the buckets of ranks that it covers. A *part*
of a key is an attribute by rank or by bucket: 2 * attribute + 1, or + 2 by bucket. A *key shape* is the set of parts of
a key; its code is one integer.

The table has exact 64-bit keys, each with its run of records or references. A line of the table is a cache line: four
keys, -1 for none, then their four runs. A key is in the line that its hash names, or in the first line after it that
had a free place; a search ends at a line with a free place. Most searches read one line, and do the same work there
whether they find the key or not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Bytes, Float32s, FloatMatrix, Floats, Int32s, Int64Matrix, Int64s
from whimbrel.compiled.jit import helper, kernel
from whimbrel.compiled.views import at_line_start
from whimbrel.engine.access.shared.plan import Plan, Weights
from whimbrel.ranks.clauses.clauses import SET, Clauses

PROBE_NS, CANDIDATE_NS = 30.0, 9.0
"""What a probe and a candidate cost, measured; only ratios matter."""
ENTRY_NS, MEMBER_NS = 0.01, 0.001
"""The price of the memory of one more entry of a conjunction, and of one more member of a long IN, which is cheaper
because the segment stores the members anyway."""
BUCKETS = 16
"""Buckets of an attribute in a key, at most."""
PRODUCTS = 16
"""Entries of one conjunction, at most, if several items of its key need more than one each."""
ENTRIES = 1 << 26
"""Entries of all sets that keys may use in a segment, at most: each takes 20 bytes and a number below 32 bits."""
REPEATED = 8.0
"""Assumed probes of a key with two members of one list: one for each pair of the event's values."""
KEY_BITS = 50.0
"""Bits of a hash key, at most: the product of the numbers of codes of its attributes must fit."""
ITEMS = 8
"""Items of a conjunction that are considered for its key: the most selective ones."""
_ATTRIBUTES = 1 << 20
LINE = 4
"""Keys of a line, at most."""
USUAL = 2
"""Keys of a line, on average."""


class KeySource(NamedTuple):
    """The arrays that `key_items` reads: items, and what events are expected to be like."""

    start: Int64s  # [m + 1]: the items of each conjunction
    attr: Int32s  # [k]
    kind: Bytes  # [k]
    low: Int32s  # [k]
    high: Int32s  # [k]
    shares: Float32s  # [k]: the share of events that each item admits
    members: Int32s  # [s]: the members of each set, 0 if it cannot be in a key
    present: Floats  # [A]: the share of events that have the attribute
    factor: Int64s  # [A]: see `bucket_factor`
    below: FloatMatrix  # [A, BUCKETS + 1]: the weight of the ranks below each bucket
    scale: Floats  # [A]: the share of events that a weight of 1 stands for
    widths: FloatMatrix  # [A, 2]: bits of a rank and of a bucket in a key


class KeyItems(NamedTuple):
    """The items of one conjunction that may be in its key, the most selective first."""

    item: Int64s  # the number of the item
    share: Floats  # the share of events that its part of the key lets through
    entries: Int64s  # the keys that it needs
    part: Int64s  # its part of the key
    bits: Floats  # the bits of its code


def bucket_factor(total: np.ndarray) -> np.ndarray:
    """The factor f of each attribute: (rank * f) >> 32 is the bucket of a rank. `total` is the number of ranks."""
    factor: np.ndarray = (np.minimum(BUCKETS, total) << 32) // np.maximum(1, total)
    return factor


def key_source(plan: Plan) -> KeySource:
    """Make the arrays that `key_items` reads."""
    weights, items = plan.weights, plan.items
    factor = bucket_factor(weights.total)
    widths = np.log2(np.stack([weights.total, np.minimum(weights.total, BUCKETS)], axis=1).astype(np.float64))
    return KeySource(
        items.start, items.attr, items.kind, items.low, items.high, plan.shares, _members(plan.clauses),
        weights.present, factor, *_below(weights, factor), widths,
    )  # fmt: skip


def _members(clauses: Clauses) -> np.ndarray:
    """Count the members of each set; 0 if it has ranges, or if sets of its length would need too many entries."""
    lengths = np.diff(clauses.set_start)
    wider = np.append(0, np.cumsum(clauses.set_high - clauses.set_low, dtype=np.int64))[clauses.set_start]
    members = np.where(np.diff(wider) == 0, lengths, 0)
    used = np.sort(members[clauses.low[clauses.kind == SET]])
    fit = int(np.searchsorted(np.cumsum(used), ENTRIES, "right"))
    if fit < len(used):
        members[members >= used[fit]] = 0
    return members.astype(np.int32)


def _below(weights: Weights, factor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`below` and `scale` of a source."""
    total, count = weights.total[:, None], np.arange(BUCKETS + 1) << 32
    first = np.where(total > 0, np.minimum(-(-count // np.maximum(1, factor[:, None])), total), 0)
    if weights.cumulative.size:
        return weights.cumulative[weights.start[:-1, None] + first].astype(np.float64), np.ones(len(first))
    return first.astype(np.float64), weights.present / np.maximum(1, weights.total - 8)


@helper
def no_items() -> KeyItems:
    """Buffers for the items of one conjunction."""
    return KeyItems(
        np.empty(ITEMS + 1, np.int64), np.empty(ITEMS + 1), np.empty(ITEMS + 1, np.int64),
        np.empty(ITEMS + 1, np.int64), np.empty(ITEMS + 1),
    )  # fmt: skip


@helper
def key_items(c: int, source: KeySource, found: KeyItems) -> int:
    """Write the items of a conjunction that may be in its key to `found`; return how many they are."""
    start, attr, kind, low, high, shares, members, present, factor, below, scale, widths = source
    item, share, entries, part, bits = found
    n = 0
    for k in range(start[c], start[c + 1]):
        a = attr[k]
        if kind[k] > SET or a >= _ATTRIBUTES:
            continue
        s, e, is_bucket = float(shares[k]), np.int64(1), 0
        if kind[k] == SET:
            e = np.int64(members[low[k]])
            if e == 0:
                continue
        elif low[k] < high[k]:
            if low[k] <= 0:
                continue
            b0, b1 = (low[k] * factor[a]) >> 32, (high[k] * factor[a]) >> 32
            s = min(present[a], (below[a, b1 + 1] - below[a, b0]) * scale[a])
            e, is_bucket = b1 - b0 + 1, 1
        if n == ITEMS and s >= share[n - 1]:
            continue
        n = min(n + 1, ITEMS)
        j = n - 1
        while j > 0 and share[j - 1] > s:
            item[j], share[j], entries[j], part[j], bits[j] = (
                item[j - 1], share[j - 1], entries[j - 1], part[j - 1], bits[j - 1]
            )  # fmt: skip
            j -= 1
        item[j], share[j], entries[j], part[j] = k, s, e, 2 * np.int64(a) + is_bucket + 1
        bits[j] = widths[a, is_bucket]
    return n


@helper
def are_too_many(one: int, two: int) -> bool:
    """Whether a key of two parts needs too many entries, given the entries of each part."""
    return one > 1 and two > 1 and one * two > PRODUCTS


@helper
def probes_of(one: int, two: int, three: int) -> float:
    """How many probes a key with these parts costs an event; 0 if they cannot be in one key. `three` may be 0.

    One part may come twice if it is by rank: two members of a list.
    """
    twice = 0
    for part, other in ((one, two), (one, three), (two, three)):
        if (part - 1) >> 1 == (other - 1) >> 1:
            if part != other or part & 1 == 0:
                return 0.0
            twice += 1
    return (1.0, REPEATED, 0.0, 0.0)[twice]


@helper
def entry_price(entries: int) -> float:
    """What the entries of a conjunction cost in memory, beyond its first."""
    few = min(entries, PRODUCTS)
    return (few - 1) * ENTRY_NS + (entries - few) * MEMBER_NS


@helper
def shape_code(one: int, two: int, three: int) -> int:
    """The code of a key shape of two or three parts; `three` is 0 if there is none."""
    if three == 0:
        return (max(one, two) << 21) | min(one, two)
    largest, smallest = max(one, two, three), min(one, two, three)
    return (largest << 42) | ((one + two + three - largest - smallest) << 21) | smallest


def shape_table(known: np.ndarray) -> np.ndarray:
    """A hash table from the code of a key shape to its number, counted from 1."""
    table = np.zeros(1 << max(4, (4 * len(known)).bit_length()), np.int32)
    _fill_shapes(table, known, len(known))
    return table


@helper
def place_of(table: Int32s, known: Int64s, code: int) -> int:
    """The place of a code in a shape table: where it is, or else where it would be inserted."""
    mask = table.size - 1
    at = np.int64((np.uint64(code) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask
    while table[at] != 0 and known[table[at] - 1] != code:
        at = (at + 1) & mask
    return at  # type: ignore[return-value]


@kernel
def _fill_shapes(table: Int32s, known: Int64s, count: int) -> None:
    for i in range(count):
        table[place_of(table, known, known[i])] = i + 1


def make_table(keys: np.ndarray, runs: np.ndarray) -> np.ndarray:
    """Build the table of distinct keys, none negative, with the run of each."""
    lines = max(2, -(-len(keys) // USUAL))
    table = at_line_start(lines * 2 * LINE).reshape(lines, 2 * LINE)
    table[:] = -1
    _fill_lines(table, keys, runs)
    return table


def table_entries(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The keys of a table, and their runs."""
    keys, runs = table[:, :LINE].ravel(), table[:, LINE:].ravel()
    return keys[keys >= 0], runs[keys >= 0]


@helper
def line_of(key: int, lines: int) -> np.uint64:
    """The line in which the search for a key begins."""
    h = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return ((h >> np.uint64(32)) * np.uint64(lines)) >> np.uint64(32)


@helper
def find(table: Int64Matrix, key: int) -> int:
    """The run of a key, or 0."""
    lines = np.uint64(table.shape[0])
    at = line_of(key, lines)  # type: ignore[arg-type]
    while True:
        found = np.int64(0)
        for i in range(LINE):
            found |= table[at, np.uint64(LINE + i)] & -np.int64(table[at, np.uint64(i)] == key)
        if (found != 0) | (table[at, np.uint64(LINE - 1)] < 0):
            return found  # type: ignore[return-value]
        at += np.uint64(1)
        if at == lines:
            at = np.uint64(0)


@kernel
def _fill_lines(table: Int64Matrix, keys: Int64s, runs: Int64s) -> None:
    for k in range(keys.size):
        at, i = line_of(keys[k], table.shape[0]), 0
        while table[at, i] >= 0:
            i += 1
            if i == LINE:
                i = 0
                at += np.uint64(1)
                if at == table.shape[0]:
                    at = np.uint64(0)
        table[at, i], table[at, LINE + i] = keys[k], runs[k]
