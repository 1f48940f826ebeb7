"""Chooses the conjunctions that get a signature, estimates their cost, and lays out their arrays.

The ranks of an attribute fall into *classes*: ranks that no conjunction tells apart are one class, which has one bit.
Class 0 of an attribute has the ranks that no conjunction asks for, and the events that lack the attribute. An event
sets one bit for every attribute, that of its class. The signature of a conjunction has the bits of the classes that it
does not admit: one common bit, and the conjunction is dead. Signatures are sorted by their classes of a few
attributes, the *key*, so that an event tests few of them. A conjunction may leave attributes of the key open: with k
attributes an event tests 2 ** k runs, found in a table without hashing. If the bits do not decide a conjunction, or one
of its attributes has none, its record is visited. Every signature has a record of its own, behind those of hash keys.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import (
    Bools,
    Bytes,
    Float32Matrix,
    Float32s,
    Floats,
    Int32Matrix,
    Int32s,
    Int64s,
    Uint64Matrix,
    Uint64s,
)
from whimbrel.compiled.jit import helper, kernel
from whimbrel.engine.access.shared.arrays import Items
from whimbrel.engine.access.shared.plan import NO_KEY, Plan, match_shares
from whimbrel.engine.access.shared.records import make_groups, record_sizes, write_records
from whimbrel.engine.access.signature.kernel import CHECK_BIT, SIGNATURE, TEST_NS, SignatureArrays
from whimbrel.ranks.clauses.clauses import RANGE, SET

BITS = 128
"""Bits of a signature: classes of all attributes, at most."""
RANKS = 1_024
"""Attributes with more ranks get no bits."""
CLASSES = 33
"""Attributes with more classes get no bits."""
CLASS_SAMPLE = 4_096
"""Conjunctions of the sample that tells which attributes have too many classes."""
KEYS = 1 << 20
"""Entries of the table of runs, at most."""
KEY_ATTRIBUTES = 10
SAMPLE = 40_000
"""Conjunctions on which the key is chosen."""
RUN_NS, CLASS_NS, MATCH_NS, VISIT_NS = 8.0, 2.5, 3.0, 15.0
"""What a run, an attribute with bits, a match and a visited record cost an event, measured."""
ALL_SIGNATURES, EQUALS = 5_000, 1.5
"""Signatures are tried before other keys if there are at least so many conjunctions, of which at most so many are equal
on average."""
SIGNATURES_ABOVE_NS = 400.0
"""Signatures are considered if an event costs more with the other keys."""


class RankClasses(NamedTuple):
    """The classes of attributes that have bits."""

    first: Int32Matrix  # [A, 2]: where the ranks of an attribute begin in `table`, or -1, and its class 0
    table: Int32s  # the class of each rank, counted through all attributes

    def sizes(self) -> np.ndarray:
        """How many classes each attribute has."""
        owners = np.flatnonzero(self.first[:, 0] >= 0)
        owners = owners[np.argsort(self.first[owners, 1], kind="stable")]
        sizes = np.zeros(len(self.first), np.int64)
        sizes[owners] = np.diff(np.append(self.first[owners, 1], int(self.table.max(initial=-1)) + 1))
        return sizes


class SignaturePlan(NamedTuple):
    """How conjunctions become signatures, and what each would cost an event."""

    classes: RankClasses
    key: Int32s  # [k]: the attributes of the key
    cost: Floats  # what each conjunction costs an event
    overhead: float  # what an event costs before it tests a signature
    decides: bool  # whether bits decide every conjunction, so that no record must be visited


def claim(plan: Plan) -> None:
    """Take all conjunctions if bits decide them and hardly any are equal: then no other key is worth a search."""
    mine = np.flatnonzero(plan.open)
    if len(mine) < ALL_SIGNATURES or (plan.kind[mine] != NO_KEY).any():
        return
    if plan.weights.total[plan.used_attributes(mine)[0]].max() > RANKS or plan.count_equals(mine).mean() > EQUALS:
        return
    found = _signatures(plan, mine)
    if found is not None and found.decides:
        _take(plan, mine, found)
        plan.open[mine] = False


def bid(plan: Plan) -> None:
    """Take conjunctions of groups, and those of the key that takes the rest, if they cost less with signatures."""
    mine = np.flatnonzero(plan.open)
    grouped = plan.group > 0
    spent = np.where(grouped | plan.rest, plan.cost, 0.0)
    if plan.prices(grouped) + float(spent.sum()) + plan.load < SIGNATURES_ABOVE_NS:
        return
    found = _signatures(plan, mine)
    if found is None:
        return
    as_signature = np.full(len(plan.kind), np.inf)
    as_signature[mine] = found.cost
    from_groups = np.zeros(len(plan.kind), bool)
    from_groups[plan.unpaid(as_signature)] = True
    saved = spent - as_signature
    gain = float(saved[from_groups].sum()) + plan.prices(from_groups) - found.overhead
    from_rest = plan.rest & (saved > 0)
    if saved[plan.rest].sum() + plan.load > saved[from_rest].sum():
        from_rest = plan.rest  # all of them, so that `plan.load` is saved too
        gain += plan.load
    if gain + saved[from_rest].sum() > 0:
        _take(plan, from_groups | from_rest, found)


def _take(plan: Plan, which: np.ndarray, found: SignaturePlan) -> None:
    plan.take("signature", which)
    plan.notes["signature"] = found


def _signatures(plan: Plan, mine: np.ndarray) -> SignaturePlan | None:
    """Plan signatures for these conjunctions; None if no attribute has few enough classes."""
    classes, sizes = _find_classes(plan, mine)
    if not len(sizes):
        return None
    first = classes.first
    with_bits = np.flatnonzero(first[:, 0] >= 0)
    with_bits = with_bits[np.argsort(first[with_bits, 1], kind="stable")]
    step = max(1, len(mine) // SAMPLE)
    sampled, visits = _reach(plan, mine[::step].copy(), classes, with_bits)
    key = _choose_key(sampled, sizes, step)
    if step > 1:
        reached, visits = _reach(plan, mine, classes, with_bits[key])
    else:
        reached = sampled[key]
    cost = TEST_NS * reached.prod(axis=0, dtype=np.float64) + MATCH_NS * match_shares(
        mine, plan.clauses.start, plan.shares
    )
    overhead = RUN_NS * 2.0 ** len(key) + CLASS_NS * len(sizes)
    attrs = with_bits[key].astype(np.int32)
    return SignaturePlan(classes, attrs, cost + VISIT_NS * visits, overhead, not visits.any())


def _reach(plan: Plan, mine: np.ndarray, classes: RankClasses, attrs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The share of events that each attribute lets through to each conjunction, and that visit its record."""
    share = np.ones((len(attrs), len(mine)), np.float32)
    visits = np.empty(len(mine))
    place = np.full(len(classes.first), -1, np.int32)
    place[attrs] = np.arange(len(attrs))
    _point_shares(mine, plan.items, plan.shares, classes, place, share, visits)
    return share, visits


