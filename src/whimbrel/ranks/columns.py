"""Ranks the values of Arrow arrays, read from Arrow's buffers as NumPy arrays, without Python objects.

Kernels rank whatever a null cell happens to hold; then null cells are overwritten as missing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from pyarrow import lib

from whimbrel.compiled.views import read_only
from whimbrel.model.errors import EventError
from whimbrel.model.values import BOOLEAN, NUMBER, STRING, TIMESTAMP, Timestamp
from whimbrel.ranks.arrow import values_of
from whimbrel.ranks.column_layout import ColumnLeaf, storage
from whimbrel.ranks.kernel_arrays import EXACT_FLOAT
from whimbrel.ranks.lookup import Lookup
from whimbrel.ranks.rank_kernels import mask_nulls
from whimbrel.ranks.timestamps import parse_times

MISSING, NULL, BAD = -1, 0, -2
"""The ranks of a null cell of a column, of a null member of a list, and of a text that is no timestamp."""

_UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY = 86_400_000_000_000
_DAY_MILLISECONDS = 86_400_000
_EXACT_POWER = 22
"""Binary64 holds the powers of ten exactly up to this exponent."""
_EXACT_DIGITS = 15
"""Binary64 holds integers of up to so many digits exactly."""
_SCALES = (2, 4, 6, 9, 12)
"""Numbers of digits after the point that values are likely to need, whatever the scale of the type."""


def rank_column(array: pa.Array, leaf: ColumnLeaf, lookup: Lookup, out: np.ndarray) -> None:
    """Write the ranks of a flat column; MISSING for a row without a value."""
    rank_array(array, lookup, leaf.is_time, MISSING, out)
    if leaf.is_time:
        for row in np.flatnonzero(out == BAD).tolist():
            raise EventError("a timestamp", repr(array[row].as_py()), leaf.name, row)


def rank_array(array: pa.Array, lookup: Lookup, is_time: bool, missing: int, out: np.ndarray) -> None:
    """Write the rank of every value, `missing` for nulls and NaN, and BAD for texts that are no timestamps."""
    if not len(array):
        return
    kind = array.type.id
    if kind == lib.Type_DICTIONARY:
        _rank_dictionary(array, lookup, is_time, missing, out)
        return
    if is_time and kind in _TEXTS:
        _rank_time_texts(array, lookup, out)
    else:
        _READERS[kind](array, lookup, missing, out)
    if array.null_count:
        _mask(array, missing, out)


def column_values(array: pa.Array, is_time: bool) -> tuple[int, np.ndarray | pa.Array] | None:
    """The type of a flat column, and its values: int64 or float64 numbers, booleans, large strings, or nanoseconds.

    Null cells hold anything. None if Python must read the column.
    """
    kind = array.type.id
    if kind == lib.Type_DICTIONARY:
        return column_values(storage(array.dictionary_decode()), is_time)
    if kind in _TEXTS:
        if not is_time:
            return STRING, array.cast(pa.large_string())
        moments, odd = np.empty(len(array), np.int64), np.empty(len(array), np.uint8)
        offsets, data = map(read_only, text_buffers(array, ""))
        parse_times(offsets, data, moments, odd)
        return None if odd.any() else (TIMESTAMP, moments)
    if kind == lib.Type_BOOL:
        return BOOLEAN, np.asarray(array.fill_null(False))
    if kind in _SIGNED + _UNSIGNED:
        return NUMBER, values_of(array).astype(np.int64, copy=False)
    if kind in _FLOATS:
        return NUMBER, values_of(array).astype(np.float64, copy=False)
    if _READERS.get(kind) is _rank_decimals:
        return NUMBER, _decimals(array)
    if kind == lib.Type_TIMESTAMP:
        values, unit = values_of(array, np.int64), _UNITS[array.type.unit]
        fit = np.abs(np.where(np.asarray(array.is_valid()), values, 0)).max(initial=0) < (1 << 63) // unit
        return (TIMESTAMP, values * unit) if fit else None
    return None


def _rank_dictionary(array: pa.Array, lookup: Lookup, is_time: bool, missing: int, out: np.ndarray) -> None:
    """Rank the distinct values once, unless there are more of them than rows."""
    known = array.dictionary
    if len(known) > len(array):
        rank_array(storage(array.dictionary_decode()), lookup, is_time, missing, out)
        return
    ranks = np.full(max(len(known), 1), missing, np.int32)
    rank_array(storage(known), lookup, is_time, missing, ranks[: len(known)])
    indices = array.indices
    places = values_of(indices)
    if array.null_count:
        places = np.where(np.asarray(indices.is_valid()), places, 0)
    np.take(ranks, places, out=out)
    if array.null_count:
        _mask(indices, missing, out)


def _rank_booleans(array: pa.Array, lookup: Lookup, missing: int, out: np.ndarray) -> None:
    first = array.offset & ~7
    bits = np.frombuffer(array.buffers()[1], np.uint8)[first >> 3 : (array.offset + len(array) + 7) >> 3]
    out[:] = np.unpackbits(bits, bitorder="little")[array.offset - first :][: len(array)]
    out += out
    out += 2


def _rank_integers(array: pa.Array, lookup: Lookup, missing: int, out: np.ndarray) -> None:
    lookup.rank_integers(values_of(array).astype(np.int64, copy=False), out)


def _rank_uint64(array: pa.Array, lookup: Lookup, missing: int, out: np.ndarray) -> None:
    values = values_of(array)
    lookup.rank_integers(values.view(np.int64), out)
    for index in np.flatnonzero(values > np.uint64((1 << 63) - 1)).tolist():
        out[index] = lookup.rank_number(int(values[index]))


def _rank_floats(array: pa.Array, lookup: Lookup, missing: int, out: np.ndarray) -> None:
    lookup.rank_floats(values_of(array).astype(np.float64, copy=False), missing, out)


def _rank_decimals(array: pa.Array, lookup: Lookup, missing: int, out: np.ndarray) -> None:
    lookup.rank_floats(_decimals(array), missing, out)


def _decimals(array: pa.Array) -> np.ndarray:
    """The nearest binary64 of each decimal; Arrow's own cast may be off by one unit in the last place.

    The quotient of two exact binary64 is rounded once, so it is the nearest one. Values of longer types mostly need
    fewer digits: Arrow drops the zeros. Python reads the rest.
    """
    if array.type.id == lib.Type_DECIMAL128 and abs(array.type.scale) <= _EXACT_POWER:
        words = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
        low, high = words[0::2], words[1::2]
        is_short = (high == low >> 63) & (low <= EXACT_FLOAT) & (low >= -EXACT_FLOAT)
        if array.null_count:
            is_short |= np.asarray(array.is_null())
        if is_short.all():
            power = np.float64(10.0 ** abs(array.type.scale))
            return np.divide(low, power) if array.type.scale >= 0 else np.multiply(low, power)
    if array.type.precision > _EXACT_DIGITS:
        for scale in _SCALES:
            try:
                return _decimals(array.cast(pa.decimal128(_EXACT_DIGITS, scale)))
            except pa.ArrowInvalid:
                continue
    return np.array([np.nan if value is None else float(value) for value in array.to_pylist()])


def _rank_timestamps(array: pa.Array, lookup: Lookup, missing: int, out: np.ndarray) -> None:
    _rank_moments(values_of(array, np.int64), _UNITS[array.type.unit], lookup, out)


def _rank_dates(array: pa.Array, lookup: Lookup, missing: int, out: np.ndarray) -> None:
    is_days = array.type.id == lib.Type_DATE32
    days = values_of(array, np.int32).astype(np.int64) if is_days else values_of(array, np.int64) // _DAY_MILLISECONDS
    _rank_moments(days, _DAY, lookup, out)


def _rank_moments(values: np.ndarray, unit: int, lookup: Lookup, out: np.ndarray) -> None:
    """Write the ranks of timestamps in units of `unit` nanoseconds; in nanoseconds some may not fit int64."""
    if unit == 1:
        lookup.rank_times(values, out)
        return
    with np.errstate(over="ignore"):
        lookup.rank_times(values * unit, out)
    limit = ((1 << 63) - 1) // unit
    for index in np.flatnonzero((values > limit) | (values < -limit)).tolist():
        out[index] = lookup.rank_time(int(values[index]) * unit)


def _rank_texts(array: pa.Array, lookup: Lookup, missing: int, out: np.ndarray) -> None:
    lookup.rank_strings(*text_buffers(array, lookup.name), out)


def _rank_time_texts(array: pa.Array, lookup: Lookup, out: np.ndarray) -> None:
    offsets, data = text_buffers(array, lookup.name)
    moments = np.empty(len(array), np.int64)
    odd = np.empty(len(array), np.uint8)
    parse_times(read_only(offsets), read_only(data), moments, odd)
    lookup.rank_times(moments, out)
    for index in np.flatnonzero(odd).tolist():
        text = array[index].as_py()
        if text is not None:
            try:
                out[index] = lookup.rank_time(Timestamp.parse(text).nanoseconds)
            except ValueError:
                out[index] = BAD


def is_text(array: pa.Array) -> bool:
    """Whether it is an array of strings."""
    return array.type.id in _TEXTS


def text_buffers(array: pa.Array, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The 64-bit offsets and the bytes of strings. Checks that they are UTF-8: Arrow trusts whoever made them."""
    if array.type.id == lib.Type_STRING_VIEW:
        array = array.cast(pa.large_string())
    _, cuts, text = array.buffers()
    dtype = np.int64 if array.type.id == lib.Type_LARGE_STRING else np.int32
    offsets = np.frombuffer(cuts, dtype)[array.offset : array.offset + len(array) + 1].astype(np.int64, copy=False)
    data = np.frombuffer(text or b"", np.uint8)
    if data[offsets[0] : offsets[-1]].max(initial=0) > 127:
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise EventError("text in UTF-8", str(error), name) from None
    return offsets, data


