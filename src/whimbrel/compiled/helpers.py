"""Helpers that kernels of several packages share: binary search, bytes eight at a time, loads without a check."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba import types

from whimbrel.compiled.array_types import Bytes, Floats, Int32s, Int64s
from whimbrel.compiled.intrinsics import in_kernels
from whimbrel.compiled.jit import helper

Integer: TypeAlias = int | np.int64
"""An integer in a kernel: Numba makes no difference between the two."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF, _BYTE = np.uint64(32), np.uint64(8)


@helper
def lower_bound(values: Floats | Int32s | Int64s, low: int, high: int, value: float | np.int64) -> int:
    """The first place in the sorted values[low:high] whose value is not below the given one, or `high`."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@in_kernels
def load_word(typingctx: Any, data: Any, index: Any) -> Any:
    """Load eight bytes of an array from `index` on, at any alignment: strings compare eight times faster."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        place = builder.gep(array.data, [args[1]])
        word = builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()))
        word.align = 1
        return word

    return types.uint64(data, types.int64), codegen


@in_kernels
def item(typingctx: Any, data: Any, index: Any) -> Any:
    """The element of an array at an index that is never negative: skips Numba's check for negative ones."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        return builder.load(builder.gep(array.data, [args[1]]))

    return data.dtype(data, types.int64), codegen


@helper
def shared(one: Bytes, at: int, two: Bytes, start: int, length: int) -> int:
    """The number of equal bytes at the beginning of one[at:] and two[start:], at most `length`."""
    same = 0
    while same + 8 <= length and load_word(one, at + same) == load_word(two, start + same):
        same += 8
    while same < length and one[at + same] == two[start + same]:
        same += 1
    return same


@helper
def are_equal(one: Bytes, at: int, two: Bytes, start: int, length: int) -> bool:
    """Whether the next `length` bytes are equal; up to eight take one load if arrays are long enough."""
    if length <= 8 and at + 8 <= one.size and start + 8 <= two.size:
        unlike = load_word(one, at) ^ load_word(two, start)
        return length == 0 or unlike << np.uint64(64 - 8 * length) == np.uint64(0)
    return shared(one, at, two, start, length) == length


@helper
def hash_of_bytes(data: Bytes, start: Integer, end: Integer) -> np.int64:
    """The hash of the bytes from `start` to `end`, 31 bits. It reads eight at a time, then the rest."""
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
