"""The hash keys of a segment: one open-addressing table of exact 64-bit keys, and what stands under each.

A key is base + the codes of its attributes in mixed radix; a code is a rank or, for a range, a bucket of ranks. Under a
key stands a run of *groups*: conjunctions with the same residual items, which the key does not prove. Where a schema
has conjunctions with several keys (IN, ranges), its groups have all of their items, and under the key stands a run of
*references* to groups, each with three ranges that most events fail or that decide: most groups are never visited.
Groups are laid out as `records`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from whimbrel.compiled.jit import kernel
from whimbrel.engine.access.hash.candidates import BUCKETS, bucket_factor, place_of
from whimbrel.engine.access.hash.references import attribute_numbers, coarse_shifts, group_references
from whimbrel.engine.access.hash.table import make_table
from whimbrel.engine.access.planner import HASH, PRESENT, Plan
from whimbrel.engine.access.shared.groups import make_groups
from whimbrel.engine.access.shared.records import record_sizes, write_records
from whimbrel.engine.access.shared.weights import Weights
from whimbrel.ranks.clauses.clauses import SET, Clauses
from whimbrel.ranks.distinct import together

REFERENCES = 1 << 31
"""The bit of a run's length that says that it is a run of references."""

IS_PRESENT = 7
"""Where a line says that its key is the presence of an attribute."""

Arrays = dict[str, np.ndarray]


def hash_arrays(clauses: Clauses, plan: Plan, slot: np.ndarray, shares: np.ndarray, weights: Weights) -> Arrays:
    """The hash_* arrays of a segment."""
    mine = np.flatnonzero((plan.kind == HASH) | (plan.kind == PRESENT))
    is_present = plan.kind[mine] == PRESENT
    factor = bucket_factor(weights.total)
    while True:
        schema_parts, schema_present, schema, items, entries = _schemas(mine, plan.keys, is_present, clauses, factor)
        sizes, radix = _radixes(schema_parts, schema_present, weights.total)
        if sizes.astype(np.float64).sum() < 2.0**62:
            break
        plan.keys[:, 1:] = -1  # thousands of wide schemas: one attribute per key
    base = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    bucketed = (schema_parts >= 0) & (schema_parts & 1 == 1)
    refers = bucketed.any(axis=1)  # a bucket does not prove its range
    refers[schema[entries > 1]] = True
    spread = refers[schema]
    start_key = _start_keys(items, schema, base, radix, clauses, factor)

    direct = make_groups(clauses, mine[~spread], items[~spread], start_key[~spread], shares, factor, keep_key=False)
    others = make_groups(clauses, mine[spread], items[spread], start_key[spread], shares, factor, keep_key=True)
    heads = np.flatnonzero(spread)[others.order[others.first[:-1]]]  # one conjunction of each group
    key = _keys(clauses, heads, items, schema, entries, base, radix, factor)
    first = np.concatenate([direct.first, len(direct.order) + others.first[1:]])
    item_start = np.concatenate([direct.item_start, direct.item_start[-1] + others.item_start[1:]])
    ends = np.cumsum(record_sizes(first, item_start))
    place = np.concatenate([np.zeros(1, np.int64), ends])
    shift, numbers = coarse_shifts(weights.total), attribute_numbers(others, len(clauses.attributes))
    refs, targets = group_references(
        others, clauses, items[heads], slot[mine[spread][others.order]], place[direct.count : -1], shift, numbers
    )
    order, _ = together(key)
    own = np.repeat(np.arange(others.count), entries[heads])[order]
    table = _table(direct.key, place[: direct.count], key[order])
    attrs = np.where(schema_parts >= 0, schema_parts >> 1, -1).astype(np.int32)
    by_first = np.argsort(attrs[:, 0], kind="stable").astype(np.int32)
    return {
        "hash_attrs": attrs[by_first],
        "hash_present": schema_present[by_first].astype(np.uint8),
        "hash_base": base[:-1][by_first],
        "hash_radix": radix[by_first],
        "hash_factor": np.where(bucketed, factor[np.maximum(attrs, 0)], 0)[by_first],
        "hash_first": np.searchsorted(attrs[by_first, 0], np.arange(len(clauses.attributes) + 1)).astype(np.int32),
        "hash_table": table,
        "hash_refs": refs[own],
        "hash_targets": targets[own],
        "hash_shift": shift,
        "hash_numbers": numbers,
        "hash_records": write_records(
            first,
            item_start,
            np.concatenate([direct.items, others.items]),
            slot[np.concatenate([mine[~spread][direct.order], mine[spread][others.order]])],
        ),
    }


