"""The arrays of hash keys: one table of exact 64-bit keys, and for each key a run of records or references.

A key is base + the codes of its attributes in mixed radix; a code is a rank or, for a range, a bucket of ranks. A key
leads to a run of records (shared/records.py): groups of conjunctions with the items that the key does not prove. If
some conjunction of a key shape has several keys (IN, ranges), the records of the shape have all items, and each key
leads to a run of references to records.

A *reference* has three ranges, each with the number of its attribute. The ranges are in *coarse* ranks, shortened to 16
bits. An event outside one of them need not visit the record. If the key and the ranges prove all items of the record,
and the record has a single row that no other conjunction has, the reference *decides*: it holds the row in place of the
record. References are two arrays. `refs`, an int64 each, has the attributes and the first range, all that most events
read. `targets`, three int32 each, has the place of the record, or the complement of the row, and the other two ranges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Bools, Int32Matrix, Int32s, Int64Matrix, Int64s
from whimbrel.compiled.intrinsics import prefetch
from whimbrel.compiled.jit import kernel
from whimbrel.engine.access.hash.keys import BUCKETS, bucket_factor, make_table, place_of
from whimbrel.engine.access.shared.arrays import Arrays, Items
from whimbrel.engine.access.shared.key import KeyArrays
from whimbrel.engine.access.shared.packing import ATTR_MASK, KIND_SHIFT, SHARED_BIT
from whimbrel.engine.access.shared.plan import Plan
from whimbrel.engine.access.shared.records import SOON, Groups, make_groups, record_sizes, write_records
from whimbrel.ranks.clauses.clauses import RANGE, SET
from whimbrel.ranks.distinct import together

COARSE_BITS = 16
COARSE = (1 << COARSE_BITS) - 1
"""The largest rank of a reference."""
NUMBER_BITS = 10
NUMBER = (1 << NUMBER_BITS) - 1
"""The largest number of an attribute in a reference."""
RANGES = 3
REFERENCES = 1 << 31
"""The bit of a run's length that says that it is a run of references."""
IS_PRESENT = 7
"""The place in a line of `HashArrays.lines` that says that the key is the presence of an attribute."""


class HashArrays(NamedTuple):
    """The key shapes, the table, and the references."""

    attrs: Int32Matrix  # [shapes, 3]: the attributes of a shape, -1 for none; sorted by the first
    lines: Int64Matrix  # [shapes, 8]: what a probe reads of a shape, in one cache line; derived
    buckets: Int64s  # [A]: the factor of buckets of each attribute; derived
    base: Int64s  # [shapes]: the first key of a shape
    radix: Int64Matrix  # [shapes, 3]: what the code of each attribute is multiplied by
    factor: Int64Matrix  # [shapes, 3]: the factor of buckets, 0 where the code is the rank
    first: Int32s  # [A + 1]: the shapes that have an attribute as their first
    table: Int64Matrix  # [lines, 8]: see keys.py
    refs: Int64s  # the references
    targets: Int32Matrix  # [n, 3]
    shift: Int32s  # [A]: by how many bits references shorten the ranks of an attribute
    numbers: Int32s  # [A]: the number of an attribute in references


def _derived(arrays: Arrays) -> dict[str, np.ndarray]:
    attrs = arrays["hash_attrs"].astype(np.int64)
    lines = np.zeros((len(attrs), 8), np.int64)
    lines[:, 0], lines[:, 1:4] = arrays["hash_base"], arrays["hash_radix"]
    lines[:, 4:7] = np.where(attrs < 0, 0, 2 * attrs + 1 + (arrays["hash_factor"] != 0))  # places in `Scratch.codes`
    lines[:, IS_PRESENT] = arrays["hash_present"]
    return {"lines": lines, "buckets": bucket_factor(arrays["rank_base"][:, 4].astype(np.int64))}


HASH = KeyArrays(
    HashArrays,
    "hash_",
    derive=_derived,
)


class _Shapes(NamedTuple):
    """The key shapes, and for each conjunction its shape, the items of its key, and the number of its keys."""

    parts: Int64Matrix  # [s, 3]: 2 * attribute, + 1 by bucket; -1 for none
    present: Bools  # [s]: whether the key is the presence of the attribute
    shape: Int32s  # [m]
    items: Int64Matrix  # [m, 3]: sorted by part; -1 for none
    entries: Int64s  # [m]


class _Codes(NamedTuple):
    """How the codes of a shape's attributes become keys."""

    base: Int64s  # [s + 1]
    radix: Int64Matrix  # [s, 3]
    factor: Int64s  # [A]


