"""A schema of Arrow as one event type."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from whimbrel.model.schema.definitions import SchemaDefinitions, Use
from whimbrel.model.schema.domains import Boolean, Domain, Instant, Number, String
from whimbrel.model.schema.fields import Fields, below


def read_arrow(schema: Any, type: str, ignore: Collection[str]) -> SchemaDefinitions:
    """The definitions of a schema with one event type for the rows of tables with this Arrow schema."""
    fields = Fields(ignore)
    _read(schema, "", Use(mandatory=True), fields)
    return fields.definitions(type)


def _read(columns: Iterable[Any], prefix: str, use: Use, fields: Fields) -> None:
    for column in columns:
        mandatory = use.mandatory and not column.nullable
        _column(column.type, below(prefix, column.name), Use(mandatory, use.multiple), fields)


def _column(kind: Any, name: str, use: Use, fields: Fields) -> None:
    from pyarrow import types

    if hasattr(kind, "storage_type"):
        _column(kind.storage_type, name, use, fields)
    elif types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        _column(kind.value_type, name, use, fields)
    elif types.is_struct(kind):
        _read(kind, name, use, fields)
    elif types.is_nested(kind) and not types.is_map(kind) and not types.is_union(kind):  # lists of all kinds
        _column(kind.value_type, name, Use(mandatory=False, multiple=True), fields)
    elif (domain := _domain(kind)) is not None:
        fields.add(name, domain, use)
    else:
        fields.problem(name, f"Expected booleans, numbers, text, timestamps, lists or structs, but got {kind}")


def _domain(kind: Any) -> Domain | None:
    from pyarrow import types

    if types.is_boolean(kind):
        return Boolean()
    if types.is_integer(kind):
        return Number("integer")
    if types.is_floating(kind):
        return Number("float")
    if types.is_decimal(kind):
        return Number("decimal", scale=kind.scale) if kind.scale >= 0 else Number("decimal")
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return String()
    return Instant() if types.is_timestamp(kind) or types.is_date(kind) else None