def schema_lines(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Per schema a cache line: its base, three factors, where their codes are among those of an event, and its kind."""
    attrs = arrays["hash_attrs"].astype(np.int64)
    lines = np.zeros((len(attrs), 8), np.int64)
    lines[:, 0], lines[:, 1:4] = arrays["hash_base"], arrays["hash_radix"]
    lines[:, 4:7] = np.where(attrs < 0, 0, 2 * attrs + 1 + (arrays["hash_factor"] != 0))
    lines[:, IS_PRESENT] = arrays["hash_present"]
    return lines


def _schemas(
    mine: np.ndarray, keys: np.ndarray, is_present: np.ndarray, clauses: Clauses, factor: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The parts of every schema, and whether it is of presence; per conjunction its schema, its key's items, and how
    many keys it has."""
    items = np.full((len(mine), 3), -1, np.int64)
    entries = np.ones(len(mine), np.int64)
    schema = np.empty(len(mine), np.int32)
    codes, parts = np.empty(len(mine), np.int64), np.empty((len(mine), 3), np.int64)
    count = _fill_schemas(
        mine, keys, is_present, clauses.attr, clauses.kind, clauses.low, clauses.high, clauses.set_start, factor,
        items, entries, schema, codes, parts,
    )  # fmt: skip
    codes, parts = codes[:count], parts[:count]
    order = np.argsort(codes)
    number = np.empty(len(codes), np.int32)
    number[order] = np.arange(len(codes))
    return parts[order], codes[order] < 0, number[schema], items, entries


@kernel
def _fill_schemas(  # type: ignore[no-untyped-def]
    mine, keys, is_present, attr, kind, low, high, set_start, factor, items, entries, schema, codes, parts
):
    """Per conjunction the items of its key, sorted by (attribute, by bucket or not), how many keys, and its schema.

    Schemas are numbered as they come: the code and the parts of each, and how many there are.
    """
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
        schema[c] = table[at] - 1
        if 3 * count > table.size:
            table = np.zeros(4 * table.size, np.int32)
            for number in range(count):
                table[place_of(table, codes, codes[number])] = number + 1
    return count


def _start_keys(
    items: np.ndarray, schema: np.ndarray, base: np.ndarray, radix: np.ndarray, clauses: Clauses, factor: np.ndarray
) -> np.ndarray:
    """The first key of every conjunction."""
    key = np.empty(len(items), np.int64)
    _fill_start_keys(
        items, schema, base, radix, clauses.attr, clauses.kind, clauses.low, clauses.high, clauses.set_start,
        clauses.set_low, factor, key,
    )  # fmt: skip
    return key


@kernel
def _fill_start_keys(items, schema, base, radix, attr, kind, low, high, set_start, set_low, factor, key):  # type: ignore[no-untyped-def]
    for c in range(items.shape[0]):
        key[c] = base[schema[c]]
        for i in range(3):
            k = items[c, i]
            if k < 0:
                continue
            code = np.int64(low[k])
            if kind[k] == SET:
                code = np.int64(set_low[set_start[low[k]]])
            elif low[k] < high[k]:
                code = (low[k] * factor[attr[k]]) >> 32
            key[c] += code * radix[schema[c], i]


def _radixes(parts: np.ndarray, present: np.ndarray, total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per schema the number of keys, and the factor of each attribute's code in the key."""
    codes = total[np.maximum(parts >> 1, 0)]
    sizes = np.where(parts < 0, 1, np.where(parts & 1 == 1, np.minimum(codes, BUCKETS), codes))
    sizes[present] = 1
    radix = np.stack([sizes[:, 1] * sizes[:, 2], sizes[:, 2], np.ones(len(sizes), np.int64)], axis=1)
    radix[parts < 0] = 0
    radix[present] = 0
    return sizes.prod(axis=1), radix


def _keys(
    clauses: Clauses, heads: np.ndarray, items: np.ndarray, schema: np.ndarray, entries: np.ndarray, base: np.ndarray,
    radix: np.ndarray, factor: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """All keys of each group, given by one conjunction of it."""
    ends = np.cumsum(entries[heads])
    key = np.empty(int(ends[-1]) if len(ends) else 0, np.int64)
    _fill_keys(
        np.argsort(heads), ends - entries[heads], heads, items, schema, base, radix, clauses.attr, clauses.kind,
        clauses.low, clauses.high, clauses.set_start, clauses.set_low, factor, key,
    )  # fmt: skip
    return key


@kernel
def _fill_keys(  # type: ignore[no-untyped-def]
    order, start, heads, items, schema, base, radix, attr, kind, low, high, set_start, set_low, factor, key
):
    """Writes the keys of each group from its start on; in the order of conjunctions, as their items lie."""
    sizes, codes, sets = np.empty(3, np.int64), np.empty(3, np.int64), np.empty(3, np.int64)
    for g in order:
        c, at = heads[g], start[g]
        own = schema[c]
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


def _table(direct: np.ndarray, place: np.ndarray, references: np.ndarray) -> np.ndarray:
    """The table: per key the start of its run, a record or a reference, and its length; equal keys come together."""
    runs = [_runs(direct, place, 0), _runs(references, np.arange(len(references)), REFERENCES)]
    return make_table(*(np.concatenate([run[i] for run in runs]) for i in (0, 1)))


def _runs(key: np.ndarray, place: np.ndarray, flag: int) -> tuple[np.ndarray, np.ndarray]:
    starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(key)), bool), key[1:] != key[:-1]]))
    lengths = np.diff(np.append(starts, len(key)))
    return key[starts], (place[starts] << 32) | lengths | flag
