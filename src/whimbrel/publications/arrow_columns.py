"""Arrow columns from Python values and NumPy arrays, and back.

All of it goes through buffers: `pyarrow.array` and `to_numpy` would import pandas (see `ranks/arrow.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import NoneType
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whimbrel.ranks.arrow import values_of

Rows: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

_PYTHON_TYPES: dict[pa.DataType, type] = {
    pa.string(): str,
    pa.binary(): bytes,
    pa.int64(): int,
    pa.float64(): float,
    pa.bool_(): bool,
}


def column_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return Python values as an array of this type, the same that `pyarrow.array` returns.

    Values of the types above, None and lists of them need no pandas. All others do.
    """
    types = {*map(type, values)}
    if types <= {NoneType}:
        return pa.nulls(len(values), kind)
    wanted = list if pa.types.is_list(kind) else _PYTHON_TYPES.get(kind)
    if "pandas" in sys.modules or wanted is None or not types <= {wanted, NoneType}:
        return pa.array(values, kind)
    valid = None
    plain = values
    if NoneType in types:
        valid = _validity(np.array([value is None for value in values]))
        plain = [wanted() if value is None else value for value in values]
    try:
        return _from_plain(plain, kind, valid)
    except (UnicodeEncodeError, OverflowError):  # Arrow says what is wrong
        return pa.array(values, kind)


def _from_plain(values: Sequence[Any], kind: pa.DataType, valid: pa.Buffer | None) -> pa.Array:
    """Return values of one type as an array with these bits of validity."""
    if pa.types.is_list(kind):
        members = column_of([member for value in values for member in value], kind.value_type)
        return pa.Array.from_buffers(kind, len(values), [valid, _offsets(values)], children=[members])
    if kind == pa.string():
        values = [value.encode() for value in values]
    if kind in (pa.string(), pa.binary()):
        return pa.Array.from_buffers(kind, len(values), [valid, _offsets(values), pa.py_buffer(b"".join(values))])
    if kind == pa.bool_():
        data = np.packbits(np.array(values), bitorder="little")
    else:
        data = np.array(values, kind.to_pandas_dtype())
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(data)])


def _offsets(values: Sequence[Any]) -> pa.Buffer:
    """Return where each text or list begins and where the last one ends; OverflowError above 32 bits."""
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), out=offsets[1:])
    if offsets[-1] > np.iinfo(np.int32).max:
        raise OverflowError
    return pa.py_buffer(offsets.astype(np.int32))


def _validity(absent: Flags) -> pa.Buffer | None:
    """Return the bits of validity of an array that is null where `absent` is set."""
    return pa.py_buffer(np.packbits(~absent, bitorder="little")) if absent.any() else None


def row_numbers(rows: Rows, absent: Flags | None = None) -> pa.Array:
    """Return rows as an array to take by, which is null where `absent` is set."""
    valid = None if absent is None else _validity(absent)
    return pa.Array.from_buffers(pa.int64(), len(rows), [valid, pa.py_buffer(np.ascontiguousarray(rows))])


def as_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    if not column.num_chunks:
        return pa.nulls(0, column.type)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def flags_of(column: pa.ChunkedArray | pa.Array) -> Flags:
    """Return a column of booleans without nulls."""
    array = as_array(column) if isinstance(column, pa.ChunkedArray) else column
    return values_of(array.cast(pa.uint8())).view(np.bool_)
