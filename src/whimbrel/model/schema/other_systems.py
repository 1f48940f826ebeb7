"""Schemas of other systems as one event type: Arrow, Spark, JSON Schema.

Fields below an object have dotted names; a field in an array may have several values or none. A field whose type has no
domain is a problem; all problems are raised together. `ignore` leaves attributes out.

A schema of Spark is read from its JSON form, so that Spark itself is not needed. Of a JSON Schema it reads `type`,
`properties`, `required`, `items`, `enum` and `const` of texts, bounds of numbers, the formats `date-time` and `date`,
and references within the document. Alternatives (`anyOf` and the like) are a problem. Other keywords are ignored, so
that the schema may accept more than the JSON Schema does.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from whimbrel.model.limits import EVENT_ATTRIBUTES, EVENT_DEPTH
from whimbrel.model.schema.definitions import SchemaDefinitions, Use
from whimbrel.model.schema.domains import Boolean, Domain, Enumeration, Instant, Number, String
from whimbrel.model.schema.errors import InvalidSchema, SchemaError

_DECIMAL = re.compile(r"decimal\(\s*\d+\s*,\s*(-?\d+)\s*\)")
_SPARK_DOMAINS: Mapping[str, Domain] = {
    **dict.fromkeys(("byte", "short", "integer", "long"), Number("integer")),
    **dict.fromkeys(("float", "double"), Number("float")),
    **dict.fromkeys(("timestamp", "timestamp_ntz", "date"), Instant()),
    "boolean": Boolean(),
    "string": String(),
}
_EITHER = ("anyOf", "oneOf", "allOf", "not", "if", "patternProperties")


class _Fields:
    """The attributes found so far, and the problems."""

    def __init__(self, ignore: Collection[str] = ()) -> None:
        self.ignore = frozenset(ignore)
        self.domains: dict[str, Domain] = {}
        self.uses: dict[str, Use] = {}
        self.problems: list[SchemaError] = []

    def add(self, name: str, domain: Domain, use: Use) -> None:
        """Add an attribute with its domain."""
        if name in self.ignore:
            return
        known = self.domains.get(name)
        if known is not None and known != domain:
            self.problem(name, f"Expected one domain, but got {known} and {domain}")
        self.domains[name] = domain
        self.uses[name] = use if known is None else Use(use.mandatory or self.uses[name].mandatory, multiple=True)

    def problem(self, name: str, problem: str) -> None:
        """Add a problem with an attribute."""
        if name not in self.ignore:
            self.problems.append(SchemaError(problem, name))

    def definitions(self, type: str) -> SchemaDefinitions:
        """The definitions of a schema with one event type, which is the default one."""
        if self.problems:
            raise InvalidSchema(self.problems)
        state = SchemaDefinitions(default_type=type)
        if state.type_attribute in self.domains:
            name = state.type_attribute
            raise InvalidSchema([SchemaError(f"Expected another name, because {name!r} holds the types", name)])
        for name, domain in self.domains.items():
            state = state.with_attribute_of(name, domain)
        return state.with_type(type, self.uses)


def _below(prefix: str, name: str) -> str:
    """The attribute of a field below another."""
    return f"{prefix}.{name}" if prefix else name


def read_arrow(schema: Any, type: str, ignore: Collection[str]) -> SchemaDefinitions:
    """The definitions of a schema with one event type for the rows of tables with this Arrow schema."""
    fields = _Fields(ignore)
    _read_arrow(schema, "", Use(mandatory=True), fields)
    return fields.definitions(type)


def _read_arrow(columns: Iterable[Any], prefix: str, use: Use, fields: _Fields) -> None:
    for column in columns:
        mandatory = use.mandatory and not column.nullable
        _arrow_column(column.type, _below(prefix, column.name), Use(mandatory, use.multiple), fields)


def _arrow_column(kind: Any, name: str, use: Use, fields: _Fields) -> None:
    from pyarrow import types

    if hasattr(kind, "storage_type"):
        _arrow_column(kind.storage_type, name, use, fields)
    elif types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        _arrow_column(kind.value_type, name, use, fields)
    elif types.is_struct(kind):
        _read_arrow(kind, name, use, fields)
    elif types.is_nested(kind) and not types.is_map(kind) and not types.is_union(kind):  # lists of all kinds
        _arrow_column(kind.value_type, name, Use(mandatory=False, multiple=True), fields)
    elif (domain := _arrow_domain(kind)) is not None:
        fields.add(name, domain, use)
    else:
        fields.problem(name, f"Expected booleans, numbers, text, timestamps, lists or structs, but got {kind}")


def _arrow_domain(kind: Any) -> Domain | None:
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
    fields = _Fields(ignore)
    _read_spark(schema, "", Use(mandatory=True), fields)
    return fields.definitions(type)


def _read_spark(struct: Mapping[str, object], prefix: str, use: Use, fields: _Fields) -> None:
    columns = struct.get("fields")
    for column in columns if isinstance(columns, list) else [columns]:
        if not isinstance(column, Mapping) or not isinstance(column.get("name"), str):
            fields.problem(prefix or "$", f"Expected a field with a name, but got {column!r}")
            continue
        mandatory = use.mandatory and column.get("nullable") is False
        _spark_column(column.get("type"), _below(prefix, column["name"]), Use(mandatory, use.multiple), fields)


def _spark_column(kind: object, name: str, use: Use, fields: _Fields) -> None:
    if isinstance(kind, Mapping) and kind.get("type") == "struct":
        _read_spark(kind, name, use, fields)
    elif isinstance(kind, Mapping) and kind.get("type") == "array":
        _spark_column(kind.get("elementType"), name, Use(mandatory=False, multiple=True), fields)
    elif (domain := _spark_domain(kind)) is not None:
        fields.add(name, domain, use)
    else:
        shown = kind.get("type") if isinstance(kind, Mapping) else kind
        fields.problem(name, f"Expected booleans, numbers, text, timestamps, arrays or structs, but got {shown}")


def _spark_domain(kind: object) -> Domain | None:
    if not isinstance(kind, str):
        return None
    decimal = _DECIMAL.fullmatch(kind)
    if decimal:
        scale = int(decimal[1])
        return Number("decimal", scale=scale) if scale >= 0 else Number("decimal")
    if kind.startswith(("varchar(", "char(", "string ")):
        return String()
    return _SPARK_DOMAINS.get(kind)


def read_json_schema(document: object, type: str, ignore: Collection[str]) -> SchemaDefinitions:
    """The definitions of a schema with one event type for the objects that a JSON Schema describes."""
    if not isinstance(document, Mapping):
        raise SchemaError(f"Expected a JSON Schema, but got {document!r}", "$")
    reader = _JsonReader(document, _Fields(ignore))
    root = reader.resolved(document, "$")
    if not isinstance(root.get("properties"), Mapping):
        raise SchemaError("Expected the schema of an object with properties", "$")
    reader.read_object(root, "", Use(mandatory=True), 0)
    return reader.fields.definitions(type)


class _JsonReader:
    def __init__(self, document: Mapping[str, object], fields: _Fields) -> None:
        self.document = document
        self.fields = fields
        self.count = 0

    def read_object(self, item: Mapping[str, object], prefix: str, use: Use, depth: int) -> None:
        """Read the properties of an object."""
        EVENT_DEPTH.check(depth, prefix or "$")
        self._refuse(item, prefix or "$")
        properties, required = item.get("properties"), item.get("required", [])
        assert isinstance(properties, Mapping)
        for name, inner in properties.items():
            mandatory = use.mandatory and isinstance(required, list) and name in required
            self.read(inner, _below(prefix, str(name)), Use(mandatory, use.multiple), depth + 1)

    def read(self, item: object, name: str, use: Use, depth: int) -> None:
        """Read a property. References to one schema from many places read it again and again, so they are counted."""
        self.count += 1
        EVENT_ATTRIBUTES.check(self.count, name)
        if not isinstance(item, Mapping):
            self.fields.problem(name, f"Expected a schema, but got {item!r}")
            return
        item = self.resolved(item, name)
        self._refuse(item, name)
        kinds = item.get("type", [])
        names = [kinds] if isinstance(kinds, str) else list(kinds) if isinstance(kinds, list) else []
        if "null" in names:
            use = Use(mandatory=False, multiple=use.multiple)
            names.remove("null")
        kind = names[0] if len(names) == 1 else "object" if "properties" in item and not names else None
        if kind == "object" and isinstance(item.get("properties"), Mapping):
            self.read_object(item, name, use, depth)
        elif kind == "array" and "items" in item:
            EVENT_DEPTH.check(depth, name)
            self.read(item["items"], name, Use(mandatory=False, multiple=True), depth + 1)
        elif (domain := self._domain(kind, item, name)) is not None:
            self.fields.add(name, domain, use)

    def resolved(self, item: Mapping[str, object], name: str) -> Mapping[str, object]:
        """The schema itself, or the one in this document that it refers to."""
        seen = 0
        while isinstance(reference := item.get("$ref"), str) and seen <= EVENT_DEPTH.value:
            seen += 1
            found: object = self.document
            for step in reference.removeprefix("#").split("/")[1:]:
                found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
            if not reference.startswith("#") or not isinstance(found, Mapping):
                self.fields.problem(name, f"Expected a reference within the document, but got {reference!r}")
                return {"type": "string"}
            item = found
        return item

    def _refuse(self, item: Mapping[str, object], name: str) -> None:
        for word in _EITHER:
            if word in item:
                self.fields.problem(name, f"Expected one type of values, but got {word}")

    def _domain(self, kind: object, item: Mapping[str, object], name: str) -> Domain | None:
        listed = item.get("enum", [item["const"]] if "const" in item else None)
        if isinstance(listed, list) and kind in (None, "string"):
            texts = [value for value in listed if value is not None]
            if texts and all(isinstance(value, str) for value in texts):
                return Enumeration(tuple(dict.fromkeys(texts)))
            self.fields.problem(name, f"Expected an enumeration of texts, but got {listed!r}")
            return None
        if kind == "string":
            return Instant() if item.get("format") in ("date-time", "date") else String()
        if kind == "boolean":
            return Boolean()
        if kind in ("integer", "number"):
            return self._number(kind == "integer", item, name)
        self.fields.problem(name, f"Expected one type of values, but got {item.get('type')!r}")
        return None

    def _number(self, whole: bool, item: Mapping[str, object], name: str) -> Domain | None:
        """Numbers within the bounds; an exclusive bound counts as inclusive, except for integers."""
        low = _bound(item.get("minimum"), item.get("exclusiveMinimum"), whole, 1)
        high = _bound(item.get("maximum"), item.get("exclusiveMaximum"), whole, -1)
        try:
            return Number("integer" if whole else "float", low, high)
        except SchemaError as error:
            self.fields.problem(name, error.problem)
            return None


def _bound(inclusive: object, exclusive: object, whole: bool, inwards: int) -> int | float | None:
    bounds: list[int | float] = []
    for bound, excluded in ((inclusive, False), (exclusive, True)):
        if isinstance(bound, int | float) and not isinstance(bound, bool):
            if not whole:
                bounds.append(bound)
            elif excluded:
                bounds.append(math.floor(bound) + 1 if inwards > 0 else math.ceil(bound) - 1)
            else:
                bounds.append(math.ceil(bound) if inwards > 0 else math.floor(bound))
    return None if not bounds else max(bounds) if inwards > 0 else min(bounds)
