"""The items of which hash keys are made: which of a conjunction may be in a key, how selective each is, and schemas."""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.jit import helper, kernel
from whimbrel.engine.access.shared.weights import Weights
from whimbrel.ranks.clauses.clauses import SET, Clauses

PROBE_NS, CANDIDATE_NS = 30.0, 9.0
"""What a probe and a candidate cost, measured; only ratios matter."""
ENTRY_NS = 0.01
"""The price of one entry more: memory that fewer candidates must be worth."""
BUCKETS = 16
"""Buckets of an attribute in a key, at most."""
MEMBERS = 16
"""Entries of one conjunction, at most."""
KEY_BITS = 50.0
"""Bits of a hash key: the product of the codes of its attributes must stay below."""
ITEMS = 8
_ATTRIBUTES = 1 << 20
_NO_MEMBERS = 255


def bucket_factor(total: np.ndarray) -> np.ndarray:
    """Per attribute the factor f with which (rank * f) >> 32 is the bucket of a rank."""
    factor: np.ndarray = (np.minimum(BUCKETS, total) << 32) // np.maximum(1, total)
    return factor


def key_source(clauses: Clauses, weights: Weights, shares: np.ndarray) -> tuple[np.ndarray, ...]:
    """What `candidates` reads."""
    factor = bucket_factor(weights.total)
    return (
        clauses.start, clauses.attr, clauses.kind, clauses.low, clauses.high, shares, _members(clauses),
        weights.present, factor, *_below(weights, factor), _widths(weights.total),
    )  # fmt: skip


def _members(clauses: Clauses) -> np.ndarray:
    """How many members every set has that is a list of values, not too long for keys."""
    lengths = np.diff(clauses.set_start)
    wider = np.append(0, np.cumsum(clauses.set_high - clauses.set_low, dtype=np.int64))[clauses.set_start]
    fits = (np.diff(wider) == 0) & (lengths <= MEMBERS)
    return np.where(fits, lengths, _NO_MEMBERS).astype(np.uint8)


def _below(weights: Weights, factor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per attribute what lies below each bucket, and by what to multiply it to have a share of events."""
    total, count = weights.total[:, None], np.arange(BUCKETS + 1) << 32
    first = np.where(total > 0, np.minimum(-(-count // np.maximum(1, factor[:, None])), total), 0)
    if weights.cumulative.size:
        return weights.cumulative[weights.start[:-1, None] + first].astype(np.float64), np.ones(len(first))
    return first.astype(np.float64), weights.present / np.maximum(1, weights.total - 8)


def _widths(total: np.ndarray) -> np.ndarray:
    """Per attribute the bits of a rank and of a bucket in a key."""
    widths: np.ndarray = np.log2(np.stack([total, np.minimum(total, BUCKETS)], axis=1).astype(np.float64))
    return widths


@helper
def room():  # type: ignore[no-untyped-def]
    """For the items of a conjunction: what `candidates` writes to."""
    return (
        np.empty(ITEMS + 1, np.int64), np.empty(ITEMS + 1), np.empty(ITEMS + 1, np.int64),
        np.empty(ITEMS + 1, np.int64), np.empty(ITEMS + 1),
    )  # fmt: skip


def schema_table(known: np.ndarray) -> np.ndarray:
    """Open addressing from the code of a schema to its number, counted from 1."""
    table = np.zeros(1 << max(4, (4 * len(known)).bit_length()), np.int32)
    _fill_table(table, known, len(known))
    return table


@helper
def place_of(table, known, code):  # type: ignore[no-untyped-def]
    """Where a schema is in the table, or belongs."""
    mask = table.size - 1
    at = np.int64((np.uint64(code) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask
    while table[at] != 0 and known[table[at] - 1] != code:
        at = (at + 1) & mask
    return at


@kernel
def _fill_table(table, known, count):  # type: ignore[no-untyped-def]
    for i in range(count):
        table[place_of(table, known, known[i])] = i + 1


@helper
def candidates(c, source, item, share, entries, part, bits):  # type: ignore[no-untyped-def]
    """The items of a conjunction that may be in a key, the most selective first: how many they are."""
    start, attr, kind, low, high, shares, members, present, factor, below, scale, widths = source
    n = 0
    for k in range(start[c], start[c + 1]):
        a = attr[k]
        if kind[k] > SET or a >= _ATTRIBUTES:
            continue
        s, e, is_bucket = float(shares[k]), np.int64(1), 0
        if kind[k] == SET:
            e = np.int64(members[low[k]])
        elif low[k] < high[k]:
            if low[k] <= 0:
                continue
            b0, b1 = (low[k] * factor[a]) >> 32, (high[k] * factor[a]) >> 32
            s = min(present[a], (below[a, b1 + 1] - below[a, b0]) * scale[a])
            e, is_bucket = b1 - b0 + 1, 1
        if e > MEMBERS or (n == ITEMS and s >= share[n - 1]):
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
def schema_code(one, two, three):  # type: ignore[no-untyped-def]
    """The schema of two or three parts; `three` is 0 if there is none."""
    if three == 0:
        return (max(one, two) << 21) | min(one, two)
    largest, smallest = max(one, two, three), min(one, two, three)
    return (largest << 42) | ((one + two + three - largest - smallest) << 21) | smallest
