"""Passes named tuples of arrays to kernels by address.

Numba checks and unpacks every argument of a call: 51 arrays took 11 us, one array of addresses takes a tenth of that.
`words_of` lists the addresses and shapes of the arrays of a named tuple; inside a kernel a `view` of its type makes the
tuple again. Callers must keep the arrays alive as long as they use the words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, get_type_hints

import numpy as np
from numba import types
from numba.extending import intrinsic
from numba.np import numpy_support

from whimbrel.compiled.array_types import element_and_dimensions


def read_only(array: np.ndarray) -> np.ndarray:
    """A read-only, aligned, contiguous view: the one kind of input that kernels are compiled for."""
    array = np.asarray(array)
    if not (array.flags.aligned and array.flags.c_contiguous):
        array = np.ascontiguousarray(array).copy()
    view = array.view()
    view.flags.writeable = False
    return view


def at_line_start(words: int) -> np.ndarray:
    """Zeros, int64, aligned to a cache line, so that each run of eight words is one line."""
    larger = np.zeros(words + 8, np.int64)
    first = -larger.ctypes.data // 8 % 8
    return larger[first : first + words]


class TupleOfArrays(NamedTuple):
    """The type of a named tuple of C-contiguous arrays: dtype and dimensions of each."""

    name: type
    dtypes: Sequence[np.dtype[Any]]
    dims: Sequence[int]
    writeable: bool

    @property
    def words(self) -> int:
        """The number of words: for each array its address and the length of each dimension."""
        return len(self.dims) + sum(self.dims)

    def type(self) -> types.NamedTuple:
        """Numba's type of the tuple."""
        arrays = [
            types.Array(numpy_support.from_dtype(dtype), dims, "C", readonly=not self.writeable)
            for dtype, dims in zip(self.dtypes, self.dims, strict=True)
        ]
        return types.NamedTuple(arrays, self.name)  # type: ignore[no-untyped-call]


def tuple_of_arrays(name: type, writeable: bool) -> TupleOfArrays:
    """The kind of a named tuple, by the annotations of its fields (`compiled/array_types.py`)."""
    hints = get_type_hints(name, include_extras=True)
    fields = [element_and_dimensions(hint) for hint in hints.values()]
    return TupleOfArrays(name, [element for element, _ in fields], [dims for _, dims in fields], writeable)


def words_of(kind: TupleOfArrays, arrays: Sequence[np.ndarray]) -> list[int]:
    """The addresses and shapes of the arrays. Checks their types, because a kernel cannot."""
    words: list[int] = []
    for array, dtype, dims in zip(arrays, kind.dtypes, kind.dims, strict=True):
        if array.dtype != dtype or array.ndim != dims or not array.flags.c_contiguous:
            raise AssertionError(f"an array of {dtype} in {dims} dimensions, not {array.dtype} in {array.ndim}")
        words += [array.ctypes.data, *array.shape]
    return words


def view(kind: TupleOfArrays) -> Callable[..., Any]:
    """A function for kernels that makes the tuple from the words that begin at a given place."""
    made = kind.type()

    @intrinsic
    def make(typingctx: Any, words: Any, first: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
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
