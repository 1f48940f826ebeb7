"""Equal bytes get equal numbers: the skeletons of predicates as they are met, and the strings of many texts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.helpers import load_word, shared
from whimbrel.compiled.jit import helper, inlined, kernel

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF, _BYTE = np.uint64(32), np.uint64(8)


class SkeletonPool(NamedTuple):
    """The different skeletons that were met: skeleton c is `data[starts[c]:starts[c + 1]]`.

    `table` finds them by hash, with open addressing: an entry is c + 1, and 0 is empty.
    """

    data: np.ndarray
    starts: np.ndarray
    table: np.ndarray


@helper
def _hash(data: np.ndarray, start: int, end: int) -> np.int64:  # pragma: no cover
    """The hash of some bytes: eight at a time, then the rest."""
    h = np.uint64(end - start)
    while start + 8 <= end:
        h = (h ^ load_word(data, start)) * _FACTOR
        h ^= h >> _HALF
        start += 8
    rest = np.uint64(0)
    while start < end:
        rest = (rest << _BYTE) | np.uint64(data[start])
        start += 1
    h = (h ^ rest) * _FACTOR
    return np.int64((h ^ (h >> _HALF)) & np.uint64(0x7FFFFFFF))


@inlined
def skeleton_number(rest: np.ndarray, size: int, pool: SkeletonPool, known: int) -> np.int64:  # pragma: no cover
    """The number of a skeleton in the pool, which becomes the next number if it is new; -1 if the pool is full."""
    mask = pool.table.size - 1
    slot = _hash(rest, 0, size) & mask
    while pool.table[slot] != 0:
        code = pool.table[slot] - 1
        start = pool.starts[code]
        if pool.starts[code + 1] - start == size and shared(pool.data, start, rest, 0, size) == size:
            return np.int64(code)
        slot = (slot + 1) & mask
    start = pool.starts[known]
    if known + 1 >= pool.starts.size or start + size > pool.data.size:
        return np.int64(-1)
    for i in range(size):
        pool.data[start + i] = rest[i]
    pool.starts[known + 1] = start + size
    pool.table[slot] = known + 1
    return np.int64(known)


@kernel
def number_strings(
    start: np.ndarray, data: np.ndarray, table: np.ndarray, codes: np.ndarray, first: np.ndarray
) -> int:  # pragma: no cover
    """Number strings, equal ones alike, and return how many different ones there are.

    Writes the number of each string to `codes`, and the first string of each number to `first`. The table is all zeros
    and at least twice as large as the number of strings.
    """
    mask = table.size - 1
    known = 0
    for i in range(start.size - 1):
        begin, size = start[i], start[i + 1] - start[i]
        slot = _hash(data, begin, begin + size) & mask
        code = np.int64(-1)
        while table[slot] != 0:
            other = first[table[slot] - 1]
            if start[other + 1] - start[other] == size and shared(data, start[other], data, begin, size) == size:
                code = np.int64(table[slot] - 1)
                break
            slot = (slot + 1) & mask
        if code < 0:
            first[known] = i
            code = np.int64(known)
            known += 1
            table[slot] = known
        codes[i] = code
    return known
