"""Keys of publications as numbers from 0 on: an open-addressing hash table over the bytes of all keys.

The seed of the hash is random and secret, so that nobody can choose keys that collide.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whimbrel.compiled.array_types import Bytes, Int32s, Int64s, Integers
from whimbrel.compiled.jit import kernel
from whimbrel.engine.ids.id_kernels import hash_text, home_place, is_same_text
from whimbrel.ranks.arrow import values_of


class KeyNumbers:
    """Numbers keys, text or integers, in the order in which they come.

    >>> keys = KeyNumbers()
    >>> keys.numbers(pa.array(["b", "a", "b"])).tolist(), keys.numbers(pa.array(["c", "a"])).tolist()
    ([0, 1, 0], [2, 1])
    """

    def __init__(self) -> None:
        self._bytes = np.zeros(0, np.uint8)
        self._ends = np.zeros(1, np.int64)
        self._table = np.zeros(16, np.int32)
        self._seed = secrets.randbits(63)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def numbers(self, keys: pa.Array) -> Int64s:
        """The number of each key; new keys get the next ones. About 30 ns for a key."""
        content, ends = _content(keys)
        most = self._count + len(keys)
        self._bytes = with_capacity(self._bytes, int(self._ends[self._count] + ends[-1] - ends[0]))
        self._ends = with_capacity(self._ends, most + 1)
        if most * 2 > self._table.size:
            self._table = np.zeros(most * 3, np.int32)
            _enter(self._bytes, self._ends, self._count, self._table, self._seed)
        out = np.empty(len(keys), np.int64)
        self._count = _number(content, ends, self._bytes, self._ends, self._count, self._table, self._seed, out)
        return out

    def find(self, keys: pa.Array) -> Int64s:
        """The number of each key; -1 for those that have none."""
        content, ends = _content(keys)
        out = np.empty(len(keys), np.int64)
        _find(content, ends, self._bytes, self._ends, self._table, self._seed, out)
        return out


def with_capacity(array: NDArray[Any], size: int, fill: int = 0) -> NDArray[Any]:
    """The array itself if it has `size` elements, else a copy with at least twice as many, padded with `fill`."""
    if size <= len(array):
        return array
    out = np.full(2 * size, fill, array.dtype)
    out[: len(array)] = array
    return out


def _content(keys: pa.Array) -> tuple[Bytes, Integers]:
    """The bytes of all keys and the bounds of each: key i is from bounds[i] to bounds[i + 1]. Keys have no nulls."""
    count, offset = len(keys), keys.offset
    if not pa.types.is_string(keys.type):
        return values_of(keys).astype(np.int64, copy=False).view(np.uint8), np.arange(count + 1) * 8
    _, ends, content = keys.buffers()
    if not count or content is None:
        return np.zeros(0, np.uint8), np.zeros(count + 1, np.int32)
    return np.frombuffer(content, np.uint8), np.frombuffer(ends, np.int32)[offset : offset + count + 1]


@kernel
def _place(content: Bytes, start: int, stop: int, own: Bytes, ends: Int64s, table: Int32s, seed: int) -> np.int64:
    """The place of a key in the hash table, or the free place where it belongs."""
    at: np.int64 = home_place(hash_text(content, start, stop, seed), table.size)
    while table[at] != 0 and not is_same_text(own, ends, table[at] - 1, content, start, stop):
        at = at + 1 if at + 1 < table.size else np.int64(0)
    return at


@kernel
def _enter(own: Bytes, ends: Int64s, count: int, table: Int32s, seed: int) -> None:
    """Enter all keys into an empty table."""
    for entry in range(count):
        table[_place(own, ends[entry], ends[entry + 1], own, ends, table, seed)] = entry + 1


@kernel
def _number(
    content: Bytes, bounds: Integers, own: Bytes, ends: Int64s, count: int, table: Int32s, seed: int, out: Int64s
) -> int:
    """Write the number of each key, enter new ones, and return how many keys there are."""
    for row in range(out.size):
        start, stop = int(bounds[row]), int(bounds[row + 1])
        at = _place(content, start, stop, own, ends, table, seed)
        if table[at] == 0:
            end = ends[count]
            for i in range(start, stop):
                own[end + i - start] = content[i]
            ends[count + 1] = end + stop - start
            count += 1
            table[at] = count
        out[row] = table[at] - 1
    return count


@kernel
def _find(content: Bytes, bounds: Integers, own: Bytes, ends: Int64s, table: Int32s, seed: int, out: Int64s) -> None:
    """Write the number of each key, -1 for those that were not entered."""
    for row in range(out.size):
        out[row] = table[_place(content, int(bounds[row]), int(bounds[row + 1]), own, ends, table, seed)] - 1
