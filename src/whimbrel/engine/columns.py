"""Arrow columns to ranks: which columns of a table hold which attributes, and how each type is read.

Values are read out of Arrow's buffers with NumPy and ranked by whole arrays, without Python objects. What is rare
and hard (arrays of objects, maps, lists of lists, repeated fields) is left to the plain reader of events: `layout`
says which columns those are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from whimbrel.engine.encode_kernels import mask_nulls, parse_times
from whimbrel.engine.lookup import EXACT_FLOAT, Lookup, fixed
from whimbrel.model.errors import EventError
from whimbrel.model.limits import EVENT_DEPTH
from whimbrel.model.values import Timestamp

MISSING, NULL = -1, 0
"""What an empty cell of a column is, and what an empty member of a list is."""

_UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY = 86_400_000_000_000
_EXACT_POWER = 22
"""Up to here every power of ten is a binary64."""

_types = pa.types


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column, or a field below it, that holds one attribute."""

    attr: int
    name: str
    path: tuple[int, ...]
    is_list: bool
    is_time: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the attributes of a segment lie in tables of one schema, in order of attributes."""

    flat: list[Leaf] = field(default_factory=list)
    lists: list[Leaf] = field(default_factory=list)
    odd: list[int] = field(default_factory=list)


def layout(
    schema: pa.Schema, find: Callable[[str], int | None], above: Container[str], timestamps: Collection[str]
) -> Layout:
    """The layout of a schema: `find` gives an attribute's id, `above` has the names that attributes lie below."""
    found = Layout()

    def walk(name: str, kind: pa.DataType, path: tuple[int, ...]) -> bool:
        kind = _plain(kind)
        attr = find(name)
        if _types.is_struct(kind):
            names = [child.name for child in kind]
            if name not in above:
                return True
            if not name or len(set(names)) < len(names) or len(path) >= EVENT_DEPTH.value:
                return False
            return all(walk(f"{name}.{child.name}", child.type, (*path, i)) for i, child in enumerate(kind))
        if attr is None and name not in above:
            return True
        if _is_list(kind):
            member = _plain(kind.value_type)
            if _is_nested(member):
                return False
            _check_scalar(member, name)
            if attr is not None:
                found.lists.append(Leaf(attr, name, path, True, name in timestamps))
            return True
        if _is_nested(kind):
            return False
        _check_scalar(kind, name)
        if attr is not None and not _types.is_null(kind):
            found.flat.append(Leaf(attr, name, path, False, name in timestamps))
        return True

    for index, column in enumerate(schema):
        sizes = len(found.flat), len(found.lists)
        if not walk(column.name, column.type, (index,)):
            found.odd.append(index)
            del found.flat[sizes[0] :], found.lists[sizes[1] :]
    found.flat.sort(key=lambda leaf: leaf.attr)
    found.lists.sort(key=lambda leaf: leaf.attr)
    return found


def leaf_array(columns: Callable[[int], pa.Array], leaf: Leaf) -> pa.Array:
    """The array of a leaf; a null struct makes its fields null."""
    array = _storage(columns(leaf.path[0]))
    for index in leaf.path[1:]:
        array = _storage(pc.struct_field(array, [index]))
    return array


