"""Makes Arrow arrays from lists and NumPy arrays, and back, through their buffers.

`pyarrow.array` and `to_numpy` import pandas, if it is installed, to ask whether it knows the object: a fifth of a
second at the start of a process.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from whimbrel.language.columnar.terms import large_texts

if TYPE_CHECKING:
    import pyarrow as pa

Strings: TypeAlias = "pa.Array | pa.ChunkedArray | Sequence[str]"

FEW = 1 << 20
"""More texts than this are converted by Arrow, which saves 0.1 to 0.3 us for each: worth the import of pandas."""


def large_strings(texts: Sequence[str]) -> pa.LargeStringArray:
    """An array of the texts; raises what `pyarrow.array` raises if one of them is no text."""
    import pyarrow as pa

    if len(texts) > FEW or "pandas" in sys.modules:
        return pa.array(texts, pa.large_string())
    try:
        return large_texts(texts)
    except (TypeError, UnicodeEncodeError):
        return pa.array(texts, pa.large_string())


def numbers(values: np.ndarray) -> pa.Array:
    """An array of integers or floats of the machine's byte order; it shares the memory if it is contiguous."""
    import pyarrow as pa

    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def values_of(array: pa.Array, dtype: type | None = None) -> np.ndarray:
    """The data buffer of an array of numbers, or of another fixed width as `dtype`; null cells hold anything."""
    kind = np.dtype(dtype or array.type.to_pandas_dtype())
    return np.frombuffer(array.buffers()[1], kind, len(array), array.offset * kind.itemsize)


def widened(array: pa.Array) -> pa.LargeStringArray:
    """The strings with 64-bit offsets, sharing the bytes. A cast would import all of Arrow's compute functions."""
    import pyarrow as pa

    if array.type == pa.large_string():
        return array
    if array.type != pa.string() or not len(array):
        return array.cast(pa.large_string())
    valid, offsets, data = array.buffers()
    wide = np.frombuffer(offsets, np.int32, array.offset + len(array) + 1).astype(np.int64)
    return pa.Array.from_buffers(
        pa.large_string(), len(array), [valid, pa.py_buffer(wide), data], array.null_count, array.offset
    )


def one_array(values: Strings) -> pa.Array:
    """One array of strings with 64-bit offsets and no nulls."""
    import pyarrow as pa

    if not isinstance(values, (pa.Array, pa.ChunkedArray)):
        return large_strings(values)
    if values.type != pa.large_string():
        values = values.cast(pa.large_string())
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else large_strings([])
    return values.drop_null() if values.null_count else values


def string_buffers(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The offsets and the bytes of strings with 64-bit offsets; offsets begin at the first row of a slice."""
    _, offsets, data = array.buffers()
    if not len(array) or offsets is None:
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    found = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return found, np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