def lay_out(plan: Plan) -> dict[str, np.ndarray]:
    """The arrays of the conjunctions with hash keys; appends their records to `plan.records`."""
    mine, keys, weights, rows = plan.of("hash", "present"), plan.keys, plan.weights, plan.rows
    attributes = len(plan.clauses.attributes)
    is_present = plan.kind[mine] == plan.kinds.index("present")
    factor = bucket_factor(weights.total)
    while True:
        shapes = _shapes(plan.items, mine, is_present, keys, factor)
        sizes, radix = _radixes(shapes.parts, shapes.present, weights.total)
        if sizes.astype(np.float64).sum() < 2.0**62:
            break
        keys[mine, 1:] = -1  # thousands of wide shapes do not fit into 64 bits: one attribute per key does
    codes = _Codes(np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]), radix, factor)
    bucketed = (shapes.parts >= 0) & (shapes.parts & 1 == 1)
    refers = bucketed.any(axis=1)  # a bucket does not prove its range
    refers[shapes.shape[shapes.entries > 1]] = True
    spread = refers[shapes.shape]
    first_key = np.empty(len(mine), np.int64)
    _fill_first_keys(shapes, plan.items, codes, first_key)

    items = shapes.items
    direct = make_groups(plan, mine[~spread], items[~spread], first_key[~spread], factor, keep_key=False)
    others = make_groups(plan, mine[spread], items[spread], first_key[spread], factor, keep_key=True)
    heads = np.flatnonzero(spread)[others.order[others.first[:-1]]]  # one conjunction of each group
    key = _all_keys(plan.items, heads, shapes, codes)
    first = np.concatenate([direct.first, len(direct.order) + others.first[1:]])
    item_start = np.concatenate([direct.item_start, direct.item_start[-1] + others.item_start[1:]])
    ends = np.cumsum(record_sizes(first, item_start))
    place = np.concatenate([np.zeros(1, np.int64), ends])
    shift, numbers = coarse_shifts(weights.total), _attribute_numbers(others, attributes)
    refs, targets = np.empty(others.size, np.int64), np.empty((others.size, RANGES), np.int32)
    _fill_references(
        others.first, others.item_start, others.items, items[heads], plan.items, rows[mine[spread][others.order]],
        place[direct.size : -1], shift, numbers, refs, targets,
    )  # fmt: skip
    order, _ = together(key)
    own = np.repeat(np.arange(others.size), shapes.entries[heads])[order]
    ordered = np.concatenate([mine[~spread][direct.order], mine[spread][others.order]])
    plan.records.append(write_records(first, item_start, np.concatenate([direct.items, others.items]), rows[ordered]))
    runs = [_runs(direct.key, place[: direct.size], 0), _runs(key[order], np.arange(len(key)), REFERENCES)]
    attrs = np.where(shapes.parts >= 0, shapes.parts >> 1, -1).astype(np.int32)
    by_first = np.argsort(attrs[:, 0], kind="stable").astype(np.int32)
    return {
        "hash_attrs": attrs[by_first],
        "hash_present": shapes.present[by_first].astype(np.uint8),
        "hash_base": codes.base[:-1][by_first],
        "hash_radix": radix[by_first],
        "hash_factor": np.where(bucketed, factor[np.maximum(attrs, 0)], 0)[by_first],
        "hash_first": np.searchsorted(attrs[by_first, 0], np.arange(attributes + 1)).astype(np.int32),
        "hash_table": make_table(*map(np.concatenate, zip(*runs, strict=True))),
        "hash_refs": refs[own],
        "hash_targets": targets[own],
        "hash_shift": shift,
        "hash_numbers": numbers,
    }


def _shapes(source: Items, mine: np.ndarray, is_present: np.ndarray, keys: np.ndarray, factor: np.ndarray) -> _Shapes:
    """The key shapes of these conjunctions, sorted by their codes."""
    made = _Shapes(
        np.empty((len(mine), 3), np.int64), is_present, np.empty(len(mine), np.int32),
        np.full((len(mine), 3), -1, np.int64), np.ones(len(mine), np.int64),
    )  # fmt: skip
    codes = np.empty(len(mine), np.int64)
    count = _fill_shapes(mine, keys, source, factor, made, codes)
    codes = codes[:count]
    order = np.argsort(codes)
    number = np.empty(len(codes), np.int32)
    number[order] = np.arange(len(codes))
    return _Shapes(made.parts[order], codes[order] < 0, number[made.shape], made.items, made.entries)


