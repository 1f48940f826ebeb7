"""A JSON Schema of objects as one event type.

It reads `type`, `properties`, `required`, `items`, `enum` and `const` of texts, bounds of numbers, the formats
`date-time` and `date`, and references within the document. Alternatives (`anyOf` and the like) are a problem. Other
keywords are ignored, so that the schema may accept more than the JSON Schema does.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from whimbrel.model.limits import EVENT_DEPTH
from whimbrel.model.schema.definitions import SchemaDefinitions, Use
from whimbrel.model.schema.domains import Boolean, Domain, Enumeration, Instant, Number, String
from whimbrel.model.schema.errors import SchemaError
from whimbrel.model.schema.fields import Fields, below

_EITHER = ("anyOf", "oneOf", "allOf", "not", "if", "patternProperties")


def read_json_schema(document: object, type: str, ignore: Collection[str]) -> SchemaDefinitions:
    """The definitions of a schema with one event type for the objects that a JSON Schema describes."""
    if not isinstance(document, Mapping):
        raise SchemaError(f"Expected a JSON Schema, but got {document!r}", "$")
    reader = _Reader(document, Fields(ignore))
    root = reader.resolved(document, "$")
    if not isinstance(root.get("properties"), Mapping):
        raise SchemaError("Expected the schema of an object with properties", "$")
    reader.read_object(root, "", Use(mandatory=True), 0)
    return reader.fields.definitions(type)


class _Reader:
    def __init__(self, document: Mapping[str, object], fields: Fields) -> None:
        self.document = document
        self.fields = fields

    def read_object(self, item: Mapping[str, object], prefix: str, use: Use, depth: int) -> None:
        """Read the properties of an object."""
        EVENT_DEPTH.check(depth, prefix or "$")
        self._refuse(item, prefix or "$")
        properties, required = item.get("properties"), item.get("required", [])
        assert isinstance(properties, Mapping)
        for name, inner in properties.items():
            mandatory = use.mandatory and isinstance(required, list) and name in required
            self.read(inner, below(prefix, str(name)), Use(mandatory, use.multiple), depth + 1)

    def read(self, item: object, name: str, use: Use, depth: int) -> None:
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
