"""Signatures: conjunctions over attributes of few values as 128 bits each, tested with one AND.

The ranks of an attribute fall into *classes*: ranks that no conjunction tells apart. Class 0 is what none asks for, and
where the attribute is missing. An event sets the bit of its class for every attribute; a conjunction has the bits that
are its death. Where the bits of a class do not say all, or an attribute has none, the record is visited.

So that an event sees few of them, conjunctions are sorted by their classes of a few attributes, the *key*, which a
conjunction may leave open: with k of them an event looks at 2 ** k runs, found in a table without hashing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whimbrel.compiled.jit import helper, kernel
from whimbrel.engine.access.shared.groups import make_groups
from whimbrel.engine.access.shared.records import record_sizes, write_records
from whimbrel.engine.access.shared.weights import Weights, products
from whimbrel.ranks.clauses.clauses import RANGE, SET, Clauses

BITS = 128
RANKS = 1_024
"""Ranks that an attribute may have for its classes to be looked for."""
CLASSES = 33
"""Classes that an attribute may have to get bits."""
KEYS = 1 << 20
"""Entries of the table of runs, at most."""
KEY_ATTRIBUTES = 10
SAMPLE = 40_000
"""Conjunctions by which the key is chosen."""
CLASS_SAMPLE = 4_096
"""Conjunctions that tell which attributes have too many classes."""
TEST_NS, RUN_NS, CLASS_NS, MATCH_NS, VISIT_NS = 0.6, 8.0, 2.5, 3.0, 15.0
"""What a signature, a run, an attribute with bits, a match and a visited record cost an event, measured."""
CHECK_BIT = -(1 << 31)
"""The sign of a slot: bits do not say all about the conjunction."""

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Signatures:
    """How conjunctions become signatures, and what each would cost an event."""

    first: np.ndarray  # int32[A, 2]: where the classes of an attribute's ranks begin, or -1, and its class 0
    classes: np.ndarray  # int32: the class of each rank
    key: np.ndarray  # int32[k]: the attributes of the key
    cost: np.ndarray  # float64: of each conjunction
    overhead: float
    decides: bool  # no conjunction must be visited


def plan_signatures(clauses: Clauses, weights: Weights, shares: np.ndarray, mine: np.ndarray) -> Signatures | None:
    """Signatures for these conjunctions, or None where no attribute has few enough classes."""
    uses = np.zeros(len(clauses.attributes), np.int64)
    _count_uses(mine, clauses.start, clauses.attr, clauses.kind, uses)
    small = np.flatnonzero((uses > 0) & (weights.total <= RANKS))
    small = small[np.argsort(-uses[small], kind="stable")][: 4 * BITS]
    step = max(1, len(mine) // CLASS_SAMPLE)
    if step > 1:  # what has many classes, has them in a sample mostly
        own = _sums(clauses, weights, mine[::step].copy(), small)
        small = np.array([attr for attr, sums in zip(small, own, strict=True) if _count(sums) <= CLASSES], np.int64)
    first, classes, sizes = _classes(clauses, weights, mine, small[:BITS])
    if not len(sizes):
        return None
    with_bits = np.flatnonzero(first[:, 0] >= 0)
    with_bits = with_bits[np.argsort(first[with_bits, 1], kind="stable")]
    step = max(1, len(mine) // SAMPLE)
    sampled, visits = _reached(clauses, shares, mine[::step].copy(), first, classes, with_bits)
    key = _choose_key(sampled, sizes, step)
    if step > 1:
        reached, visits = _reached(clauses, shares, mine, first, classes, with_bits[key])
    else:
        reached = sampled[key]
    cost = TEST_NS * reached.prod(axis=0, dtype=np.float64) + MATCH_NS * products(mine, clauses.start, shares)
    overhead = RUN_NS * 2.0 ** len(key) + CLASS_NS * len(sizes)
    decides = not visits.any()
    return Signatures(first, classes, with_bits[key].astype(np.int32), cost + VISIT_NS * visits, overhead, decides)


def _reached(
    clauses: Clauses, shares: np.ndarray, mine: np.ndarray, first: np.ndarray, classes: np.ndarray, attrs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The share of events that each of some attributes lets through to a conjunction, and how often one is visited."""
    share = np.ones((len(attrs), len(mine)), np.float32)
    visits = np.empty(len(mine))
    place = np.full(len(first), -1, np.int32)
    place[attrs] = np.arange(len(attrs))
    _point_shares(
        mine, clauses.start, clauses.attr, clauses.kind, clauses.low, clauses.high, clauses.set_start, clauses.set_low,
        clauses.set_high, shares, first, classes, place, share, visits,
    )  # fmt: skip
    return share, visits


