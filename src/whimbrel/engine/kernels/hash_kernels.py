"""Matching an event against the hash keys of a segment: probe the keys it has, visit the records that they lead to."""

from __future__ import annotations

import numba
import numpy as np

from whimbrel.engine.compiled.intrinsics import copy, prefetch
from whimbrel.engine.compiled.jit import helper
from whimbrel.engine.kernels.item_kernels import NO_ITEM, holds, in_set
from whimbrel.engine.planner.hashed import IS_PRESENT, REFERENCES, probe_start
from whimbrel.engine.planner.packing import ATTR_MASK, KIND_SHIFT, SHARED_BIT, SLOT_MASK, VERIFY_BIT
from whimbrel.engine.planner.records import COUNT, HEAD
from whimbrel.engine.planner.references import COARSE

COPIED = 8
"""More slots than so many are copied as a whole."""


@helper
def _find(table, mask, key):  # type: ignore[no-untyped-def]
    at = probe_start(key, mask)
    while True:
        found = table[at, 0]
        if found == key:
            return table[at, 1]
        if found < 0:
            return np.int64(0)
        at = (at + 1) & mask


@helper
def _count_values(v, attrs, end):  # type: ignore[no-untyped-def]
    """How many values an attribute has whose value is not missing."""
    first = i = -2 - v
    if v >= 0:
        return 1
    while i < end and attrs[i] == attrs[first]:
        i += 1
    return i - first


@numba.njit(inline="always")
def _code(rank, factor):  # type: ignore[no-untyped-def]
    return (rank * factor) >> 32 if factor else np.int64(rank)


@helper
def _sorted_codes(v, factor, attrs, ranks, end):  # type: ignore[no-untyped-def]
    codes = np.empty(_count_values(v, attrs, end), np.int64)
    for i in range(codes.size):
        codes[i] = _code(ranks[-2 - v + i] if v < 0 else v, factor)
    gap = codes.size >> 1
    while gap:  # Shell's sort: NumPy's would double the time that compiling takes
        for i in range(gap, codes.size):
            code, j = codes[i], i
            while j >= gap and codes[j - gap] > code:
                codes[j] = codes[j - gap]
                j -= gap
            codes[j] = code
        gap = 1 if gap == 2 else (5 * gap) // 11
    return codes


@helper
def _is_among(codes, code):  # type: ignore[no-untyped-def]
    low, high = 0, codes.size
    while low < high:
        middle = (low + high) >> 1
        if codes[middle] < code:
            low = middle + 1
        else:
            high = middle
    return low < codes.size and codes[low] == code


@helper
def _known_keys(table, base, radix, values0, values1, values2, run, n):  # type: ignore[no-untyped-def]
    """Appends all keys of a schema whose codes are among the values: their number, or -1 without room."""
    for at in range(table.shape[0]):
        rest = table[at, 0] - base
        if rest < 0:
            continue
        good = True
        for values, factor in ((values0, radix[0]), (values1, radix[1]), (values2, radix[2])):
            if factor == 0:
                continue
            rank = rest // factor
            rest -= rank * factor
            good &= _is_among(values, rank)
        if good and rest == 0:
            if n == run.size:
                return -1
            run[n] = table[at, 0]
            n += 1
    return n


@helper
def _keys_of_several(table, schema, s, value, attrs, ranks, end, run, n):  # type: ignore[no-untyped-def]
    """Appends the keys of a schema for an event with several values: their number, or -1 without room."""
    hash_attrs, bases, radix, factor = schema
    a, b, c = hash_attrs[s, 0], hash_attrs[s, 1], hash_attrs[s, 2]
    v0, v1, v2 = value[a], value[b] if b >= 0 else np.int32(0), value[c] if c >= 0 else np.int32(0)
    combinations = _count_values(v0, attrs, end) * _count_values(v1, attrs, end) * _count_values(v2, attrs, end)
    if combinations >= table.shape[0]:  # long lists: rather ask for every key whether the event has it
        return _known_keys(
            table, bases[s], radix[s], _sorted_codes(v0, factor[s, 0], attrs, ranks, end),
            _sorted_codes(v1, factor[s, 1], attrs, ranks, end), _sorted_codes(v2, factor[s, 2], attrs, ranks, end),
            run, n,
        )  # fmt: skip
    if n + combinations > run.size:
        return -1
    i = -2 - v0 if v0 < 0 else -1
    while True:
        r0 = _code(ranks[i] if i >= 0 else v0, factor[s, 0])
        j = -2 - v1 if v1 < 0 else -1
        while True:
            r1 = _code(ranks[j] if j >= 0 else v1, factor[s, 1])
            k = -2 - v2 if v2 < 0 else -1
            while True:
                r2 = _code(ranks[k] if k >= 0 else v2, factor[s, 2])
                run[n] = bases[s] + r0 * radix[s, 0] + r1 * radix[s, 1] + r2 * radix[s, 2]
                n += 1
                k += 1
                if k == 0 or k >= end or attrs[k] != c:
                    break
            j += 1
            if j == 0 or j >= end or attrs[j] != b:
                break
        i += 1
        if i == 0 or i >= end or attrs[i] != a:
            break
    return n


