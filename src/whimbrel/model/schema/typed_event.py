"""The check of an event against a schema: the consistency rules R1 to R3, and the values in coded form.

R1: the event has known types. R2: its mandatory attributes have values, and all values are in their domains. R3: it has
no attributes that the view of its types does not have. An event that lacks a mandatory attribute breaks R2 only
(ERR-10b, docs/papers.md). A null is no value: a mandatory attribute needs another, an optional one may be null.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from whimbrel.model.constraint import NULL_KEY
from whimbrel.model.event import Elements, Event
from whimbrel.model.schema.definitions import Use
from whimbrel.model.schema.errors import Violation, did_you_mean
from whimbrel.model.schema.ordered import Ordered
from whimbrel.model.values import STRING, SortKey, Timestamp, Value, from_key

if TYPE_CHECKING:
    from whimbrel.model.schema.schema import Schema

_SHOWN = 8
_HINTED = 8
"""Violations of an event with a hint at what was meant, at most: to find the nearest name takes milliseconds."""
_ANY = Use(mandatory=False, multiple=True)

View: TypeAlias = Mapping[str, Use]


class TypedEvent(Event):
    """A valid event with its values coded by `schema`; `plain` is the event before."""

    __slots__ = ("_plain", "schema")

    def __init__(self, schema: Schema, plain: Event, codes: Mapping[str, Mapping[SortKey, SortKey]]) -> None:
        """Take the coded keys of each attribute that `schema` codes or adds; the others stay as they are.

        The type attribute has no code for null: an event whose type is null has the default type in its place.
        """
        self.schema = schema
        self._plain = plain
        self.has_elements = plain.has_elements
        self._keys = {name: plain.keys(name) for name in plain.attributes}
        for name, coded in codes.items():
            self._keys[name] = tuple(dict.fromkeys(coded.values()))
        self._occurrences = None if plain._occurrences is None else _recoded(plain._occurrences, codes)

    @property
    def plain(self) -> Event:
        return self._plain

    def values(self, name: str) -> tuple[Value | None, ...]:
        """An attribute's values, in the user's words."""
        domain = self.schema.domain_of(name)
        if isinstance(domain, Ordered):
            return tuple(None if key == NULL_KEY else from_key(domain.word(key)) for key in self.keys(name))
        return super().values(name)


def _recoded(
    found: Mapping[str, list[tuple[SortKey, Elements]]], codes: Mapping[str, Mapping[SortKey, SortKey]]
) -> dict[str, list[tuple[SortKey, Elements]]]:
    """The occurrences with their keys coded. A key that is only in the codes, because the schema adds it, is outside of
    all arrays."""
    out = dict(found)
    for name, coded in codes.items():
        occurrences = found.get(name, [])
        seen = {key for key, _ in occurrences}
        out[name] = [(coded[key], elements) for key, elements in occurrences if key in coded]
        out[name] += [(code, ()) for key, code in coded.items() if key not in seen]
    return out


def check_event(schema: Schema, event: Event) -> tuple[list[Violation], dict[str, dict[SortKey, SortKey]]]:
    """Every violation, and the coded keys of the attributes whose keys change."""
    violations: list[Violation] = []
    codes: dict[str, dict[SortKey, SortKey]] = {}
    types = _types(schema, event, violations, codes)
    view: View = schema.view(types) if types else dict.fromkeys(schema.attributes, _ANY)  # R1 is told, not repeated
    for name, use in view.items():
        if use.mandatory and not event.has_value(name):
            found = "null" if event.keys(name) else "nothing"
            violations.append(Violation("R2", name, schema.attributes[name].expected, found))
    for name in event.attributes:
        if name == schema.type_attribute:
            continue
        used = view.get(name)
        if used is None:
            violations.append(_stray(schema, name, types, view, len(violations) < _HINTED))
            continue
        coded = _values(schema, event, name, used, violations)
        if coded is not None:
            codes[name] = coded
    return violations, codes


def _types(
    schema: Schema, event: Event, violations: list[Violation], codes: dict[str, dict[SortKey, SortKey]]
) -> list[str]:
    """The types that the event has, its own one included, or the default one if it names none (R1)."""
    keys = event.non_null_keys(schema.type_attribute)
    own = () if schema.own_type_attribute is None else event.keys(schema.own_type_attribute)
    added = [key for key in own if key[0] == STRING and key[1] in schema.types and key not in keys]
    if added:
        keys += added
        codes[schema.type_attribute] = {key: key for key in keys}
    if not keys and schema.default_type is not None:
        key: SortKey = (STRING, schema.default_type)
        codes[schema.type_attribute] = {key: key}
        return [schema.default_type]
    known: list[str] = []
    for key in keys:
        if key[0] == STRING and key[1] in schema.types:
            known.append(str(key[1]))
        else:
            is_hinted = key[0] == STRING and len(violations) < _HINTED
            hint = did_you_mean(str(key[1]), schema.types) if is_hinted else ""
            violations.append(Violation("R1", schema.type_attribute, "an event type", key_text(key) + hint))
    if not keys:
        violations.append(Violation("R1", schema.type_attribute, "at least one event type", "nothing"))
    return known


def _values(
    schema: Schema, event: Event, name: str, use: Use, violations: list[Violation]
) -> dict[SortKey, SortKey] | None:
    """The coded keys of an attribute if they differ from its keys (R2)."""
    domain = schema.attributes[name]
    keys = event.keys(name)
    coded = {key: code for key in keys if (code := NULL_KEY if key == NULL_KEY else domain.code(key)) is not None}
    if len(coded) < len(keys):
        outside = [key for key in keys if key not in coded]
        found = ", ".join(map(key_text, outside[:_SHOWN]))
        more = f" and {len(outside) - _SHOWN:,} more" if len(outside) > _SHOWN else ""
        is_hinted = outside[0][0] == STRING and len(violations) < _HINTED
        hint = did_you_mean(str(outside[0][1]), domain.suggestions()) if is_hinted else ""
        violations.append(Violation("R2", name, domain.expected, found + more + hint))
    if len(keys) > 1 and not use.multiple:
        count = len(set(coded.values()) - {NULL_KEY}) + len(keys) - len(coded)
        if count > 1:
            violations.append(Violation("R2", name, "one value", f"{count:,}"))
    return None if tuple(coded.values()) == keys else coded


def _stray(schema: Schema, name: str, types: list[str], view: View, is_hinted: bool) -> Violation:
    """The violation of an attribute that the view does not have (R3)."""
    if name in schema.attributes:
        owners = list(islice((one for one, uses in schema.types.items() if name in uses), _SHOWN + 1))
        more = " and others" if len(owners) > _SHOWN else ""
        hint = f" (an attribute of {', '.join(owners[:_SHOWN])}{more})" if owners else ""
    else:
        hint = did_you_mean(name, view) if is_hinted else ""
    of = f"of {' and '.join(types)}" if types else "of some event type"
    return Violation("R3", name, f"only attributes {of}", f"{name!r}{hint}")


def key_text(key: SortKey) -> str:
    """A value as text for an error message."""
    if key == NULL_KEY:
        return "null"
    value = from_key(key)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, Timestamp):
        return f"TIMESTAMP '{value}'"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
