"""Turns flat objects into a table and checks it against a schema, column by column.

An object is left out if it is nested, has a null, a list, an attribute that the schema lacks, or a value of another
type: `typed_batches.TypedEvents` reads it by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from whimbrel.engine.matching.typed_events import coded_table
from whimbrel.model.limits import EVENT_ATTRIBUTES
from whimbrel.model.schema import Boolean, Domain, Instant, Number
from whimbrel.ranks.columns import column_values

if TYPE_CHECKING:
    from whimbrel.model.schema import Schema

Objects = Sequence[Mapping[str, Any] | None]
_NOTHING = type(None)
_EXACT = 1 << 53
"""Floats represent all integers up to this one exactly."""
_HUGE = float(1 << 63)
"""Floats from this one on may have been integers, which quick readers of JSON round."""


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
            coded = _coded(schema, columns)
            return None if coded is None else (np.array(rows, np.int64), coded)
        rows = [row for place, row in enumerate(rows) if place not in odd]
    return None


def _odd(schema: Schema, found: Sequence[Mapping[str, Any]], columns: Mapping[str, list[Any]]) -> set[int]:
    """The places of the objects that cannot be rows of a table."""
    odd: set[int] = set()
    for name, values in columns.items():
        allowed = {*_types(schema.attributes.get(name)), _NOTHING}
        if not allowed.issuperset(map(type, values)):
            odd.update(place for place, value in enumerate(values) if type(value) not in allowed)
    if sum(map(len, found)) > sum(len(values) - values.count(None) for values in columns.values()):
        for place, one in enumerate(found):
            if any(value is None or name not in columns for name, value in one.items()):
                odd.add(place)
    return odd


def _types(domain: Domain | None) -> set[type]:
    """The Python types of values that a column may have; `domain` is None for the attribute that has the event type."""
    if isinstance(domain, Number):
        return {int, float}
    return {bool} if isinstance(domain, Boolean) else {str}


def _coded(schema: Schema, columns: Mapping[str, list[Any]]) -> pa.Table | None:
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
        return _numbers(values)
    texts = pa.array(values, pa.string())
    return _moments(texts) if isinstance(domain, Instant) else texts


def _numbers(values: list[Any]) -> pa.Array | None:
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
