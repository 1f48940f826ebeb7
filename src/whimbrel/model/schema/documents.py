"""A schema as a document: plain dicts, lists and texts, in TOML or JSON files.

    type_attribute = "event_type"
    [domains.period]
    kind = "enumerated"
    values = ["XVI", "XVII"]
    [attributes]
    period = "period"
    [types.antiques]
    period = "optional"

Reading collects every problem before it refuses.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from whimbrel.model.schema.definitions import BUILT_IN, SchemaDefinitions, Use
from whimbrel.model.schema.domains import Boolean, Domain, Enumeration, Instant, Number, String
from whimbrel.model.schema.errors import InvalidSchema, SchemaError, did_you_mean
from whimbrel.model.schema.ordered import Hierarchy, OrderedEnumeration

_PARTS = ("version", "type_attribute", "default_type", "own_type_attribute", "domains", "attributes", "types")
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "integer": ("minimum", "maximum"),
    "float": ("minimum", "maximum"),
    "decimal": ("minimum", "maximum", "scale"),
    "string": (),
    "boolean": (),
    "timestamp": (),
    "enumerated": ("values", "order"),
    "hierarchical": ("children",),
}
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_PLAIN: Mapping[str, Domain] = {"string": String(), "boolean": Boolean(), "timestamp": Instant()}


def load(path: str | os.PathLike[str]) -> object:
    """Read the document in a file: JSON if its name ends in .json, else TOML; SchemaError if it does not parse."""
    data = Path(path).read_bytes()
    format = "JSON" if os.fspath(path).endswith(".json") else "TOML"
    try:
        return json.loads(data) if format == "JSON" else tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"Expected a schema in {format}: {error}", str(path)) from None


def dump(document: Mapping[str, object], path: str | os.PathLike[str]) -> None:
    """Write a document to a file: JSON if its name ends in .json, else TOML."""
    Path(path).write_text(to_text(document, os.fspath(path).endswith(".json")), encoding="utf-8")


def to_text(document: Mapping[str, object], as_json: bool = False) -> str:
    """The document as the text of a file."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n" if as_json else to_toml(document)


def read(document: object) -> SchemaDefinitions:
    """The definitions of a document; InvalidSchema with every problem if there are any."""
    problems: list[SchemaError] = []
    parts = _parts(document, problems)
    base = SchemaDefinitions(
        _text(parts, "type_attribute", problems) or "event_type",
        _text(parts, "default_type", problems),
        own_type_attribute=_text(parts, "own_type_attribute", problems),
    )
    state = _grown(base, parts, problems)
    if state.default_type is not None and state.default_type not in state.types:
        hint = did_you_mean(state.default_type, state.types)
        problems.append(SchemaError(f"Expected an event type, but got {state.default_type!r}{hint}", "default_type"))
    version = parts.get("version", 0)
    if isinstance(version, int) and not isinstance(version, bool) and version >= 0:
        state = replace(state, version=version)
    else:
        problems.append(SchemaError(f"Expected a whole number of at least 0, but got {version!r}", "version"))
    if problems:
        raise InvalidSchema(problems)
    return state


def extended(state: SchemaDefinitions, document: object) -> SchemaDefinitions:
    """The definitions together with those of a document; raises all conflicts and other problems."""
    problems: list[SchemaError] = []
    parts = _parts(document, problems)
    for name in ("type_attribute", "default_type", "own_type_attribute"):
        known = getattr(state, name)
        given = _text(parts, name, problems)
        if given not in (None, known):
            problems.append(
                SchemaError(f"Expected {name} to stay {known!r}, but the extension makes it {given!r}", name)
            )
    new = _grown(state, parts, problems)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise InvalidSchema(problems)
    return new


def _parts(document: object, problems: list[SchemaError]) -> Mapping[str, object]:
    if not isinstance(document, Mapping):
        raise InvalidSchema([SchemaError(f"Expected an object, but got {type(document).__name__}", "$")])
    for name in document:
        if name not in _PARTS:
            hint = did_you_mean(str(name), _PARTS)
            problems.append(SchemaError(f"Expected {', '.join(_PARTS)}, but got {name!r}{hint}", str(name)))
    return document


def _grown(state: SchemaDefinitions, parts: Mapping[str, object], problems: list[SchemaError]) -> SchemaDefinitions:
    """The definitions after every extension that the document asks for; those with a problem are skipped."""
    for name, item in _table(parts, "domains", problems).items():
        state = _attempt(problems, state, _with_domain, name, item)
    for name, item in _table(parts, "attributes", problems).items():
        state = _attempt(problems, state, SchemaDefinitions.with_attribute, name, item)
    for name, item in _table(parts, "types", problems).items():
        state = _attempt(problems, state, _with_type, name, item, problems)
    return state