@kernel
def _fill_shapes(mine: Int64s, keys: Int64Matrix, source: Items, factor: Int64s, made: _Shapes, codes: Int64s) -> int:
    """Write `shape`, `items` and `entries` of each conjunction; number shapes as they come, and return how many.

    `made.present` says here which conjunctions have the presence of an attribute as their key.
    """
    _, attr, kind, low, high, set_start, _, _ = source
    parts, is_present, shape, items, entries = made
    table = np.zeros(256, np.int32)
    own = np.empty(3, np.int64)
    count = 0
    for c in range(mine.size):
        own[0] = own[1] = own[2] = -1
        if is_present[c]:
            own[0] = 2 * np.int64(attr[keys[mine[c], 0]])
        for i in range(0 if is_present[c] else 3):
            k = keys[mine[c], i]
            if k < 0:
                break
            a = np.int64(attr[k])
            part = 2 * a
            if kind[k] == SET:
                entries[c] *= set_start[low[k] + 1] - set_start[low[k]]
            elif low[k] < high[k]:
                entries[c] *= ((high[k] * factor[a]) >> 32) - ((low[k] * factor[a]) >> 32) + 1
                part += 1
            j = i
            while j > 0 and own[j - 1] > part:
                own[j], items[c, j] = own[j - 1], items[c, j - 1]
                j -= 1
            own[j], items[c, j] = part, k
        code = ((own[0] + 1) << 42) | ((own[1] + 1) << 21) | (own[2] + 1)
        code = -code if is_present[c] else code
        at = place_of(table, codes, code)
        if table[at] == 0:
            codes[count], parts[count, 0], parts[count, 1], parts[count, 2] = code, own[0], own[1], own[2]
            count += 1
            table[at] = count
        shape[c] = table[at] - 1
        if 3 * count > table.size:
            table = np.zeros(4 * table.size, np.int32)
            for number in range(count):
                table[place_of(table, codes, codes[number])] = number + 1
    return count


