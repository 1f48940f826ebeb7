"""The quick look at objects: what it finds valid is valid, and has the values that the rules themselves give it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.engine.matching.furniture import furniture
from whimbrel import Schema
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.event import Event
from whimbrel.model.schema.quick_check import QuickCheck

DOCUMENT: dict[str, Any] = {
    "type_attribute": "kind.of",
    "default_type": "sale",
    "domains": {
        "size": {"kind": "enumerated", "values": ["s", "m", "l"], "order": [["s", "m", "l"]]},
        "colour": {"kind": "enumerated", "values": ["red", "blue"]},
        "percent": {"kind": "integer", "minimum": 0, "maximum": 100},
        "money": {"kind": "decimal", "scale": 2},
    },
    "attributes": {
        "size": "size", "colour": "colour", "share": "percent", "price": "money", "any": "float", "text": "string",
        "on": "boolean", "when": "timestamp", "a.b": "integer", "a.c": "string",
    },
    "types": {
        "sale": {
            "size": "optional multiple", "colour": "optional", "share": "optional", "price": "optional multiple",
            "any": "optional", "text": "optional multiple", "on": "optional", "when": "optional multiple",
            "a.b": "optional", "a.c": "optional",
        },
        "rent": {"a.b": "mandatory", "size": "mandatory", "on": "optional"},
    },
}  # fmt: skip
scalars = st.one_of(
    st.sampled_from(
        ["s", "m", "l", "xl", "red", "blue", "sale", "rent", "2026-01-01", "2026-13-01", "caf\xe9", "\ud800"]
    ),
    st.sampled_from([0, 1, 100, 101, -1, 2**63 - 1, 2**63, -(2**63), 10**30, 1.0, 1.25, 1.255, -0.0, 1e300]),
    st.sampled_from([float("nan"), float("inf"), True, False, None]),
)
values = scalars | st.lists(scalars, max_size=3) | st.just([{"b": 1}]) | st.just([["s"]])
names = st.sampled_from([*DOCUMENT["attributes"], "kind.of", "kind", "of", "a", "b", "c", "strange"])
objects = st.dictionaries(names, values | st.dictionaries(names, values | st.dictionaries(names, values, max_size=2)))


@given(objects)
@example({"a": {"b": 1}, "a.b": 1})
@example({"kind": {"of": "rent"}, "a": {"b": 1}, "size": "m"})
@example({"kind": {"of": "rent"}, "a": {"b": None}, "size": "m"})
@example({"size": [], "kind.of": "rent", "a.b": 1})
@example({1: 2})
def test_what_is_found_valid_is_valid_and_has_the_same_values(event: dict[str, Any]) -> None:
    schema = Schema.from_document(DOCUMENT)
    quick = QuickCheck(schema._state)
    coded = quick.coded(event)
    if coded is not None:
        read, found = schema.read(event), Event(coded, quick.instants)
        assert set(read.attributes) == set(found.attributes)
        for name in read.attributes:
            assert set(read.keys(name)) == set(found.keys(name)), name
    assert outcome(schema.read, event) == outcome(lambda one: Event.of(*schema.read_for_match(one)), event)


def outcome(read: Callable[[dict[str, Any]], Event], event: dict[str, Any]) -> object:
    """The names of an event that was read, or the error."""
    try:
        return set(read(event).attributes)
    except WhimbrelError as error:
        return type(error), str(error)


def test_ordinary_events_are_found_valid() -> None:
    quick = QuickCheck(furniture()._state)
    same = {"kind": "table", "event_type": "sale"}
    assert quick.coded(same) == {"kind": 3, "event_type": "sale"}
    rent = {"event_type": "rent", "price": 1.25}
    assert quick.coded(rent) is rent
    assert quick.coded({"kind": "table", "tags": ["a", "b"], "when": "2026-01-01", "share": None}) is not None
    assert quick.coded({"kind": "desk"}) is None and quick.coded({}) is None
    nested = QuickCheck(Schema.from_document(DOCUMENT)._state)
    assert nested.coded({"a": {"b": 1, "c": "x"}}) == {"a.b": 1, "a.c": "x", "kind.of": "sale"}


def test_a_schema_that_grows_is_looked_at_anew() -> None:
    schema = Schema.from_document({"default_type": "sale", "types": {"sale": {}}})
    assert not schema.violations({}) and schema.violations({"price": 1})
    assert schema.read_for_match({})[0] == {"event_type": "sale"}
    schema.create_attribute("price", "float")
    schema.extend_type("sale", "price")
    assert schema.read_for_match(json.dumps({"price": 1}))[0] == {"event_type": "sale", "price": 1}
