"""Checks tables and flat objects against a schema, column by column, and replaces ordered values by their codes.

This works for tables of scalar columns in which every row is valid; others are read event by event (`typed_batches`).
Flat objects become such a table. An object is left out if it is nested, has a null, a list, an attribute that the
schema lacks, or a value of another type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from whimbrel.model.limits import EVENT_ATTRIBUTES
from whimbrel.model.schema import Boolean, Domain, Enumeration, Instant, Number, Ordered, String
from whimbrel.ranks.columns import column_values

if TYPE_CHECKING:
    from whimbrel.model.schema import Schema, Use

Objects = Sequence[Mapping[str, Any] | None]
_NOTHING = type(None)
_EXACT = 1 << 53
"""Floats represent all integers up to this one exactly."""
_HUGE = float(1 << 63)
"""Floats from this one on may have been integers, which quick readers of JSON round."""


def coded_table(schema: Schema, table: pa.Table) -> pa.Table | None:
    """The table with codes in its ordered columns, or None if it is not simple or not valid."""
    names = table.column_names
    if len(set(names)) < len(names) or not table.num_rows:
        return None
    found = _types(schema, table) if schema.own_type_attribute is None else None
    if found is None:
        return None
    types, of_row = found
    columns: dict[str, pa.ChunkedArray] = {}
    for name in names:
        column = table.column(name)
        if name != schema.type_attribute:
            domain = schema.attributes.get(name)
            coded = None if domain is None else _coded(domain, column)
            if coded is None:
                return None
            column = coded
        columns[name] = column
    present = {
        name: np.bincount(of_row[_valid(column)], minlength=len(types))
        for name, column in columns.items()
        if name != schema.type_attribute
    }
    rows = np.bincount(of_row, minlength=len(types))
    if not all(_fits(schema.view([type]), present, place, int(rows[place])) for place, type in enumerate(types)):
        return None
    if schema.type_attribute not in columns:
        zeros = pa.array(np.zeros(table.num_rows, np.int32))
        columns[schema.type_attribute] = pa.chunked_array([pa.DictionaryArray.from_arrays(zeros, pa.array(types))])
    return pa.table(columns)


def _types(schema: Schema, table: pa.Table) -> tuple[list[str], np.ndarray] | None:
    """The event types that occur, and the place of each row's type among them; None if a row has no known type."""
    if schema.type_attribute not in table.column_names:
        if schema.default_type is None:
            return None
        return [schema.default_type], np.zeros(table.num_rows, np.int64)
    column = _encoded(table.column(schema.type_attribute))
    if column is None or column.null_count:
        return None
    types = column.dictionary.to_pylist()
    if not all(type in schema.types for type in types):
        return None
    return types, np.asarray(column.indices).astype(np.int64)


def _fits(view: Mapping[str, Use], present: dict[str, np.ndarray], place: int, rows: int) -> bool:
    """Whether the rows of one type have all attributes that the type requires, and only those that it allows."""
    for name, counts in present.items():
        if name not in view and counts[place]:
            return False
    return all(
        not use.mandatory or (name in present and int(present[name][place]) == rows) for name, use in view.items()
    )


def _valid(column: pa.ChunkedArray) -> np.ndarray:
    return np.asarray(column.is_valid().combine_chunks().to_numpy(zero_copy_only=False), bool)