def _choose_key(share: np.ndarray, sizes: np.ndarray, step: int) -> list[int]:
    """The attributes of the key, one after the other, while each saves more tests than it adds runs."""
    reach = np.ones(share.shape[1], np.float32)
    key: list[int] = []
    keys = 1
    while len(key) < KEY_ATTRIBUTES:
        left = np.einsum("ai,i->a", share, reach)  # threads of BLAS would spin longer than this takes
        left[[at in key or keys * size > KEYS for at, size in enumerate(sizes)]] = np.inf
        best = int(np.argmin(left))
        if RUN_NS * 2 ** len(key) >= TEST_NS * step * (reach.sum(dtype=np.float64) - left[best]):
            break
        key.append(best)
        keys *= int(sizes[best])
        reach = reach * share[best]
    return key


def signature_arrays(
    clauses: Clauses, found: Signatures | None, mine: np.ndarray, slot: np.ndarray, shares: np.ndarray, start: int
) -> tuple[Arrays, np.ndarray]:
    """The signature_* arrays of a segment, and the records of these conjunctions, which begin at a place."""
    if found is None or not len(mine):
        none = np.empty(0, np.int32)
        first = np.full((len(clauses.attributes), 2), -1, np.int32)
        bits = np.zeros((1, 2), np.uint64)
        return _arrays(first, none, bits, none, none, np.zeros(2, np.int32), bits[:0], none, none), none
    counts = _sizes(found.first, found.classes)
    radix = np.ones(len(found.key), np.int64)
    for at in range(1, len(radix)):
        radix[at] = radix[at - 1] * counts[found.key[at - 1]]
    keys = int(radix[-1] * counts[found.key[-1]]) if len(radix) else 1
    dead = np.zeros((len(mine), 2), np.uint64)
    code = np.zeros(len(mine), np.int64)
    checked = np.zeros(len(mine), np.bool_)
    in_key = np.zeros(len(clauses.attributes), np.int64)
    in_key[found.key] = radix
    _fill(
        mine, clauses.start, clauses.attr, clauses.kind, clauses.low, clauses.high, clauses.set_start, clauses.set_low,
        clauses.set_high, found.first, found.classes, counts, in_key, dead, code, checked,
    )  # fmt: skip
    order = np.argsort(code, kind="stable")
    alone = np.arange(len(mine))
    no_key = np.full((len(mine), 3), -1, np.int64)
    groups = make_groups(clauses, mine[order], no_key, alone, shares, in_key, keep_key=True)
    places = start + np.cumsum(record_sizes(groups.first, groups.item_start))
    records = write_records(groups.first, groups.item_start, groups.items, slot[mine[order]])
    packed = slot[mine[order]] | np.where(checked[order], np.int32(CHECK_BIT), np.int32(0))
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(code, minlength=keys))])
    zeros = found.first[found.first[:, 0] >= 0, 1]
    arrays = _arrays(
        found.first, found.classes, _class_bits(int(counts.sum()), zeros), found.key, radix.astype(np.int32),
        ends.astype(np.int32), dead[order], packed, np.concatenate([np.array([start]), places])[:-1].astype(np.int32),
    )  # fmt: skip
    return arrays, records


def _arrays(*arrays: np.ndarray) -> Arrays:
    names = ("first", "classes", "bits", "key", "radix", "start", "dead", "slot", "record")
    return {f"signature_{name}": array for name, array in zip(names, arrays, strict=True)}


def _class_bits(count: int, zeros: np.ndarray) -> np.ndarray:
    """The bit of each class, in two words, and at last those of an event without attributes."""
    bits = np.zeros((count + 1, 2), np.uint64)
    number = np.arange(count)
    bits[number, number >> 6] = np.uint64(1) << (number & 63).astype(np.uint64)
    bits[-1] = np.bitwise_or.reduce(bits[zeros], axis=0)
    return bits


