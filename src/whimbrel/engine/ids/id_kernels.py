"""The kernels of the id table: hash, find, enter, take.

The hash table is an int32 array: 0 is free, -1 was removed, n is entry n - 1. It is never more than 60 % full, so that
linear probing ends. Its capacity is any number: the high half of a seeded 64-bit hash is scaled to it.
The seed is secret, so that nobody can choose ids that collide.

A search that runs beside the writer skips entries beyond its arrays. Kernels for one id keep the GIL: releasing it
costs a writer among busy readers a turn of 5 ms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whimbrel.compiled.array_types import Bytes, Int32s, Int64s, Integers
from whimbrel.compiled.helpers import Integer
from whimbrel.compiled.jit import helper, kernel, quick_kernel

PLACE_SHIFT = 32
"""Bits of an entry in what a search returns; the place is above them."""


@helper
def home_place(key: Any, capacity: int) -> Any:
    """Where the search for a key starts: a SplitMix64 finaliser, scaled to the capacity."""
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    key ^= key >> np.uint64(31)
    return np.int64(((key >> np.uint64(32)) * np.uint64(capacity)) >> np.uint64(32))


@helper
def _is_dead(dead: Bytes, row: Any) -> bool:
    return bool((dead[row >> 3] >> (row & 7)) & 1)


@quick_kernel
def find_int(ids: Int64s, table: Int32s, seed: int, id: Any) -> Any:
    """The entry of an id, and above PLACE_SHIFT bits its place in the hash table; or -1.

    It is one number, because a change beside the search may give the place to another id.
    """
    at = home_place(np.uint64(id) ^ np.uint64(seed), table.size)
    while table[at] != 0:
        entry = np.int64(table[at]) - 1
        if 0 <= entry < ids.size and ids[entry] == id:
            return (at << PLACE_SHIFT) | entry
        at = at + 1 if at + 1 < table.size else 0
    return -1


@quick_kernel
def enter_ints(ids: Int64s, table: Int32s, dead: Bytes, dense: int, base: int, seed: int, first: int, stop: int) -> int:
    """Put the live entries from `first` to `stop` into the table. Return -1, or a duplicate: then none is in it."""
    for entry in range(first, stop):
        if _is_dead(dead, dense + entry):
            continue
        id = ids[entry]
        delta = np.uint64(id) - np.uint64(base)  # unsigned: signed overflow is undefined
        taken = delta < np.uint64(dense) and not _is_dead(dead, np.int64(delta))
        at = home_place(np.uint64(id) ^ np.uint64(seed), table.size)
        removed = -1
        while table[at] != 0 and not taken:
            other = table[at] - 1
            if other < 0:
                removed = at if removed < 0 else removed
            elif ids[other] == id:
                taken = True
            at = at + 1 if at + 1 < table.size else 0
        if taken:
            for undone in range(first, entry):
                table[find_int(ids, table, seed, ids[undone]) >> PLACE_SHIFT] = -1
            return entry
        table[at if removed < 0 else removed] = entry + 1
    return -1


@kernel
def enter_many_ints(
    ids: Int64s, table: Int32s, dead: Bytes, dense: int, base: int, seed: int, first: int, stop: int
) -> int:
    """`enter_ints` without the GIL."""
    return enter_ints(ids, table, dead, dense, base, seed, first, stop)


@kernel
def take_ints(ids: Int64s, dense: int, base: int, rows: Integers) -> Int64s:
    """The ids of rows."""
    out = np.empty(rows.size, np.int64)
    for i in range(rows.size):
        out[i] = base + rows[i] if rows[i] < dense else ids[rows[i] - dense]
    return out


@quick_kernel
def hash_text(text: Any, start: int, stop: int, seed: int) -> Any:
    """FNV-1a, 64 bits, from a secret start."""
    h = np.uint64(0xCBF29CE484222325) ^ np.uint64(seed)
    for i in range(start, stop):
        h = (h ^ np.uint64(text[i])) * np.uint64(0x100000001B3)
    return h


@helper
def is_same_text(text: Bytes, offsets: Int64s, entry: Integer, other: Any, start: int, stop: int) -> bool:
    """Whether the text of an entry is `other[start:stop]`."""
    if not 0 <= entry < offsets.size - 1 or offsets[entry + 1] - offsets[entry] != stop - start:
        return False
    at = start
    while at < stop and text[offsets[entry] + at - start] == other[at]:
        at += 1
    return at == stop


@quick_kernel
def find_string(text: Bytes, offsets: Int64s, table: Int32s, seed: int, id: Any) -> Any:
    """The entry of an id, as UTF-8, and its place, as `find_int` returns them; or -1."""
    at = home_place(hash_text(id, 0, len(id), seed), table.size)
    while table[at] != 0:
        entry = np.int64(table[at]) - 1
        if is_same_text(text, offsets, entry, id, 0, len(id)):
            return (at << PLACE_SHIFT) | entry
        at = at + 1 if at + 1 < table.size else 0
    return -1


@quick_kernel
def enter_strings(text: Bytes, offsets: Int64s, table: Int32s, dead: Bytes, seed: int, first: int, stop: int) -> int:
    """Put the live entries from `first` to `stop` into the table. Return -1, or a duplicate: then none is in it."""
    for entry in range(first, stop):
        if _is_dead(dead, entry):
            continue
        start, end = offsets[entry], offsets[entry + 1]
        at = home_place(hash_text(text, start, end, seed), table.size)
        removed, taken = -1, False
        while table[at] != 0 and not taken:
            if table[at] < 0:
                removed = at if removed < 0 else removed
            elif is_same_text(text, offsets, table[at] - 1, text, start, end):
                taken = True
            at = at + 1 if at + 1 < table.size else 0
        if taken:
            for undone in range(first, entry):
                found = find_string(text, offsets, table, seed, text[offsets[undone] : offsets[undone + 1]])
                table[found >> PLACE_SHIFT] = -1
            return entry
        table[at if removed < 0 else removed] = entry + 1
    return -1


@kernel
def enter_many_strings(
    text: Bytes, offsets: Int64s, table: Int32s, dead: Bytes, seed: int, first: int, stop: int
) -> int:
    """`enter_strings` without the GIL."""
    return enter_strings(text, offsets, table, dead, seed, first, stop)


@kernel
def gather(text: Bytes, offsets: Int64s, rows: Integers, points: bool) -> tuple[Bytes, Int64s]:
    """The texts of rows one after another, and where each starts, counted in bytes or in code points."""
    sources = np.empty(rows.size, np.int64)  # a separate pass: these reads do not wait for each other
    starts = np.zeros(rows.size + 1, np.int64)
    for i in range(rows.size):
        sources[i] = offsets[rows[i]]
        starts[i + 1] = starts[i] + offsets[rows[i] + 1] - sources[i]
    out = np.empty(starts[-1], np.uint8)
    for i in range(rows.size):
        source = sources[i] - starts[i]
        for j in range(starts[i], starts[i + 1]):
            out[j] = text[source + j]
    if points:
        following, at = 0, 0
        for i in range(rows.size):
            while at < starts[i + 1]:
                following += (out[at] & 0xC0) == 0x80  # a byte inside a code point
                at += 1
            starts[i + 1] -= following
    return out, starts