def _coded(domain: Domain, column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """The column in codes, or None if it is not simple or has a value outside the domain."""
    kind, types = column.type, pa.types
    if types.is_null(kind):
        return column
    if isinstance(domain, Number):
        return _numbers(domain, column)
    if isinstance(domain, String):
        return column if _is_text(kind) else None
    if isinstance(domain, Boolean):
        return column if types.is_boolean(kind) else None
    if isinstance(domain, Instant):
        return column if types.is_timestamp(kind) or types.is_date(kind) else None
    encoded = _encoded(column)
    if encoded is None:
        return None
    words = encoded.dictionary.to_pylist()
    if isinstance(domain, Enumeration):
        return column if domain.members.issuperset(words) else None
    assert isinstance(domain, Ordered)
    codes = [domain.codes.get(word) for word in words]
    if None in codes:
        return None
    return pa.chunked_array([pa.array(codes, pa.int32()).take(encoded.indices)])


def _numbers(domain: Number, column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    types = pa.types
    if types.is_float32(column.type) or types.is_float64(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)  # NaN is no value
        if domain.kind != "float" and not _all(pc.is_finite(column)):
            return None
        if domain.kind == "integer" and not _all(pc.equal(pc.floor(column), column)):
            return None
        if domain.scale is not None and not _has_scale(column, domain.scale):
            return None
    elif not types.is_integer(column.type):
        return None
    ends = pc.min_max(column).as_py()
    if ends["min"] is None:
        return column
    if domain.minimum is not None and ends["min"] < domain.minimum:
        return None
    return None if domain.maximum is not None and ends["max"] > domain.maximum else column


def _has_scale(column: pa.ChunkedArray, scale: int) -> bool:
    return all(value is None or round(value, scale) == value for value in pc.unique(column).to_pylist())


def _all(column: pa.ChunkedArray) -> bool:
    return pc.all(column, min_count=0).as_py() is not False


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _encoded(column: pa.ChunkedArray) -> pa.DictionaryArray | None:
    """A column of texts as a dictionary column, whose dictionary has every text once and no unused ones."""
    if not _is_text(column.type):
        return None
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    encoded = column.combine_chunks().dictionary_encode()
    try:
        encoded.dictionary.to_pylist()
    except UnicodeDecodeError:  # the reader of events says where
        return None
    return encoded


def coded_objects(schema: Schema, objects: Objects) -> tuple[np.ndarray, pa.Table] | None:
    """The numbers of flat objects, and their table in codes; None if there are none, or a value is outside its domain.

    Objects that are None are left out.
    """
    if schema.own_type_attribute is not None:
        return None
    rows = [row for row, one in enumerate(objects) if one is not None and 0 < len(one) <= EVENT_ATTRIBUTES.value]
    while rows:
        found: list[Mapping[str, Any]] = [objects[row] for row in rows]  # type: ignore[misc]
        names = [name for name in sorted(set().union(*found), key=str) if name in schema.attributes]
        if schema.type_attribute not in names:
            names.append(schema.type_attribute)
        columns = {name: [one.get(name) for one in found] for name in names}
        odd = _odd(schema, found, columns)
        if not odd:
            coded = _coded_columns(schema, columns)
            return None if coded is None else (np.array(rows, np.int64), coded)
        rows = [row for place, row in enumerate(rows) if place not in odd]
    return None


def _odd(schema: Schema, found: Sequence[Mapping[str, Any]], columns: Mapping[str, list[Any]]) -> set[int]:
    """The places of the objects that cannot be rows of a table."""
    odd: set[int] = set()
    for name, values in columns.items():
        allowed = {*_value_types(schema.attributes.get(name)), _NOTHING}
        if not allowed.issuperset(map(type, values)):
            odd.update(place for place, value in enumerate(values) if type(value) not in allowed)
    if sum(map(len, found)) > sum(len(values) - values.count(None) for values in columns.values()):
        for place, one in enumerate(found):
            if any(value is None or name not in columns for name, value in one.items()):
                odd.add(place)
    return odd


def _value_types(domain: Domain | None) -> set[type]:
    """The Python types of values that a column may have; `domain` is None for the attribute that has the event type."""
    if isinstance(domain, Number):
        return {int, float}
    return {bool} if isinstance(domain, Boolean) else {str}


def _coded_columns(schema: Schema, columns: Mapping[str, list[Any]]) -> pa.Table | None:
    made: dict[str, pa.Array] = {}
    types = [schema.default_type if type is None else type for type in columns[schema.type_attribute]]
    for name, values in {**columns, schema.type_attribute: types}.items():
        try:
            column = _column(schema.attributes.get(name), values)
        except (pa.ArrowException, OverflowError, UnicodeEncodeError):  # integers beyond 64 bits, lone surrogates
            column = None
        if column is None:
            return None
        made[name] = column
    return coded_table(schema, pa.table(made))


def _column(domain: Domain | None, values: list[Any]) -> pa.Array | None:
    if isinstance(domain, Boolean):
        return pa.array(values, pa.bool_())
    if isinstance(domain, Number):
        return _number_column(values)
    texts = pa.array(values, pa.string())
    return _moments(texts) if isinstance(domain, Instant) else texts


def _number_column(values: list[Any]) -> pa.Array | None:
    kinds = set(map(type, values))
    if float not in kinds:
        return pa.array(values, pa.int64())
    if int in kinds and any(type(value) is int and not -_EXACT <= value <= _EXACT for value in values):
        return None
    numbers = pa.array(values, pa.float64())
    known = numbers.drop_null().to_numpy()
    return None if np.isnan(known).any() or (np.abs(known) >= _HUGE).any() else numbers


def _moments(texts: pa.Array) -> pa.Array | None:
    """Texts as timestamps; None if some text is no timestamp in the usual form."""
    read = column_values(texts.drop_null(), is_time=True)
    if read is None:
        return None
    is_null = np.asarray(texts.is_null())
    moments = np.zeros(len(texts), np.int64)
    moments[~is_null] = read[1]
    return pa.array(moments, mask=is_null).cast(pa.timestamp("ns", "UTC"))
