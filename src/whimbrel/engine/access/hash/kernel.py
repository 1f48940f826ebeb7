"""Matching an event against the hash keys of a segment: probe the keys it has, visit the records that they lead to."""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.helpers import lower_bound
from whimbrel.compiled.intrinsics import copy, prefetch
from whimbrel.compiled.jit import expanded, helper
from whimbrel.engine.access.hash.layout import IS_PRESENT
from whimbrel.engine.access.hash.table import LINE, find, line_of
from whimbrel.engine.access.shared.items import NO_ITEM, holds, in_set
from whimbrel.engine.access.shared.packing import ATTR_MASK, KIND_SHIFT, SHARED_BIT, SLOT_MASK, VERIFY_BIT
from whimbrel.engine.access.shared.records import COUNT, HEAD

COPIED = 8
"""More slots than so many are copied as a whole."""
_AHEAD = 16
"""How many look-ups and visits before its own the cache is asked for a line."""


@helper
def _count_values(v, attrs, end):  # type: ignore[no-untyped-def]
    """How many values an attribute has whose value is not missing."""
    first = i = -2 - v
    if v >= 0:
        return 1
    while i < end and attrs[i] == attrs[first]:
        i += 1
    return i - first


@expanded
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
    place = lower_bound(codes, 0, codes.size, code)
    return place < codes.size and codes[place] == code


@helper
def _known_keys(table, base, radix, values0, values1, values2, run, n):  # type: ignore[no-untyped-def]
    """Appends all keys of a schema whose codes are among the values: their number, or -1 without room."""
    for at in range(table.shape[0] * LINE):
        key = table[at // LINE, at % LINE]
        rest = key - base
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
            run[n] = key
            n += 1
    return n


@helper
def _keys_of_several(table, schema, s, value, attrs, ranks, end, run, n):  # type: ignore[no-untyped-def]
    """Appends the keys of a schema for an event with several values: their number, or -1 without room."""
    hash_attrs, bases, radix, factor = schema
    a, b, c = hash_attrs[s, 0], hash_attrs[s, 1], hash_attrs[s, 2]
    v0, v1, v2 = value[a], value[b] if b >= 0 else np.int32(0), value[c] if c >= 0 else np.int32(0)
    combinations = _count_values(v0, attrs, end) * _count_values(v1, attrs, end) * _count_values(v2, attrs, end)
    if combinations >= table.size:  # long lists: rather ask for every key whether the event has it
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
def probe(schemas, table, attrs, ranks, end, value, codes, several, present, count, run, counts):  # type: ignore[no-untyped-def]
    """Looks up every hash key that the event has: the number of runs found, now in `run`, or -1 without room.

    First all keys, then all look-ups, with hints to bring the lines of those to come into the cache. Neither has a
    branch on what an event has or a filter wants.
    """
    first, schema_lines, schema = schemas
    n = np.int64(0)
    for x in range(count):
        a = present[x]
        if n + first[a + 1] - first[a] > run.size:
            return -1
        for s in range(first[a], first[a + 1]):
            u = np.uint64(s)  # an index that cannot be negative is not asked whether it is
            c0 = codes[np.uint64(schema_lines[u, 4])]
            c1 = codes[np.uint64(schema_lines[u, 5])]
            c2 = codes[np.uint64(schema_lines[u, 6])]
            missing = (c0 | c1 | c2) < 0
            if several and missing:
                if c0 == -1 or c1 == -1 or c2 == -1:
                    continue
                if not schema_lines[u, IS_PRESENT]:
                    n = _keys_of_several(table, schema, s, value, attrs, ranks, end, run, n)
                    if n < 0 or n + first[a + 1] - s > run.size:
                        return -1
                    continue
                missing = False
            run[np.uint64(n)] = schema_lines[u, 0] + c0 * schema_lines[u, 1] + c1 * schema_lines[u, 2] + c2
            n += not missing
    counts[1] += n
    lines = table.shape[0]
    for i in range(_AHEAD if n > _AHEAD else n):
        prefetch(table, np.int64(line_of(run[i], lines)) * 2 * LINE)  # type: ignore[call-arg]
    hits = np.int64(0)
    for i in range(n):
        if i + _AHEAD < n:
            prefetch(table, np.int64(line_of(run[i + _AHEAD], lines)) * 2 * LINE)  # type: ignore[call-arg]
        found = find(table, run[i])
        run[np.uint64(hits)] = found
        hits += found != 0
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
def visit(records, listed, start, count, context, end, several, epoch, out, n):  # type: ignore[no-untyped-def]
    """Appends the slots of records whose items hold: of `count` from `start` on, or of those listed if it is -1."""
    sets, value, attrs, ranks, stamp = context
    at = np.int64(start)
    for x in range(min(count, _AHEAD) if start < 0 else 0):
        prefetch(records, np.int64(listed[x]))  # type: ignore[call-arg]
        prefetch(records, np.int64(listed[x]) + 16)
    for x in range(count):
        if start < 0:
            at = np.int64(listed[x])
            if x + _AHEAD < count:
                prefetch(records, np.int64(listed[x + _AHEAD]))  # type: ignore[call-arg]
                prefetch(records, np.int64(listed[x + _AHEAD]) + 16)
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