def _sizes(first: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """How many classes each attribute has."""
    owners = np.flatnonzero(first[:, 0] >= 0)
    owners = owners[np.argsort(first[owners, 1], kind="stable")]
    sizes = np.zeros(len(first), np.int64)
    sizes[owners] = np.diff(np.append(first[owners, 1], int(classes.max(initial=-1)) + 1))
    return sizes


def _classes(
    clauses: Clauses, weights: Weights, mine: np.ndarray, attrs: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Classes of attributes while there are bits for them: `first` and `classes`, and how many each attribute has."""
    first = np.full((len(clauses.attributes), 2), -1, np.int32)
    tables: list[np.ndarray] = []
    sizes: list[int] = []
    ranks = used = 0
    for attr, sums in zip(attrs, _sums(clauses, weights, mine, attrs), strict=True):
        known, inverse = np.unique(np.append(sums, np.uint64(0)), return_inverse=True)
        if len(known) > CLASSES or used + len(known) > BITS:
            continue
        first[attr] = ranks, used
        tables.append(used + inverse[:-1])  # 0 is the smallest: class 0 is what no conjunction asks for
        sizes.append(len(known))
        ranks += len(sums)
        used += len(known)
    return first, np.concatenate([np.empty(0, np.int32), *tables]).astype(np.int32), np.array(sizes, np.int64)


def _sums(clauses: Clauses, weights: Weights, mine: np.ndarray, attrs: np.ndarray) -> list[np.ndarray]:
    """Per attribute a number for each rank, equal for ranks that these conjunctions do not tell apart."""
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(weights.total[attrs] + 1)])
    begin = np.full(len(clauses.attributes), -1, np.int64)
    begin[attrs] = start[:-1]
    marks = np.zeros(int(start[-1]), np.uint64)
    _mark(
        mine, clauses.start, clauses.attr, clauses.kind, clauses.low, clauses.high, clauses.set_start, clauses.set_low,
        clauses.set_high, begin, marks,
    )  # fmt: skip
    return [np.cumsum(marks[start[at] : start[at + 1] - 1]) for at in range(len(attrs))]


def _count(sums: np.ndarray) -> int:
    """How many classes there are, that of what no conjunction asks for included."""
    return len(set(sums.tolist()) | {0})


@kernel
def _count_uses(mine, start, attr, kind, uses):  # type: ignore[no-untyped-def]
    for c in mine:
        for k in range(start[c], start[c + 1]):
            if kind[k] <= SET:
                uses[attr[k]] += 1


@helper
def _hash(one, two):  # type: ignore[no-untyped-def]
    h = (np.uint64(one) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(29)) ^ (np.uint64(two) + np.uint64(1))) * np.uint64(0xBF58476D1CE4E5B9)
    return h ^ (h >> np.uint64(32))


@kernel
def _mark(mine, start, attr, kind, low, high, set_start, set_low, set_high, begin, marks):  # type: ignore[no-untyped-def]
    """Adds to where the ranges of items begin a number of theirs, and takes it away behind their ends."""
    for c in mine:
        for k in range(start[c], start[c + 1]):
            at = begin[attr[k]]
            if at < 0 or kind[k] > SET:
                continue
            if kind[k] == RANGE:
                h = _hash(low[k], high[k])
                marks[at + low[k]] += h
                marks[at + high[k] + 1] -= h
                continue
            h = _hash(-1 - low[k], 0)
            for i in range(set_start[low[k]], set_start[low[k] + 1]):
                marks[at + set_low[i]] += h
                marks[at + set_high[i] + 1] -= h


@helper
def _alive(k, kind, low, high, set_start, set_low, set_high, table, zero, alive):  # type: ignore[no-untyped-def]
    """Marks the classes that an item admits: how many they are, and how many ranks it admits."""
    first, last = (0, 1) if kind[k] == RANGE else (set_start[low[k]], set_start[low[k] + 1])
    count = ranks = 0
    for i in range(first, last):
        one, two = (low[k], high[k]) if kind[k] == RANGE else (set_low[i], set_high[i])
        ranks += two - one + 1
        for rank in range(one, two + 1):
            c = table[rank] - zero
            count += not alive[c]
            alive[c] = True
    return count, ranks


@kernel
def _point_shares(  # type: ignore[no-untyped-def]
    mine, start, attr, kind, low, high, set_start, set_low, set_high, shares, first, classes, place, share, visits
):
    """By the place of their attribute the shares of items that admit one class; and how often bits do not decide."""
    alive = np.zeros(CLASSES, np.bool_)
    for i in range(mine.size):
        passed, decided = 1.0, True
        for k in range(start[mine[i]], start[mine[i] + 1]):
            a = attr[k]
            if first[a, 0] < 0 or kind[k] > SET:
                decided = False
                continue
            passed *= shares[k]
            if place[a] < 0:
                continue
            alive[:] = False
            table = classes[first[a, 0] :]
            count, _ = _alive(k, kind, low, high, set_start, set_low, set_high, table, first[a, 1], alive)
            if count == 1 and not alive[0]:
                share[place[a], i] = min(share[place[a], i], shares[k])
        visits[i] = 0.0 if decided else passed


@kernel
def _fill(  # type: ignore[no-untyped-def]
    mine,
    start,
    attr,
    kind,
    low,
    high,
    set_start,
    set_low,
    set_high,
    first,
    classes,
    counts,
    in_key,
    dead,
    code,
    checked,
):
    """Per conjunction its dead bits, its place in the table of runs, and whether its items must be checked."""
    alive = np.zeros(CLASSES, np.bool_)
    widths = np.bincount(classes, minlength=BITS)
    for i in range(mine.size):
        for k in range(start[mine[i]], start[mine[i] + 1]):
            a = attr[k]
            if first[a, 0] < 0 or kind[k] > SET:
                checked[i] = True
                continue
            alive[:] = False
            zero = first[a, 1]
            table = classes[first[a, 0] :]
            count, ranks = _alive(k, kind, low, high, set_start, set_low, set_high, table, zero, alive)
            covered, only = 0, 0
            for c in range(counts[a]):
                if alive[c]:
                    covered += widths[zero + c]
                    only = c
                else:
                    bit = zero + c
                    dead[i, bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)
            if covered != ranks or alive[0]:
                checked[i] = True
            if count == 1 and only > 0 and in_key[a] > 0 and (code[i] // in_key[a]) % counts[a] == 0:
                code[i] += only * in_key[a]