def _choose_key(share: np.ndarray, sizes: np.ndarray, step: int) -> list[int]:
    """Choose the attributes of the key one by one, while each saves tests worth more than the runs that it adds."""
    reach = np.ones(share.shape[1], np.float32)
    key: list[int] = []
    keys = 1
    while len(key) < KEY_ATTRIBUTES:
        left = np.einsum("ai,i->a", share, reach)  # not `@`: the threads of BLAS spin longer than this takes
        left[[at in key or keys * size > KEYS for at, size in enumerate(sizes)]] = np.inf
        best = int(np.argmin(left))
        if RUN_NS * 2 ** len(key) >= TEST_NS * step * (reach.sum(dtype=np.float64) - left[best]):
            break
        key.append(best)
        keys *= int(sizes[best])
        reach = reach * share[best]
    return key


@kernel
def _point_shares(
    mine: Int64s, items: Items, shares: Float32s, classes: RankClasses, place: Int32s, share: Float32Matrix,
    visits: Floats,
) -> None:  # fmt: skip
    """Write the shares of items that admit one class, by place[attribute], and how often each record is visited.

    A record is visited if its conjunction tests an attribute without bits.
    """
    start, attr, kind, low, high, set_start, set_low, set_high = items
    first, table = classes
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
            own = table[first[a, 0] :]
            count, _ = _mark_admitted(k, kind, low, high, set_start, set_low, set_high, own, first[a, 1], alive)
            if count == 1 and not alive[0]:
                share[place[a], i] = min(share[place[a], i], shares[k])
        visits[i] = 0.0 if decided else passed


