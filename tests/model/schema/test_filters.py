"""Filters typed against a schema: what they mean, what is refused and where, and how they are written."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.model.schema import domain_semantics as direct
from whimbrel import Filter, Schema
from whimbrel.model import expression as x
from whimbrel.model.event import Event
from whimbrel.model.explain import explain
from whimbrel.model.schema import FilterTypeError, InvalidEvent, OrderedEnumeration

DOCUMENT: dict[str, Any] = {
    "domains": {
        "priority": {
            "kind": "enumerated",
            "values": ["low", "medium", "high", "unknown"],
            "order": [["low", "medium", "high"]],
        },
        "furniture": {
            "kind": "hierarchical",
            "children": {"furniture": ["dining", "bedroom"], "dining": ["table", "chair"], "bedroom": ["bed"]},
        },
        "status": {"kind": "enumerated", "values": ["open", "closed"]},
        "percent": {"kind": "integer", "minimum": 0, "maximum": 100},
    },
    "attributes": {
        "priority": "priority",
        "limit": "priority",
        "kind": "furniture",
        "other_kind": "furniture",
        "status": "status",
        "share": "percent",
        "price": "decimal",
        "name": "string",
        "shop.city": "string",
        "sold": "boolean",
        "at": "timestamp",
    },
    "types": {"sale": {"kind": "optional multiple", "priority": "optional", "share": "optional", "at": "optional"}},
}


@pytest.fixture(scope="module")
def schema() -> Schema:
    return Schema.from_document(DOCUMENT)


@given(st.data())
def test_filters_mean_what_the_domains_say(data: st.DataObject) -> None:
    schema = data.draw(direct.schemas())
    expression = data.draw(direct.typed_expressions(schema))
    assume(direct.fits(schema, expression))
    filter = schema.typed(Filter(expression))
    for event in data.draw(st.lists(direct.valid_events(schema), min_size=1, max_size=4)):
        assert filter.matches(event) == direct.matches(schema, expression, event), event


@given(st.data())
def test_canonical_text_is_in_the_users_words_and_parses_to_an_equal_filter(data: st.DataObject) -> None:
    schema = data.draw(direct.schemas())
    expression = data.draw(direct.typed_expressions(schema))
    assume(direct.fits(schema, expression))
    filter = schema.typed(Filter(expression))
    again = Filter.parse(str(filter), schema=schema)
    assert again == filter
    assert str(again) == str(filter)


@given(st.data())
def test_what_does_not_fit_is_refused_and_nothing_else(data: st.DataObject) -> None:
    schema = data.draw(direct.schemas())
    expression = data.draw(direct.typed_expressions(schema))
    if direct.fits(schema, expression):
        schema.typed(Filter(expression))
    else:
        with pytest.raises(FilterTypeError) as caught:
            schema.typed(Filter(expression))
        assert caught.value.reason == "incomparable"


REFUSED = [
    ("color = 'red'", "unknown-attribute", "color", "color", "Expected an attribute of the schema, but got 'color'"),
    ("share > 5 AND pirce < 3", "unknown-attribute", "pirce", "pirce", "did you mean 'price'?"),
    ("shop = 'x'", "unknown-attribute", "shop", "shop", "did you mean 'shop.city'?"),
    ("price < prize", "unknown-attribute", "prize", "prize", "did you mean 'price'?"),
    ("5 < prise", "unknown-attribute", "prise", "prise", "did you mean 'price'?"),
    ("(sold) OR (NOT acive)", "unknown-attribute", "acive", "acive", "Expected an attribute"),
    ("price = '5'", "wrong-type", "price", "'5'", "Expected a decimal number for 'price', but got '5'"),
    ("name IN ('a', 5)", "wrong-type", "name", "5)", "Expected text for 'name', but got 5"),
    ("sold = 1", "wrong-type", "sold", "1", "Expected TRUE or FALSE"),
    ("priority = TRUE", "wrong-type", "priority", "TRUE", "but got TRUE"),
    ("priority", "wrong-type", "priority", "priority", "but got TRUE"),
    ("status CONTAINS ANY ('open', 3)", "wrong-type", "status", "3)", "Expected 'open' or 'closed'"),
    ("price < name", "wrong-type", "name", "name", "Expected an attribute to compare 'price' with"),
    ("kind = priority", "wrong-type", "priority", "priority", "Expected an attribute to compare 'kind' with"),
    ("share = 101", "outside-domain", "share", "101", "Expected an integer from 0 to 100 for 'share', but got 101"),
    ("share < 0.5", "outside-domain", "share", "0.5", "Expected an integer from 0 to 100"),
    ("share BETWEEN 5 AND -3", "outside-domain", "share", "3", "but got -3"),
    ("status = 'opne'", "outside-domain", "status", "'opne'", "did you mean 'open'?"),
    ("priority >= 'hihg'", "outside-domain", "priority", "'hihg'", "did you mean 'high'?"),
    ("kind < 'tabel' OR sold", "outside-domain", "kind", "'tabel'", "did you mean 'table'?"),
    ("at > 'yesterday'", "outside-domain", "at", "'yesterday'", "Expected a timestamp"),
    ("event_type = 'sail'", "outside-domain", "event_type", "'sail'", "but got 'sail'"),
    ("status < 'open'", "no-operator", "status", "< 'open'", "an operator of the enumerated domain of 'status'"),
    ("sold AND NOT sold >= FALSE", "no-operator", "sold", ">= FALSE", "(=, !=, IN, CONTAINS), but got >="),
    ("price LIKE '5%'", "no-operator", "price", "LIKE", "but got LIKE"),
    ("kind NOT STARTS WITH 'd'", "no-operator", "kind", "NOT", "but got STARTS WITH"),
    ("share IN CIDR '10.0.0.0/8'", "no-operator", "share", "IN CIDR", "but got IN CIDR"),
    ("sold < sold", "no-operator", "sold", "<", "but got <"),
    ("priority BETWEEN 'low' AND 'unknown'", "incomparable", "priority", "'unknown'", "with 'low'"),
    ("priority > 'unknown'", "incomparable", "priority", "'unknown'", "comparable with none"),
    ("kind >= 'table' AND price > 1 AND kind <= 'bedroom'", "incomparable", "kind", "'bedroom'", "with 'table'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "reason", "attribute", "at", "message"), REFUSED, ids=[case[0] for case in REFUSED])
def test_a_filter_that_does_not_fit_is_refused_with_the_place(
    schema: Schema, text: str, reason: str, attribute: str, at: str, message: str
) -> None:
    with pytest.raises(FilterTypeError) as caught:
        Filter.parse(text, schema=schema)
    error = caught.value
    assert (error.reason, error.attribute) == (reason, attribute)
    assert message in str(error)
    assert text[error.position :].startswith(at)
    assert str(error).splitlines()[-1] == "  " + " " * error.position + "^"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_filter_without_text_is_refused_without_a_place(schema: Schema) -> None:
    with pytest.raises(FilterTypeError, match="but got 'color'") as caught:
        schema.typed(Filter(x.IsNull("color")))
    assert "^" not in str(caught.value)


WRITTEN = {
    "priority < 'high'": "priority <= 'medium'",
    "NOT priority < 'high'": "priority IN ('high', 'unknown')",
    "priority >= 'low'": "priority != 'unknown'",
    "kind < 'dining'": "kind < 'dining'",
    "kind > 'table'": "kind >= 'dining'",
    "NOT kind <= 'dining'": "kind >= 'bed'",
    "kind CONTAINS ANY ('bed', 'table')": "kind CONTAINS ANY ('bed', 'table')",
    "kind <= 'furniture'": "kind IS NOT NULL",
    "share > 3 AND share < 5": "share = 4",
    "share > 3 AND share < 4": "FALSE",
    "share <= 100 AND share >= 0": "share IS NOT NULL",
    "share != 7": "share != 7",
    "at > '2026-01-31'": "at > TIMESTAMP '2026-01-31T00:00:00Z'",
    "sold != FALSE": "sold = TRUE",
    "status != 'open'": "status != 'open'",
    "kind = NULL": "FALSE",
}


@pytest.mark.parametrize(("text", "canonical"), WRITTEN.items())
def test_canonical_text(schema: Schema, text: str, canonical: str) -> None:
    filter = Filter.parse(text, schema=schema)
    assert str(filter) == canonical
    assert Filter.parse(canonical, schema=schema) == filter


def test_large_domains_are_written_and_refused_quickly() -> None:
    children = {f"k{n}": tuple(f"k{10 * n + i}" for i in range(1, 11)) for n in range(3_000)}
    schema = Schema(default_type="any")
    schema.create_domain("tree", {"kind": "hierarchical", "children": children})
    schema.create_attribute("kind", "tree")
    schema.create_type("any", {"kind": "mandatory"})
    filter = Filter.parse("NOT kind <= 'k17'", schema=schema)
    assert str(filter) == "NOT kind <= 'k17'"
    assert Filter.parse(str(filter), schema=schema) == filter
    assert len(filter.conjunctions[0].by_attribute["kind"].values.cuts) <= 4
    with pytest.raises(FilterTypeError) as caught:
        Filter.parse("kind = 'k999x'", schema=schema)
    assert "did you mean" not in str(caught.value), "30,000 names are too many to compare with"


def test_a_hierarchy_is_one_range(schema: Schema) -> None:
    (conjunction,) = Filter.parse("kind <= 'dining'", schema=schema).conjunctions
    assert len(conjunction.by_attribute["kind"].values.cuts) == 2


def test_explanations_speak_the_users_words(schema: Schema) -> None:
    filter = Filter.parse("kind < 'bedroom' AND priority > 'low' AND share < 5", schema=schema)
    event = schema.read({"event_type": "sale", "kind": ["table", "chair"], "priority": "medium", "share": 7})
    assert str(explain(filter, event)).splitlines() == [
        "no match",
        "  - kind = 'bed'  [kind: 'table', 'chair']",
        "  + priority >= 'medium'  [priority: 'medium']",
        "  - share <= 4  [share: 7, off by 3]",
    ]


def test_reasoning_knows_the_domains(schema: Schema) -> None:
    def parse(text: str) -> Filter:
        return Filter.parse(text, schema=schema)

    assert parse("kind <= 'dining'").covers(parse("kind = 'chair'"))
    assert parse("priority >= 'low'").covers(parse("priority > 'medium'"))
    assert not parse("kind <= 'dining'").covers(parse("kind >= 'dining'"))
    assert not parse("priority < 'low'").is_satisfiable()
    assert parse("share > 3") == parse("share >= 4")
    assert parse("share > 3") != Filter.parse("share >= 4")
    assert not parse("share > 3").covers(Filter.parse("share > 3"))
    assert parse("share > 3").intersects(Filter.parse("share < 3"))


def test_filters_and_events_of_other_schemas_are_read_anew(schema: Schema) -> None:
    twin = Schema.from_document(DOCUMENT)
    filter, text = Filter.parse("priority < 'high'", schema=schema), "priority < 'high'"
    assert twin.typed(filter) == filter == Filter.parse(text, schema=twin)
    assert twin.typed(filter).schema is twin
    event = {"event_type": "sale", "priority": "low"}
    assert filter.matches(twin.read(event))
    assert Filter.parse("priority = 'low'").matches(schema.read(event)), "without a schema, values are plain"
    assert pickle.loads(pickle.dumps(filter)) == filter
    with pytest.raises(InvalidEvent):
        filter.matches({"priority": "low"})
    with pytest.raises(InvalidEvent):
        filter.matches(Event({"event_type": "sale", "priority": "lower"}))


def test_many_bounds_in_a_domain_of_many_values_are_compared_soon() -> None:
    words = [f"w{number:04}" for number in range(2_000)]
    domain = {"kind": "enumerated", "values": [*words, "other"], "order": [words]}
    schema = Schema.from_document(
        {"domains": {"d": domain}, "attributes": {"a": "d"}, "types": {"t": {"a": "optional"}}}
    )
    text = " AND ".join([f"a >= '{words[n % 500]}' AND a <= '{words[-1 - n % 500]}'" for n in range(1_000)])
    assert Filter.parse(text, schema=schema) == Filter.parse("a BETWEEN 'w0499' AND 'w1500'", schema=schema)


def test_an_order_of_many_values_below_one_is_read_soon() -> None:
    values = [f"w{number:04}" for number in range(5_000)]
    order = [*([one, "top"] for one in values), *([one, "w0000"] for one in values[1:])]
    domain = OrderedEnumeration((*values, "top"), order)  # type: ignore[arg-type]
    assert len(domain.covers) == 5_000, "none but w0000 is right below the top"