def rank_lists(array: pa.Array, lookup: Lookup, is_time: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The ranks of all members of a list column, and where those of each row start and end."""
    kind = array.type
    if _types.is_fixed_size_list(kind) or _types.is_list_view(kind) or _types.is_large_list_view(kind):
        array = array.cast(pa.large_list(kind.value_type))
    if not len(array):
        nothing = np.empty(0, np.int64)
        return np.empty(0, np.int32), nothing, nothing
    offsets = np.asarray(array.offsets).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    ranks = np.empty(last - first, np.int32)
    starts, ends = offsets[:-1] - first, offsets[1:] - first
    try:
        rank_array(_storage(array.values.slice(first, last - first)), lookup, is_time, NULL, ranks)
    except _BadTime as error:
        raise error.at(int(np.searchsorted(ends, error.index, "right"))) from None
    if array.null_count:
        ends = np.where(np.asarray(array.is_valid()), ends, starts)
    return ranks, starts, ends


def rank_column(array: pa.Array, lookup: Lookup, is_time: bool, out: np.ndarray) -> None:
    """The ranks of a flat column, MISSING where it has none."""
    try:
        rank_array(array, lookup, is_time, MISSING, out)
    except _BadTime as error:
        raise error.at(error.index) from None


def rank_array(array: pa.Array, lookup: Lookup, is_time: bool, missing: int, out: np.ndarray) -> None:
    """Writes the rank of every value, and `missing` for nulls and NaN."""
    kind = array.type
    if not len(array):
        return
    if _types.is_dictionary(kind):
        _rank_dictionary(array, lookup, is_time, missing, out)
    elif _is_text(kind):
        _rank_texts(array, lookup, is_time, out)
    elif _types.is_boolean(kind):
        out[:] = 2 * np.asarray(array.cast(pa.uint8()).fill_null(0)) + 2
    elif _types.is_uint64(kind):
        _rank_unsigned(_values(array, np.dtype(np.uint64)), lookup, out)
    elif _types.is_integer(kind):
        lookup.rank_integers(_values(array, np.dtype(kind.to_pandas_dtype())).astype(np.int64), out)
    elif _types.is_floating(kind):
        values = _values(array, np.dtype(kind.to_pandas_dtype())).astype(np.float64, copy=False)
        lookup.rank_floats(values, missing, out)
    elif _types.is_decimal(kind):
        lookup.rank_floats(_decimals(array), missing, out)
    elif _types.is_timestamp(kind):
        _rank_moments(_values(array, np.dtype(np.int64)), _UNITS[kind.unit], array, lookup, out)
    elif _types.is_date(kind):
        days = _values(array.cast(pa.date32()), np.dtype(np.int32)).astype(np.int64)
        _rank_moments(days, _DAY, array, lookup, out)
    else:
        out[:] = missing  # the null type
    if array.null_count and not _types.is_dictionary(kind):
        _mask(array, missing, out)


def _rank_dictionary(array: pa.Array, lookup: Lookup, is_time: bool, missing: int, out: np.ndarray) -> None:
    """Ranks the distinct values once, unless they outnumber the rows."""
    known = array.dictionary
    if len(known) > len(array):
        rank_array(_storage(array.dictionary_decode()), lookup, is_time, missing, out)
        return
    ranks = np.full(max(len(known), 1), missing, np.int32)
    rank_array(_storage(known), lookup, is_time, missing, ranks)
    indices = array.indices
    places = _values(indices, np.dtype(indices.type.to_pandas_dtype()))
    if array.null_count:
        places = np.where(np.asarray(indices.is_valid()), places, 0)
    np.take(ranks, places, out=out)
    if array.null_count:
        _mask(indices, missing, out)


def _rank_texts(array: pa.Array, lookup: Lookup, is_time: bool, out: np.ndarray) -> None:
    offsets, data = _text_buffers(array)
    if not is_time:
        lookup.rank_strings(offsets, data, out)
        return
    moments = np.empty(len(array), np.int64)
    odd = np.empty(len(array), np.uint8)
    parse_times(fixed(offsets), fixed(data), moments, odd)
    lookup.rank_times(moments, out)
    for index in np.flatnonzero(odd).tolist():
        text = array[index].as_py()
        if text is not None:
            try:
                out[index] = lookup.rank_time(Timestamp.parse(text).nanoseconds)
            except ValueError:
                raise _BadTime(index, text, lookup.name) from None


def _rank_unsigned(values: np.ndarray, lookup: Lookup, out: np.ndarray) -> None:
    lookup.rank_integers(values.view(np.int64), out)
    for index in np.flatnonzero(values > np.uint64((1 << 63) - 1)).tolist():
        out[index] = lookup.rank_number(int(values[index]))


def _rank_moments(values: np.ndarray, unit: int, array: pa.Array, lookup: Lookup, out: np.ndarray) -> None:
    """Ranks of instants counted in a unit of so many nanoseconds, of which some may be beyond int64."""
    if unit == 1:
        lookup.rank_times(values, out)
        return
    with np.errstate(over="ignore"):
        lookup.rank_times(values * unit, out)
    limit = ((1 << 63) - 1) // unit
    for index in np.flatnonzero((values > limit) | (values < -limit)).tolist():
        out[index] = lookup.rank_time(int(values[index]) * unit)


def _decimals(array: pa.Array) -> np.ndarray:
    """The nearest binary64 of each decimal; Arrow's own cast may be off by one unit in the last place.

    The quotient of two exact binary64 is rounded once, hence right; the others are read by Python.
    """
    kind = array.type
    floats = np.empty(len(array))
    odd = np.ones(len(array), bool)
    if _types.is_decimal128(kind) and abs(kind.scale) <= _EXACT_POWER:
        words = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
        low, high = words[0::2], words[1::2]
        odd = (high != low >> 63) | (low > EXACT_FLOAT) | (low < -EXACT_FLOAT)
        power = 10.0 ** abs(kind.scale)
        floats = low / power if kind.scale >= 0 else low * power
    for index in np.flatnonzero(odd).tolist():
        value = array[index].as_py()
        floats[index] = np.nan if value is None else float(value)
    return floats


class _BadTime(Exception):
    """A text that is no timestamp, at an index of the array."""

    def __init__(self, index: int, text: str, name: str) -> None:
        self.index, self.text, self.name = index, text, name

    def at(self, row: int) -> EventError:
        """The error that names the row and the attribute."""
        return EventError("a timestamp", repr(self.text), f"event {row}: {self.name}")


def _values(array: pa.Array, dtype: np.dtype) -> np.ndarray:
    """The data buffer of a primitive array as NumPy sees it; null cells hold anything."""
    return np.frombuffer(array.buffers()[1], dtype)[array.offset : array.offset + len(array)]


def _text_buffers(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    if _types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    _, offsets, data = array.buffers()
    dtype = np.int64 if _types.is_large_string(array.type) else np.int32
    found = np.frombuffer(offsets, dtype)[array.offset : array.offset + len(array) + 1]
    return found.astype(np.int64, copy=False), np.frombuffer(data or b"", np.uint8)


def _mask(array: pa.Array, missing: int, out: np.ndarray) -> None:
    bitmap = array.buffers()[0]
    if bitmap is not None:
        mask_nulls(fixed(np.frombuffer(bitmap, np.uint8)), array.offset, missing, out)


def _storage(array: pa.Array) -> pa.Array:
    """Without extension types and runs."""
    while True:
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        elif _types.is_run_end_encoded(array.type):
            array = pc.run_end_decode(array)
        else:
            return array


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type behind extension types, runs and dictionaries."""
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif _types.is_run_end_encoded(kind) or _types.is_dictionary(kind):
            kind = kind.value_type
        else:
            return kind


def _is_text(kind: pa.DataType) -> bool:
    return bool(_types.is_string(kind) or _types.is_large_string(kind) or _types.is_string_view(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        _types.is_list(kind)
        or _types.is_large_list(kind)
        or _types.is_fixed_size_list(kind)
        or _types.is_list_view(kind)
        or _types.is_large_list_view(kind)
    )


def _is_nested(kind: pa.DataType) -> bool:
    return bool(_types.is_nested(kind)) and not _types.is_union(kind)


def _check_scalar(kind: pa.DataType, name: str) -> None:
    readable = (_types.is_boolean, _types.is_integer, _types.is_floating, _types.is_decimal, _is_text)
    if not any(test(kind) for test in (*readable, _types.is_timestamp, _types.is_date, _types.is_null)):
        expected = "a column of booleans, numbers, text, timestamps, lists, structs or maps"
        raise EventError(expected, str(kind), name)