def _find_classes(plan: Plan, mine: np.ndarray) -> tuple[RankClasses, np.ndarray]:
    """Find classes for the attributes that these conjunctions use most, while bits are left; and how many each has."""
    count, total = len(plan.clauses.attributes), plan.weights.total
    uses = np.zeros(count, np.int64)
    _count_uses(mine, plan.items, uses)
    attrs = np.flatnonzero((uses > 0) & (total <= RANKS))
    attrs = attrs[np.argsort(-uses[attrs], kind="stable")][: 4 * BITS]
    step = max(1, len(mine) // CLASS_SAMPLE)
    if step > 1:  # an attribute with many classes mostly has many in a sample too
        sampled = _rank_hashes(plan, mine[::step].copy(), attrs)
        few = [attr for attr, sums in zip(attrs, sampled, strict=True) if len({*sums.tolist(), 0}) <= CLASSES]
        attrs = np.array(few, np.int64)
    attrs = attrs[:BITS]
    first = np.full((count, 2), -1, np.int32)
    tables: list[np.ndarray] = []
    sizes: list[int] = []
    ranks = used = 0
    for attr, sums in zip(attrs, _rank_hashes(plan, mine, attrs), strict=True):
        known, inverse = np.unique(np.append(sums, np.uint64(0)), return_inverse=True)
        if len(known) > CLASSES or used + len(known) > BITS:
            continue
        first[attr] = ranks, used
        tables.append(used + inverse[:-1])  # 0 is the smallest: class 0 is what no conjunction asks for
        sizes.append(len(known))
        ranks += len(sums)
        used += len(known)
    table = np.concatenate([np.empty(0, np.int32), *tables]).astype(np.int32)
    return RankClasses(first, table), np.array(sizes, np.int64)


def _rank_hashes(plan: Plan, mine: np.ndarray, attrs: np.ndarray) -> list[np.ndarray]:
    """For each attribute a hash per rank, equal for ranks that these conjunctions do not tell apart."""
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(plan.weights.total[attrs] + 1)])
    begin = np.full(len(plan.clauses.attributes), -1, np.int64)
    begin[attrs] = start[:-1]
    marks = np.zeros(int(start[-1]), np.uint64)
    _add_hashes(mine, plan.items, begin, marks)
    return [np.cumsum(marks[start[at] : start[at + 1] - 1]) for at in range(len(attrs))]


@kernel
def _count_uses(mine: Int64s, items: Items, uses: Int64s) -> None:
    for c in mine:
        for k in range(items.start[c], items.start[c + 1]):
            if items.kind[k] <= SET:
                uses[items.attr[k]] += 1


@helper
def _hash(one: int, two: int) -> np.uint64:
    h = (np.uint64(one) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(29)) ^ (np.uint64(two) + np.uint64(1))) * np.uint64(0xBF58476D1CE4E5B9)
    return h ^ (h >> np.uint64(32))


@kernel
def _add_hashes(mine: Int64s, items: Items, begin: Int64s, marks: Uint64s) -> None:
    """Add the hash of each item where its ranges begin, and subtract it behind their ends."""
    start, attr, kind, low, high, set_start, set_low, set_high = items
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
def _mark_admitted(
    k: int, kind: Bytes, low: Int32s, high: Int32s, set_start: Int64s, set_low: Int32s,
    set_high: Int32s, table: Int32s, zero: int, alive: Bools,
) -> tuple[int, int]:  # fmt: skip
    """Mark in `alive` the classes that item k admits; return how many classes and how many ranks it admits.

    `table` has the class of each rank of the item's attribute, and `zero` is the attribute's class 0.
    """
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