def read_domain(item: object, path: str) -> Domain:
    """The domain that a document defines; SchemaError with the path."""
    if not isinstance(item, Mapping):
        raise SchemaError(f"Expected a table with the kind of the domain, but got {item!r}", path)
    kind = item.get("kind")
    if not isinstance(kind, str) or kind not in _FIELDS:
        hint = did_you_mean(str(kind), _FIELDS)
        raise SchemaError(f"Expected {', '.join(_FIELDS)}, but got {kind!r}{hint}", f"{path}.kind")
    known = ("kind", *_FIELDS[kind])
    for name in item:
        if name not in known:
            problem = f"Expected {', '.join(known)} for a domain of kind {kind}, but got {name!r}"
            raise SchemaError(problem, f"{path}.{name}")
    try:
        return _domain(kind, {name: value for name, value in item.items() if name != "kind"})
    except SchemaError as error:
        raise SchemaError(error.problem, f"{path}.{error.path}") from None


def _domain(kind: str, fields: dict[str, object]) -> Domain:
    """The domain with these fields; its class checks them."""
    if kind == "enumerated":
        values, order = fields.get("values"), fields.get("order")
        if order:
            return OrderedEnumeration(values, order)  # type: ignore[arg-type]
        return Enumeration(values)  # type: ignore[arg-type]
    if kind == "hierarchical":
        return Hierarchy(fields.get("children"))  # type: ignore[arg-type]
    return _PLAIN.get(kind) or Number(kind, **fields)  # type: ignore[arg-type]


def _with_domain(state: SchemaDefinitions, name: str, item: object) -> SchemaDefinitions:
    return state.with_domain(name, read_domain(item, f"domains.{name}"))


def _with_type(state: SchemaDefinitions, name: str, item: object, problems: list[SchemaError]) -> SchemaDefinitions:
    if not isinstance(item, Mapping):
        raise SchemaError(f"Expected a table of attributes, but got {item!r}", f"types.{name}")
    uses: dict[str, Use] = {}
    for attribute, use in item.items():
        path = f"types.{name}.{attribute}"
        try:
            state.check_attribute(attribute, path)
            uses[attribute] = Use.of(use, path)
        except SchemaError as error:
            problems.append(error)
    if name not in state.types:
        return state.with_type(name, uses)
    for attribute, one in uses.items():
        state = _attempt(problems, state, SchemaDefinitions.with_use, name, attribute, one)
    return state


def _attempt(
    problems: list[SchemaError], state: SchemaDefinitions, step: Callable[..., SchemaDefinitions], *arguments: object
) -> SchemaDefinitions:
    """The definitions after a step; unchanged, and the problem noted, if it has one."""
    try:
        return step(state, *arguments)
    except SchemaError as error:
        problems.append(error)
        return state


def _text(document: Mapping[str, object], name: str, problems: list[SchemaError]) -> str | None:
    value = document.get(name)
    if value is None or (isinstance(value, str) and value):
        return value
    problems.append(SchemaError(f"Expected a name, but got {value!r}", name))
    return None


def _table(document: Mapping[str, object], name: str, problems: list[SchemaError]) -> Mapping[str, object]:
    value = document.get(name, {})
    if isinstance(value, Mapping):
        return value
    problems.append(SchemaError(f"Expected a table, but got {value!r}", name))
    return {}


def written(state: SchemaDefinitions) -> dict[str, object]:
    """Turn definitions into a document of plain dicts, lists and texts."""
    document: dict[str, object] = {"version": state.version, "type_attribute": state.type_attribute}
    if state.default_type is not None:
        document["default_type"] = state.default_type
    if state.own_type_attribute is not None:
        document["own_type_attribute"] = state.own_type_attribute
    domains = {name: domain.definition() for name, domain in state.domains.items() if name not in BUILT_IN}
    if domains:
        document["domains"] = domains
    document["attributes"] = dict(state.domain_names)
    document["types"] = {
        name: {attribute: str(use) for attribute, use in uses.items()} for name, uses in state.types.items()
    }
    return document


def to_toml(document: Mapping[str, object]) -> str:
    """A document of plain dicts, lists, texts, numbers and booleans as TOML, tables after plain values.

    >>> print(to_toml({"version": 1, "types": {"bid": {"a.b": ["x"]}}}), end="")
    version = 1
    <BLANKLINE>
    [types.bid]
    "a.b" = ["x"]
    """
    return "\n".join(_toml_table(document, ())).strip("\n") + "\n"


def _toml_table(table: Mapping[str, object], path: tuple[str, ...]) -> list[str]:
    plain = {name: value for name, value in table.items() if not isinstance(value, Mapping)}
    nested = {name: value for name, value in table.items() if isinstance(value, Mapping)}
    lines: list[str] = []
    if path and (plain or not nested):
        lines += ["", f"[{'.'.join(map(_toml_name, path))}]"]
    lines += [f"{_toml_name(name)} = {_toml_value(value)}" for name, value in plain.items()]
    for name, value in nested.items():
        lines += _toml_table(value, (*path, name))
    return lines


def _toml_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _toml_string(value)
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_toml_value, value))}]"
    return repr(value)


def _toml_name(name: str) -> str:
    return name if _BARE.fullmatch(name) else _toml_string(name)


def _toml_string(text: str) -> str:
    shown = (_ESCAPES.get(c) or (c if c >= " " and c != "\x7f" else f"\\u{ord(c):04x}") for c in text)
    return f'"{"".join(shown)}"'
