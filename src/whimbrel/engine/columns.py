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

MISSING, NULL, BAD = -1, 0, -2
"""What an empty cell of a column is, what an empty member of a list is, and a text that is no timestamp."""

_UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY = 86_400_000_000_000
_DAY_MILLISECONDS = 86_400_000
_EXACT_POWER = 22
"""Up to here every power of ten is a binary64."""

_types = pa.types


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column, or a field below it, that holds one attribute."""

    attr: int
    name: str
    path: tuple[int, ...]
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
        """Notes the leaves of a column or field; False if the plain reader must take the column."""
        kind = _plain(kind)
        if name in above and _types.is_struct(kind):
            inner = [walk(f"{name}.{child.name}", child.type, (*path, i)) for i, child in enumerate(kind)]
            return all(inner) and len(path) < EVENT_DEPTH.value
        attr = find(name)
        if _is_nested(kind) and (name in above or attr is not None):
            member = _plain(kind.value_type) if _is_list(kind) else None
            if member is None or _is_nested(member):
                return False
            kind = member
            leaves = found.lists
        else:
            leaves = found.flat
        if attr is not None and not _types.is_struct(kind):
            _check_scalar(kind, name)
            leaves.append(Leaf(attr, name, path, name in timestamps))
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


def rank_column(array: pa.Array, lookup: Lookup, is_time: bool, out: np.ndarray) -> None:
    """The ranks of a flat column, MISSING where it has none."""
    rank_array(array, lookup, is_time, MISSING, out)
    if is_time:
        for row in np.flatnonzero(out == BAD).tolist():
            raise EventError("a timestamp", repr(array[row].as_py()), f"event {row}: {lookup.name}")


def rank_lists(array: pa.Array, lookup: Lookup, is_time: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The ranks of all members of a list column, and where those of each row start and end."""
    starts, ends = _bounds(array)
    if array.null_count:
        ends = np.where(np.asarray(array.is_valid()), ends, starts)
    first, last = int(starts.min(initial=0)), int(ends.max(initial=0))
    if len(starts):
        first = int(starts.min())
    ranks = np.empty(last - first, np.int32)
    members = _storage(array.values.slice(first, last - first))
    rank_array(members, lookup, is_time, NULL, ranks)
    starts, ends = starts - first, ends - first
    if is_time:
        for member in np.flatnonzero(ranks == BAD).tolist():
            for row in np.flatnonzero((starts <= member) & (member < ends)).tolist():
                raise EventError("a timestamp", repr(members[member].as_py()), f"event {row}: {lookup.name}")
    return ranks, starts, ends


def _bounds(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Where the members of each list start and end in the array of all."""
    kind = array.type
    if _types.is_fixed_size_list(kind):
        starts = np.arange(array.offset, array.offset + len(array)) * kind.list_size
        return starts, starts + kind.list_size
    offsets = np.asarray(array.offsets).astype(np.int64)
    if _types.is_list_view(kind) or _types.is_large_list_view(kind):
        return offsets, offsets + np.asarray(array.sizes)
    return offsets[:-1], offsets[1:]


def rank_array(array: pa.Array, lookup: Lookup, is_time: bool, missing: int, out: np.ndarray) -> None:
    """Writes the rank of every value, `missing` for nulls and NaN, and BAD for texts that are no timestamps."""
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
        _rank_unsigned(_values(array, np.uint64), lookup, out)
    elif _types.is_integer(kind):
        lookup.rank_integers(_values(array, kind.to_pandas_dtype()).astype(np.int64, copy=False), out)
    elif _types.is_floating(kind):
        values = _values(array, kind.to_pandas_dtype()).astype(np.float64, copy=False)
        lookup.rank_floats(values, missing, out)
    elif _types.is_decimal(kind):
        lookup.rank_floats(_decimals(array), missing, out)
    elif _types.is_timestamp(kind):
        _rank_moments(_values(array, np.int64), _UNITS[kind.unit], lookup, out)
    elif _types.is_date32(kind):
        _rank_moments(_values(array, np.int32).astype(np.int64), _DAY, lookup, out)
    elif _types.is_date64(kind):
        _rank_moments(_values(array, np.int64) // _DAY_MILLISECONDS, _DAY, lookup, out)
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
    rank_array(_storage(known), lookup, is_time, missing, ranks[: len(known)])
    indices = array.indices
    places = _values(indices, indices.type.to_pandas_dtype())
    if array.null_count:
        places = np.where(np.asarray(indices.is_valid()), places, 0)
    np.take(ranks, places, out=out)
    if array.null_count:
        _mask(indices, missing, out)


def _rank_texts(array: pa.Array, lookup: Lookup, is_time: bool, out: np.ndarray) -> None:
    if _types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    offsets, data = _text_buffers(array)
    if data[offsets[0] : offsets[-1]].max(initial=0) > 127:
        _check_utf8(array, lookup.name)
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
                out[index] = BAD


def _check_utf8(array: pa.Array, name: str) -> None:
    """Arrow promises UTF-8, but whoever filled the buffers may not have kept it."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise EventError("text in UTF-8", str(error), name) from None


def _rank_unsigned(values: np.ndarray, lookup: Lookup, out: np.ndarray) -> None:
    lookup.rank_integers(values.view(np.int64), out)
    for index in np.flatnonzero(values > np.uint64((1 << 63) - 1)).tolist():
        out[index] = lookup.rank_number(int(values[index]))


def _rank_moments(values: np.ndarray, unit: int, lookup: Lookup, out: np.ndarray) -> None:
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


def _values(array: pa.Array, dtype: type) -> np.ndarray:
    """The data buffer of a primitive array as NumPy sees it; null cells hold anything."""
    return np.frombuffer(array.buffers()[1], dtype)[array.offset : array.offset + len(array)]


def _text_buffers(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
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
        kind = array.type
        if isinstance(kind, pa.BaseExtensionType):
            is_bool = kind.extension_name == "arrow.bool8"
            array = pc.not_equal(array.storage, 0) if is_bool else array.storage
        elif _types.is_run_end_encoded(kind):
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