def lay_out(plan: Plan) -> dict[str, np.ndarray]:
    """The arrays of the conjunctions with signatures; appends their records to `plan.records`."""
    clauses, mine, rows = plan.clauses, plan.of("signature"), plan.rows
    noted = plan.notes.get("signature")
    if not isinstance(noted, SignaturePlan) or not len(mine):
        none = np.empty(0, np.int32)
        first = np.full((len(clauses.attributes), 2), -1, np.int32)
        bits = np.zeros((1, 2), np.uint64)
        return SIGNATURE.stored_arrays(
            SignatureArrays(first, none, bits, none, none, np.zeros(2, np.int32), bits[:0], none, none)
        )
    classes, key = noted.classes, noted.key
    counts = classes.sizes()
    radix = np.ones(len(key), np.int64)
    for at in range(1, len(radix)):
        radix[at] = radix[at - 1] * counts[key[at - 1]]
    keys = int(radix[-1] * counts[key[-1]]) if len(radix) else 1
    dead = np.zeros((len(mine), 2), np.uint64)
    code = np.zeros(len(mine), np.int64)
    checked = np.zeros(len(mine), np.bool_)
    in_key = np.zeros(len(clauses.attributes), np.int64)
    in_key[key] = radix
    _fill_signatures(mine, plan.items, classes, counts, in_key, dead, code, checked)
    order = np.argsort(code, kind="stable")
    alone = np.arange(len(mine))
    no_key = np.full((len(mine), 3), -1, np.int64)
    groups = make_groups(plan, mine[order], no_key, alone, in_key, keep_key=True)
    start = sum(map(len, plan.records))
    ends = start + np.cumsum(record_sizes(groups.first, groups.item_start))
    plan.records.append(write_records(groups.first, groups.item_start, groups.items, rows[mine[order]]))
    packed = rows[mine[order]] | np.where(checked[order], np.int32(CHECK_BIT), np.int32(0))
    runs = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(code, minlength=keys))])
    first, table = classes
    arrays = SignatureArrays(
        first, table, _class_bits(int(counts.sum()), first[first[:, 0] >= 0, 1]), key, radix.astype(np.int32),
        runs.astype(np.int32), dead[order], packed, np.concatenate([np.array([start]), ends])[:-1].astype(np.int32),
    )  # fmt: skip
    return SIGNATURE.stored_arrays(arrays)


def _class_bits(count: int, zeros: np.ndarray) -> np.ndarray:
    """The bit of each class, in two words, and last the bits of an event without attributes, those of all classes 0."""
    bits = np.zeros((count + 1, 2), np.uint64)
    number = np.arange(count)
    bits[number, number >> 6] = np.uint64(1) << (number & 63).astype(np.uint64)
    bits[-1] = np.bitwise_or.reduce(bits[zeros], axis=0)
    return bits


@kernel
def _fill_signatures(
    mine: Int64s, items: Items, classes: RankClasses, counts: Int64s, in_key: Int64s, dead: Uint64Matrix,
    code: Int64s, checked: Bools,
) -> None:  # fmt: skip
    """Write the dead bits of each conjunction, its number in the table of runs, and whether items must be checked.

    `counts` has the number of classes of each attribute, `in_key` the radix of each attribute of the key, 0 for others.
    """
    start, attr, kind, low, high, set_start, set_low, set_high = items
    first, table = classes
    alive = np.zeros(CLASSES, np.bool_)
    widths = np.bincount(table, minlength=BITS)
    for i in range(mine.size):
        for k in range(start[mine[i]], start[mine[i] + 1]):
            a = attr[k]
            if first[a, 0] < 0 or kind[k] > SET:
                checked[i] = True
                continue
            alive[:] = False
            zero = first[a, 1]
            own = table[first[a, 0] :]
            count, ranks = _mark_admitted(k, kind, low, high, set_start, set_low, set_high, own, zero, alive)
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