@helper
def probe(schemas, table, records, refs, attrs, ranks, end, value, codes, present, count, run, counts):  # type: ignore[no-untyped-def]
    """Looks up every hash key that the event has: the number of runs of entries found, now in `run`.

    First all keys, each with a hint to bring its place in the table into the cache; then all look-ups.
    """
    first, lines, schema = schemas
    n = np.int64(0)
    mask = table.shape[0] - 1
    for x in range(count):
        a = present[x]
        for s in range(first[a], first[a + 1]):
            c0, c1, c2 = codes[lines[s, 4]], codes[lines[s, 5]], codes[lines[s, 6]]
            if (c0 | c1 | c2) < 0:
                if c0 == -1 or c1 == -1 or c2 == -1:
                    continue
                if not lines[s, IS_PRESENT]:
                    n = _keys_of_several(table, schema, s, value, attrs, ranks, end, run, n)
                    if n < 0:
                        return -1
                    continue
            if n == run.size:
                return -1
            key = lines[s, 0] + c0 * lines[s, 1] + c1 * lines[s, 2] + c2 * lines[s, 3]
            prefetch(table, probe_start(key, mask) * 2)  # type: ignore[call-arg]
            run[n] = key
            n += 1
    counts[1] += n
    hits = 0
    for i in range(n):
        found = _find(table, mask, run[i])
        if found != 0:
            run[hits] = found
            hits += 1
            if found & REFERENCES:
                prefetch(refs, (found >> 32) * 4)  # type: ignore[call-arg]
            else:
                prefetch(records, found >> 32)  # type: ignore[call-arg]
    return hits


@helper
def emit(packed, several, stamp, epoch, out, n):  # type: ignore[no-untyped-def]
    """Appends a slot, once per event where it could come twice; the new length, or -1 without room."""
    if several or packed & SHARED_BIT:
        slot = packed & SLOT_MASK
        if stamp[slot] == epoch:
            return n
        stamp[slot] = epoch
    if n >= out.size:
        return -1
    out[n] = packed & (SLOT_MASK | VERIFY_BIT)
    return n + 1


@helper
def sift(refs, listed, count, coarse):  # type: ignore[no-untyped-def]
    """Of references that the first range of each admits, keeps the records whose second range does: their number."""
    kept = 0
    for x in range(count):
        i = listed[x]
        c = coarse[(refs[i, 1] >> 16) & COARSE]
        low = refs[i, 3] & COARSE
        listed[kept] = refs[i, 0]
        kept += ((low <= c) & (c - low <= (refs[i, 3] >> 16) & COARSE)) | (c < -1)
    return kept


@helper
def visit(records, listed, start, count, context, end, several, epoch, out, n):  # type: ignore[no-untyped-def]
    """Appends the slots of records whose items hold: of `count` from `start` on, or of those listed if it is -1."""
    sets, value, attrs, ranks, stamp = context
    at = np.int64(start)
    if start < 0:
        for x in range(count):
            prefetch(records, np.int64(listed[x]))  # type: ignore[call-arg]
            prefetch(records, np.int64(listed[x]) + 16)
    for x in range(count):
        if start < 0:
            at = np.int64(listed[x])
        items = at + HEAD
        slots = items + 3 * records[at]
        size = records[at + 1] & COUNT
        plain = size > COPIED and size != records[at + 1] and not several
        at = last = slots + size
        good = True
        for k in range(items, slots, 3):
            packed, low, high = records[k], records[k + 1], records[k + 2]
            v = value[packed & ATTR_MASK]
            if packed <= ATTR_MASK and v >= -1:  # a range and at most one value: the common case, in line
                if low <= v <= high:
                    continue
            elif packed < NO_ITEM and v >= -1:
                if v >= 0 and (high >> ((v >> 1) & 31)) & 1 == 1 and in_set(sets, low, v):
                    continue
            elif holds(sets, packed >> KIND_SHIFT, low, high, v, attrs, ranks, end):
                continue
            good = False
            break
        if not good:
            continue
        if n + size > out.size:
            return -1
        if plain:
            copy(records, np.int64(slots), np.int64(size), out, np.int64(n))  # type: ignore[call-arg]
            n += size
            continue
        for t in range(slots, last):
            packed = records[t]
            if several or packed & SHARED_BIT:
                n = emit(packed, several, stamp, epoch, out, n)
            else:
                out[n] = packed
                n += 1
    return n