def _radixes(parts: np.ndarray, present: np.ndarray, total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per shape the number of keys, and the factor of each attribute's code in the key."""
    codes = total[np.maximum(parts >> 1, 0)]
    sizes = np.where(parts < 0, 1, np.where(parts & 1 == 1, np.minimum(codes, BUCKETS), codes))
    sizes[present] = 1
    radix = np.stack([sizes[:, 1] * sizes[:, 2], sizes[:, 2], np.ones(len(sizes), np.int64)], axis=1)
    radix[parts < 0] = 0
    radix[present] = 0
    return sizes.prod(axis=1), radix


@kernel
def _fill_first_keys(shapes: _Shapes, source: Items, codes: _Codes, key: Int64s) -> None:
    """Write the first key of every conjunction."""
    _, attr, kind, low, high, set_start, set_low, _ = source
    shape, items = shapes.shape, shapes.items
    base, radix, factor = codes
    for c in range(items.shape[0]):
        key[c] = base[shape[c]]
        for i in range(3):
            k = items[c, i]
            if k < 0:
                continue
            code = np.int64(low[k])
            if kind[k] == SET:
                code = np.int64(set_low[set_start[low[k]]])
            elif low[k] < high[k]:
                code = (low[k] * factor[attr[k]]) >> 32
            key[c] += code * radix[shape[c], i]


def _all_keys(source: Items, heads: np.ndarray, shapes: _Shapes, codes: _Codes) -> np.ndarray:
    """All keys of each group; `heads` has one conjunction of each."""
    entries = shapes.entries[heads]
    ends = np.cumsum(entries)
    key = np.empty(int(ends[-1]) if len(ends) else 0, np.int64)
    _fill_keys(np.argsort(heads), ends - entries, heads, shapes, source, codes, key)
    return key


@kernel
def _fill_keys(
    order: Int64s, start: Int64s, heads: Int64s, shapes: _Shapes, source: Items, all_codes: _Codes,
    key: Int64s,
) -> None:  # fmt: skip
    """Write the keys of each group from its start on. `order` visits groups as their items lie in memory."""
    _, attr, kind, low, high, set_start, set_low, _ = source
    shape, items = shapes.shape, shapes.items
    base, radix, factor = all_codes
    sizes, codes, sets = np.empty(3, np.int64), np.empty(3, np.int64), np.empty(3, np.int64)
    for g in order:
        c, at = heads[g], start[g]
        own = shape[c]
        for i in range(3):
            k = items[c, i]
            sizes[i], codes[i], sets[i] = 1, 0, -1
            if k < 0:
                continue
            codes[i] = low[k]
            if kind[k] == SET:
                sets[i] = set_start[low[k]]
                sizes[i] = set_start[low[k] + 1] - sets[i]
            elif low[k] < high[k]:
                f = factor[attr[k]]
                codes[i] = (low[k] * f) >> 32
                sizes[i] = ((high[k] * f) >> 32) - codes[i] + 1
        for z in range(sizes[2]):  # the first item's codes change first
            last = base[own] + (codes[2] + z if sets[2] < 0 else np.int64(set_low[sets[2] + z])) * radix[own, 2]
            for y in range(sizes[1]):
                both = last + (codes[1] + y if sets[1] < 0 else np.int64(set_low[sets[1] + y])) * radix[own, 1]
                for x in range(sizes[0]):
                    code = codes[0] + x if sets[0] < 0 else np.int64(set_low[sets[0] + x])
                    key[at] = both + code * radix[own, 0]
                    at += 1


def coarse_shifts(total: np.ndarray) -> np.ndarray:
    """By how many bits the ranks of each attribute are shortened to fit into the 16 bits of a coarse rank."""
    shift: np.ndarray = np.maximum(0, np.ceil(np.log2(np.maximum(1, total))).astype(np.int32) - COARSE_BITS)
    return shift


def _attribute_numbers(groups: Groups, attributes: int) -> np.ndarray:
    """Number attributes for references, from 1 on, the most used first; those beyond NUMBER all get NUMBER + 1."""
    used = np.bincount(groups.items[:, 0] & ATTR_MASK, minlength=attributes)
    order = np.argsort(-used, kind="stable") if attributes > NUMBER else np.arange(attributes)
    numbers = np.full(attributes, NUMBER + 1, np.int32)
    numbers[order[:NUMBER]] = np.arange(1, min(attributes, NUMBER) + 1)
    return numbers


@kernel
def _fill_references(
    first: Int32s, item_start: Int32s, items: Int32Matrix, keys: Int64Matrix, source: Items, rows: Int32s,
    place: Int64s, shift: Int32s, numbers: Int32s, refs: Int64s, targets: Int32Matrix,
) -> None:  # fmt: skip
    """Write `refs` and `targets` of groups.

    `first`, `item_start` and `items` are those of `Groups`; `keys` has the items of each group's key, `rows` the row of
    each conjunction, `place` the place of each group's record.
    """
    _, attr, kinds, lows, highs, set_start, set_low, set_high = source
    spans = np.empty(RANGES, np.int64)
    proven = np.empty((keys.shape[1], 3), np.int32)
    for g in range(refs.size):
        if g + SOON < refs.size and keys[g + SOON, 0] >= 0:
            soon = keys[g + SOON, 0]
            prefetch(attr, soon)
            prefetch(kinds, soon)
            prefetch(lows, soon)
            prefetch(highs, soon)
        count = 0  # the items that the key proves: equalities, and an IN with a key for each member
        for i in range(keys.shape[1]):
            k = keys[g, i]
            if k >= 0 and (kinds[k] == SET or lows[k] == highs[k]):
                proven[count, 0] = attr[k] | (np.int32(kinds[k]) << KIND_SHIFT)
                proven[count, 1], proven[count, 2] = lows[k], highs[k]
                count += 1
        used = np.int64(0)
        spans[:] = np.int64(COARSE) << COARSE_BITS  # from 0 on, and as wide as can be
        n = 0
        decides = first[g + 1] - first[g] == 1 and rows[first[g]] & SHARED_BIT == 0
        for k in range(item_start[g], item_start[g + 1]):
            packed, low, high = items[k, 0], items[k, 1], items[k, 2]
            is_proven = False
            for i in range(count):
                is_proven |= packed == proven[i, 0] and low == proven[i, 1] and high == proven[i, 2]
            if is_proven:
                continue
            kind, a = packed >> KIND_SHIFT, packed & ATTR_MASK
            if n == RANGES or kind > SET or numbers[a] > NUMBER:
                decides = False
                continue
            if kind == SET:
                low, high = set_low[set_start[low]], set_high[set_start[low + 1] - 1]
            start, end = low >> shift[a], high >> shift[a]
            decides &= kind == RANGE and start << shift[a] == low and ((end + 1) << shift[a]) - 1 == high
            used |= np.int64(numbers[a]) << (NUMBER_BITS * n)
            spans[n] = start | (np.int64(end - start) << COARSE_BITS)
            n += 1
        refs[g] = used | (spans[0] << 32)
        targets[g, 0] = ~rows[first[g]] if decides else place[g]
        targets[g, 1], targets[g, 2] = spans[1], spans[2]


def _runs(key: np.ndarray, place: np.ndarray, flag: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct keys of an array in which equal keys are adjacent, and the run of each: start, length and flag."""
    starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(key)), bool), key[1:] != key[:-1]]))
    lengths = np.diff(np.append(starts, len(key)))
    return key[starts], (place[starts] << 32) | lengths | flag