def _rank_nulls(array: pa.Array, lookup: Lookup, missing: int, out: np.ndarray) -> None:
    out[:] = missing


def _mask(array: pa.Array, missing: int, out: np.ndarray) -> None:
    bitmap = array.buffers()[0]
    if bitmap is not None:
        mask_nulls(read_only(np.frombuffer(bitmap, np.uint8)), array.offset, missing, out)


_TEXTS = (lib.Type_STRING, lib.Type_LARGE_STRING, lib.Type_STRING_VIEW)
_SIGNED = (lib.Type_INT8, lib.Type_INT16, lib.Type_INT32, lib.Type_INT64)
_UNSIGNED = (lib.Type_UINT8, lib.Type_UINT16, lib.Type_UINT32)
_FLOATS = (lib.Type_HALF_FLOAT, lib.Type_FLOAT, lib.Type_DOUBLE)
_DECIMALS = ("Type_DECIMAL32", "Type_DECIMAL64", "Type_DECIMAL128", "Type_DECIMAL256")
_READERS: dict[int, Callable[[pa.Array, Lookup, int, np.ndarray], None]] = {
    lib.Type_NA: _rank_nulls,
    lib.Type_BOOL: _rank_booleans,
    lib.Type_UINT64: _rank_uint64,
    lib.Type_TIMESTAMP: _rank_timestamps,
    lib.Type_DATE32: _rank_dates,
    lib.Type_DATE64: _rank_dates,
    **dict.fromkeys(_SIGNED + _UNSIGNED, _rank_integers),
    **dict.fromkeys(_FLOATS, _rank_floats),
    **dict.fromkeys(_TEXTS, _rank_texts),
    **{getattr(lib, name): _rank_decimals for name in _DECIMALS if hasattr(lib, name)},
}
