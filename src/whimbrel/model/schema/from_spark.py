"""A schema of Spark as one event type. It is read from its JSON form, so that Spark itself is not needed."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping

from whimbrel.model.schema.definitions import SchemaDefinitions, Use
from whimbrel.model.schema.domains import Boolean, Domain, Instant, Number, String
from whimbrel.model.schema.errors import SchemaError
from whimbrel.model.schema.fields import Fields, below

_DECIMAL = re.compile(r"decimal\(\s*\d+\s*,\s*(-?\d+)\s*\)")
_DOMAINS: Mapping[str, Domain] = {
    **dict.fromkeys(("byte", "short", "integer", "long"), Number("integer")),
    **dict.fromkeys(("float", "double"), Number("float")),
    **dict.fromkeys(("timestamp", "timestamp_ntz", "date"), Instant()),
    "boolean": Boolean(),
    "string": String(),
}


def read_spark(schema: object, type: str, ignore: Collection[str]) -> SchemaDefinitions:
    """The definitions of a schema with one event type for data frames with this StructType, or its JSON form."""
    as_json = getattr(schema, "json", None)
    if callable(as_json):
        schema = as_json()
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except ValueError as error:
            raise SchemaError(f"Expected the JSON form of a StructType: {error}", "$") from None
    if not isinstance(schema, Mapping) or schema.get("type") != "struct":
        raise SchemaError(f"Expected a StructType or its JSON form, but got {schema!r}", "$")
    fields = Fields(ignore)
    _read(schema, "", Use(mandatory=True), fields)
    return fields.definitions(type)


def _read(struct: Mapping[str, object], prefix: str, use: Use, fields: Fields) -> None:
    columns = struct.get("fields")
    for column in columns if isinstance(columns, list) else [columns]:
        if not isinstance(column, Mapping) or not isinstance(column.get("name"), str):
            fields.problem(prefix or "$", f"Expected a field with a name, but got {column!r}")
            continue
        mandatory = use.mandatory and column.get("nullable") is False
        _column(column.get("type"), below(prefix, column["name"]), Use(mandatory, use.multiple), fields)


def _column(kind: object, name: str, use: Use, fields: Fields) -> None:
    if isinstance(kind, Mapping) and kind.get("type") == "struct":
        _read(kind, name, use, fields)
    elif isinstance(kind, Mapping) and kind.get("type") == "array":
        _column(kind.get("elementType"), name, Use(mandatory=False, multiple=True), fields)
    elif (domain := _domain(kind)) is not None:
        fields.add(name, domain, use)
    else:
        shown = kind.get("type") if isinstance(kind, Mapping) else kind
        fields.problem(name, f"Expected booleans, numbers, text, timestamps, arrays or structs, but got {shown}")


def _domain(kind: object) -> Domain | None:
    if not isinstance(kind, str):
        return None
    decimal = _DECIMAL.fullmatch(kind)
    if decimal:
        scale = int(decimal[1])
        return Number("decimal", scale=scale) if scale >= 0 else Number("decimal")
    if kind.startswith(("varchar(", "char(", "string ")):
        return String()
    return _DOMAINS.get(kind)
