"""Tuples of arrays by address: a kernel that gets one array of words instead of fifty arrays is called in a tenth of
the time, because arguments are checked and unpacked one by one.

`words_of` writes where the arrays of a named tuple lie; a `view` of its type, inside a kernel, makes the tuple again.
Whoever holds the words must hold the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic
from numba.np import numpy_support


def read_only(array: np.ndarray) -> np.ndarray:
    """A read-only, aligned, plain view: the one kind of input that kernels are compiled for."""
    array = np.asarray(array)
    if not (array.flags.aligned and array.flags.c_contiguous):
        array = np.ascontiguousarray(array).copy()
    view = array.view()
    view.flags.writeable = False
    return view


class TupleOfArrays(NamedTuple):
    """A named tuple of C-contiguous arrays: what each of its arrays is."""

    name: type
    dtypes: Sequence[str]
    dims: Sequence[int]
    writeable: bool

    @property
    def words(self) -> int:
        """How many words it takes: an address and the lengths of the dimensions for each array."""
        return len(self.dims) + sum(self.dims)

    def type(self) -> types.NamedTuple:
        """The type that the compiler knows it by."""
        arrays = [
            types.Array(numpy_support.from_dtype(np.dtype(dtype)), dims, "C", readonly=not self.writeable)
            for dtype, dims in zip(self.dtypes, self.dims, strict=True)
        ]
        return types.NamedTuple(arrays, self.name)  # type: ignore[no-untyped-call]


def kind_of(name: type, writeable: bool, others: dict[str, tuple[str, int]]) -> TupleOfArrays:
    """The kind of a named tuple whose arrays are int32 in one dimension, but for `others`: dtype and dimensions."""
    fields: tuple[str, ...] = name._fields  # type: ignore[attr-defined]
    what = [others.get(field, ("int32", 1)) for field in fields]
    return TupleOfArrays(name, [dtype for dtype, _ in what], [dims for _, dims in what], writeable)


def words_of(kind: TupleOfArrays, arrays: Sequence[np.ndarray]) -> list[int]:
    """Where the arrays lie. They must be of the kind, as nothing checks what a kernel reads there."""
    words: list[int] = []
    for array, dtype, dims in zip(arrays, kind.dtypes, kind.dims, strict=True):
        if array.dtype != np.dtype(dtype) or array.ndim != dims or not array.flags.c_contiguous:
            raise AssertionError(f"an array of {dtype} in {dims} dimensions, not {array.dtype} in {array.ndim}")
        words += [array.ctypes.data, *array.shape]
    return words


def view(kind: TupleOfArrays) -> Callable[..., Any]:
    """The function for kernels that makes the tuple from the words that begin at a place."""
    made = kind.type()

    @intrinsic
    def make(typingctx, words, first):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            from numba.np import arrayobj  # compiled code does not need it

            table = context.make_array(signature.args[0])(context, builder, args[0])
            place = args[1]
            one = place.type(1)
            members = []
            for array in made.types:
                read = []
                for _ in range(1 + array.ndim):
                    read.append(builder.load(builder.gep(table.data, [place])))
                    place = builder.add(place, one)
                member = arrayobj.make_array(array)(context, builder)  # type: ignore[no-untyped-call]
                size = context.get_constant(types.intp, array.dtype.bitwidth // 8)
                strides = [size]
                for length in reversed(read[2:]):
                    strides.insert(0, builder.mul(strides[0], length))
                data = builder.inttoptr(read[0], member.data.type)
                arrayobj.populate_array(member, data, read[1:], strides, size, None)  # type: ignore[no-untyped-call]
                members.append(member._getvalue())
            return context.make_tuple(builder, made, members)

        return made(types.Array(types.int64, 1, "C"), types.int64), codegen

    return make
