"""Schemas: events against views, rules R1 to R3."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whimbrel import Schema
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.event import Event
from whimbrel.model.schema import (
    InvalidEvent,
    InvalidSchema,
    OrderedEnumeration,
    SchemaError,
    Use,
    attribute_set,
    mandatory_set,
    unique_set,
)
from whimbrel.model.schema.documents import to_text
from whimbrel.model.values import Timestamp

E1 = {
    "event_type": ["antiques", "furniture"],
    "price": 200,
    "quantity": 2,
    "period": "XVI",
    "furniture_category": "table",
}


def found(schema: Schema, event: dict[str, Any]) -> list[tuple[str, str]]:
    return [(violation.rule, violation.path) for violation in schema.violations(event)]


def test_the_papers_event_of_two_types_is_valid(paper: Schema) -> None:
    assert paper.violations(E1) == []
    assert paper.read(E1).values("furniture_category") == ("table",)


def test_the_papers_event_without_a_mandatory_attribute_breaks_r2_alone(paper: Schema) -> None:
    event = {name: value for name, value in E1.items() if name != "furniture_category"}
    assert found(paper, event) == [("R2", "furniture_category")]
    with pytest.raises(InvalidEvent, match=r"R2: Expected .*'table', but got nothing - at furniture_category"):
        paper.read(event)


def test_views_merge_with_mandatory_over_optional_and_multiple_over_unique(paper: Schema) -> None:
    view = {name: str(use) for name, use in paper.view(["furniture", "antiques"]).items()}
    assert view == {
        "price": "mandatory multiple",
        "quantity": "mandatory",
        "period": "mandatory",
        "furniture_category": "mandatory",
    }
    assert str(paper.view(["furniture"])["price"]) == "optional multiple"
    with pytest.raises(SchemaError, match="did you mean 'antiques'"):
        paper.view(["antique"])


def test_a_declared_view_may_leave_out_what_is_optional_in_all_of_its_types(paper: Schema) -> None:
    full = paper.view(["antiques", "furniture"])
    assert paper.declare_view(["antiques", "furniture"], full).uses == full
    view = paper.declare_view(["antiques"], {"price": "mandatory", "period": "mandatory"})
    assert view.types == {"antiques"} and "quantity" not in view.uses


@pytest.mark.parametrize(
    ("uses", "problems"),
    [
        ({"price": "mandatory"}, ["Property 1: Expected a mandatory attribute, but got none - at uses.period"]),
        ({"price": "mandatory", "period": "optional"}, ["Property 1: Expected 'mandatory', but got 'optional'"]),
        ({"price": "mandatory multiple", "period": "mandatory"}, ["Property 3: Expected 'mandatory', but got"]),
        (
            {"price": "mandatory", "period": "mandatory", "dealer": "optional", "furniture_category": "optional"},
            ["Property 2: Expected an attribute of antiques, but got 'dealer'", "Property 2:.*furniture_category"],
        ),
    ],
)
def test_a_declared_view_without_one_of_the_three_properties_is_refused(
    paper: Schema, uses: dict[str, str], problems: list[str]
) -> None:
    with pytest.raises(InvalidSchema) as caught:
        paper.declare_view(["antiques"], uses)
    assert len(caught.value.problems) == len(problems)
    for problem, expected in zip(caught.value.problems, problems, strict=True):
        assert re.search(expected, str(problem))


def test_a_declared_view_needs_known_types(paper: Schema) -> None:
    with pytest.raises(InvalidSchema, match="did you mean 'antiques'"):
        paper.declare_view(["antique"], {})
    with pytest.raises(InvalidSchema, match="at least one event type"):
        paper.declare_view([], {})


def test_the_set_functions_of_a_type(paper: Schema) -> None:
    furniture = paper.types["furniture"]
    assert attribute_set(furniture) == {"price", "furniture_category", "quantity"}
    assert mandatory_set(furniture) == {"furniture_category", "quantity"}
    assert unique_set(furniture) == {"furniture_category", "quantity"}


@given(st.data())
def test_the_merged_view_has_the_three_properties_and_only_optional_attributes_can_go(data: st.DataObject) -> None:
    uses = st.builds(Use, st.booleans(), st.booleans())
    types = data.draw(st.lists(st.dictionaries(st.sampled_from("abcd"), uses), min_size=1, max_size=3))
    schema = Schema()
    for name in "abcd":
        schema.create_attribute(name, "integer")
    for number, one in enumerate(types):
        schema.create_type(f"t{number}", one)
    chosen = data.draw(st.sets(st.sampled_from(sorted(schema.types)), min_size=1))
    full = schema.view(chosen)
    schema.declare_view(chosen, full)
    mandatory = frozenset[str]().union(*(mandatory_set(schema.types[name]) for name in chosen))
    for gone in full:
        rest = {name: use for name, use in full.items() if name != gone}
        if gone in mandatory:
            with pytest.raises(InvalidSchema, match="Property 1"):
                schema.declare_view(chosen, rest)
        else:
            schema.declare_view(chosen, rest)


def test_r1_needs_known_types(paper: Schema) -> None:
    assert found(paper, {"price": 1}) == [("R1", "event_type")]
    assert found(paper, {"event_type": [], "price": 1}) == [("R1", "event_type")]
    assert found(paper, {"event_type": None, "price": 1}) == [("R1", "event_type")]
    assert found(paper, {"event_type": [5, "antique"]}) == [("R1", "event_type"), ("R1", "event_type")]
    assert "did you mean 'antiques'?" in str(paper.violations({"event_type": "antique"})[0])


def test_r2_needs_one_value_of_the_domain_where_it_is_unique(paper: Schema) -> None:
    assert found(paper, {**E1, "price": [1, 2]}) == []
    assert found(paper, {**E1, "price": [1, 1.0]}) == []
    assert found(paper, {**E1, "quantity": [1, 2]}) == [("R2", "quantity")]
    assert found(paper, {**E1, "quantity": [1, 1.0]}) == []
    assert found(paper, {**E1, "quantity": 1.5}) == [("R2", "quantity")]
    assert found(paper, {**E1, "quantity": "2"}) == [("R2", "quantity")]
    assert found(paper, {**E1, "period": "XVIII"}) == [("R2", "period")]
    assert found(paper, {**E1, "price": True}) == [("R2", "price")]


def test_r3_has_no_other_attributes(paper: Schema) -> None:
    assert found(paper, {**E1, "dealer": "Ann"}) == [("R3", "dealer")]
    (violation,) = paper.violations(
        {"event_type": "antiques", "price": 1, "period": "XV", "furniture_category": "chair"}
    )
    assert str(violation).endswith("but got 'furniture_category' (an attribute of furniture) - at furniture_category")
    assert found(paper, {**E1, "price": {"net": 1}}) == [("R2", "price"), ("R3", "price.net")]


def test_a_null_is_no_value(paper: Schema) -> None:
    assert found(paper, {**E1, "price": None}) == [("R2", "price")]
    assert found(paper, {**E1, "price": [None, 3]}) == []
    assert found(paper, {"event_type": "antiques", "price": 1, "period": "XV", "quantity": None}) == []
    assert paper.read({**E1, "furniture_category": ["table", None]}).values("furniture_category") == ("table", None)


def test_every_violation_is_reported_at_once(paper: Schema) -> None:
    event = {"event_type": ["antiques", "furnitur"], "price": "dear", "quantity": [1, 2], "colour": "red"}
    with pytest.raises(InvalidEvent) as caught:
        paper.read(event, row=7)
    assert [(v.rule, v.path) for v in caught.value.violations] == [
        ("R1", "event_type"),
        ("R2", "period"),
        ("R2", "price"),
        ("R2", "quantity"),
        ("R3", "colour"),
    ]
    assert caught.value.row == 7
    assert "event 7, but got 5 violations" in str(caught.value)
    assert str(caught.value).count("\n  R") == 5


def test_without_a_type_values_are_still_judged(paper: Schema) -> None:
    assert found(paper, {"price": "dear", "colour": "red"}) == [("R1", "event_type"), ("R2", "price"), ("R3", "colour")]


def test_elements_of_arrays_keep_together() -> None:
    schema = Schema(default_type="order")
    schema.create_domain("size", OrderedEnumeration(("S", "M", "L"), (("S", "M", "L"),)))
    schema.create_attribute("items.size", "size")
    schema.create_attribute("items.sku", "string")
    schema.create_type("order", {"items.size": "optional multiple", "items.sku": "optional multiple"})
    from whimbrel import Filter

    event = {"items": [{"sku": "a", "size": "S"}, {"sku": "b", "size": "L"}]}
    assert Filter.parse("items.sku = 'a' AND items.size < 'M'", schema=schema).matches(event)
    assert not Filter.parse("items.sku = 'b' AND items.size < 'M'", schema=schema).matches(event)
    assert Filter.parse("event_type = 'order'", schema=schema).matches(event)


def test_an_event_whose_type_is_null_has_the_default_one_beside_arrays_too() -> None:
    schema = Schema(default_type="order")
    schema.create_attribute("items.price", "float")
    schema.create_type("order", {"items.price": "optional multiple"})
    event = schema.read({"event_type": None, "items": [{"price": 5}, {"price": 7}]})
    assert event.values("event_type") == ("order",)


def test_timestamps_are_read_from_text() -> None:
    schema = Schema(default_type="tick")
    schema.create_attribute("at", "timestamp")
    schema.create_type("tick", {"at": "mandatory"})
    assert schema.read({"at": "1970-01-01T00:00:01Z"}).values("at") == (Timestamp(1_000_000_000),)
    assert found(schema, {"at": ["1970-01-01", "1970-01-01T00:00Z"]}) == [], "one instant, written twice"
    assert found(schema, {"at": "soon"}) == [("R2", "at")]
    assert found(schema, {"at": 5}) == [("R2", "at")]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda i: st.lists(i) | st.dictionaries(st.text(), i)
    )
)
def test_whatever_comes_gives_a_typed_error(item: Any) -> None:
    for read in (Schema.from_document, Schema.from_spark, Schema.from_json_schema):
        try:
            read(item)
        except WhimbrelError:
            continue
        assert isinstance(item, dict)
    if isinstance(item, dict):
        schema = Schema()
        schema.create_type("any", {})
        try:
            Event(item)
        except WhimbrelError:
            return
        assert schema.violations({**item, "event_type": "none"})


def test_an_empty_key_is_an_attribute_like_others() -> None:
    events = [{"": 1, "a": {"": "x"}}, {"": 2, "a": {"": "y"}}]
    schema = Schema.infer(events, values=2)
    again = Schema.from_document(tomllib.loads(to_text(schema.to_document())))
    assert again == schema
    for event in events:
        again.read(event)


def test_events_with_many_violations_are_refused_soon() -> None:
    names = [f"attribute_{number:04}" for number in range(1_900)]
    types = {f"type_{number:04}": dict.fromkeys(names, "optional multiple") for number in range(20)}
    schema = Schema.from_document({"attributes": dict.fromkeys(names, "string"), "types": {**types, "other": {}}})
    strays = schema.violations({"event_type": "type_0000", **{f"atribute_{number:04}": 1 for number in range(9_000)}})
    assert [("did you mean" in one.found) for one in strays] == [True] * 8 + [False] * 8_992
    unknown = schema.violations({"event_type": [f"tipe_{number}" for number in range(50_000)]})
    assert sum("did you mean" in one.found for one in unknown) <= 8 and len(unknown) == 50_000
    (wrong, *_) = schema.violations({"event_type": "other", names[0]: "x"})
    assert wrong.found.endswith("type_0007 and others)")


def test_many_instants_beside_an_array_of_objects_are_coded_soon() -> None:
    document = {"attributes": {"at": "timestamp", "i.x": "float"}}
    schema = Schema.from_document({**document, "types": {"t": {"at": "optional multiple", "i.x": "optional multiple"}}})
    moments = [f"2026-01-01T00:00:00.{number:06}Z" for number in range(30_000)]
    event = schema.read({"event_type": "t", "at": moments, "i": [{"x": 1}, {"x": 2}]})
    assert len(event.occurrences("at")) == 30_000 and {one.elements for one in event.occurrences("at")} == {()}
