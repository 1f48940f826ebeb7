"""An index with a schema, and every matcher behind one, against the direct meaning of the domains."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.model.schema import domain_semantics as direct
from whimbrel import Filter, Index, Schema
from whimbrel.engine.intake.subscriptions import BadSubscriptions
from whimbrel.engine.loader import load
from whimbrel.engine.matching.typed_events import coded_table
from whimbrel.matchers import MATCHERS, make
from whimbrel.matchers.bulk import BulkMatcher
from whimbrel.model.errors import FilterError, RowError, UnsupportedEvent, UnsupportedFilter, WhimbrelError
from whimbrel.model.event_tables import read_events
from whimbrel.model.json_text import JsonError
from whimbrel.model.matcher import Errors
from whimbrel.model.schema import FilterTypeError, InvalidEvent

SLOW = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@st.composite
def cases(draw: st.DrawFn, most: int = 2) -> tuple[Schema, dict[str, Filter], list[dict[str, Any]]]:
    """A schema, filters that fit it, and valid events."""
    schema = draw(direct.schemas())
    expressions = draw(st.lists(direct.typed_expressions(schema, 4), min_size=1, max_size=8))
    filters = {str(n): schema.typed(Filter(e)) for n, e in enumerate(expressions) if direct.fits(schema, e)}
    return schema, filters, draw(st.lists(direct.valid_events(schema, most), min_size=1, max_size=5))


def expected(schema: Schema, filters: dict[str, Filter], events: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return [
        (row, id)
        for row, event in enumerate(events)
        for id, filter in filters.items()
        if direct.matches(schema, filter.expression, event)
    ]


def pairs(table: pa.Table) -> list[tuple[int, str]]:
    return sorted(zip(table["event"].to_pylist(), table["subscription"].to_pylist(), strict=True))


@SLOW
@given(cases(), st.booleans())
def test_an_index_honours_the_order_of_domains(
    case: tuple[Schema, dict[str, Filter], list[dict[str, Any]]], at_once: bool
) -> None:
    schema, filters, events = case
    index = Index(schema=schema)
    if at_once:
        index.add_many(filters.items())
    else:
        for id, filter in filters.items():
            index.add(id, filter)
    found = expected(schema, filters, events)
    assert [(row, id) for row, event in enumerate(events) for id in index.match(event)] == found
    assert pairs(index.match_batch(events)) == sorted(found)
    index._check()


def column_of(schema: Schema, name: str, events: list[dict[str, Any]]) -> pa.Array:
    cells = [event.get(name) for event in events]
    if name == "at":
        moments = [None if cell is None else direct.Timestamp.parse(cell).nanoseconds for cell in cells]
        return pa.array(moments, pa.timestamp("ns", "UTC"))
    if name == "n":
        return pa.array([None if cell is None else max(-(2**62), min(cell, 2**62)) for cell in cells], pa.int64())
    return pa.array(cells)


@SLOW
@given(cases(most=1), st.booleans())
def test_a_table_is_coded_column_by_column(
    case: tuple[Schema, dict[str, Filter], list[dict[str, Any]]], with_dictionaries: bool
) -> None:
    schema, filters, events = case
    for place, event in enumerate(events):
        events[place] = event = {name: value for name, value in event.items() if value is not None}  # noqa: PLW2901
        event["n"] = max(-(2**62), min(event.get("n", 0), 2**62))
    names = sorted({name for event in events for name in event})
    table = pa.table({name: column_of(schema, name, events) for name in names})
    if with_dictionaries:
        texts = [name for name in names if pa.types.is_string(table.schema.field(name).type)]
        for name in texts:
            table = table.set_column(names.index(name), name, table.column(name).dictionary_encode())
    assert coded_table(schema, table) is not None
    index = Index(schema=schema)
    index.add_many(filters.items())
    index.analyze(table)
    assert pairs(index.match_batch(table)) == sorted(expected(schema, filters, events))


@SLOW
@given(case=cases())
def test_every_matcher_honours_the_order_of_domains(
    case: tuple[Schema, dict[str, Filter], list[dict[str, Any]]],
) -> None:
    schema, filters, events = case
    answers = [[id for row, id in expected(schema, filters, events) if row == n] for n in range(len(events))]
    for name in MATCHERS:
        matcher = make(name)
        for id, filter in filters.items():
            with suppress(UnsupportedFilter):
                matcher.add(id, filter)
        for event, answer in zip(events, answers, strict=True):
            with suppress(UnsupportedEvent):
                assert matcher.match(event) == [id for id in answer if id in matcher], name


@pytest.mark.parametrize("name", sorted(MATCHERS))
def test_a_matcher_that_has_ranges_has_hierarchies(name: str) -> None:
    schema, matcher = furniture(), make(name)
    filter = Filter.parse("kind <= 'dining'", schema=schema)
    matched = ["dining", "table"]
    if not matcher.capabilities.ranges:
        with pytest.raises(UnsupportedFilter):
            matcher.add(1, filter)
        filter, matched = Filter.parse("kind = 'bedroom'", schema=schema), ["bedroom"]
    matcher.add(1, filter)
    kinds = ("any", "bedroom", "dining", "table")
    assert [kind for kind in kinds if matcher.match({"kind": kind})] == matched
    for events in ([{"kind": kind} for kind in kinds], pa.table({"kind": kinds})):
        assert [kinds[row] for row, _ in pairs(matcher.match_batch(events))] == matched
    with pytest.raises(InvalidEvent):
        matcher.match({"kind": "desk"})
    with pytest.raises(FilterTypeError):
        matcher.add(2, "knid = 'bedroom'")
    matcher.add(2, "kind = 'bedroom'")
    if isinstance(matcher, BulkMatcher):
        matcher.add_many([(3, "kind = 'bedroom'")])
        with pytest.raises(FilterTypeError):
            matcher.add_many([(4, "knid = 'bedroom'")])
        assert matcher.match({"kind": "bedroom"})[-1] == 3
    other = make(name)
    other.add(1, "kind = 1")
    with pytest.raises(FilterError, match="without a schema"):
        other.add(2, filter)
    matcher._check()
    other._check()


def furniture() -> Schema:
    return Schema.from_document(
        {
            "default_type": "sale",
            "domains": {
                "kind": {"kind": "hierarchical", "children": {"any": ["dining", "bedroom"], "dining": ["table"]}},
                "percent": {"kind": "integer", "minimum": 0, "maximum": 100},
                "money": {"kind": "decimal", "scale": 2},
            },
            "attributes": {"kind": "kind", "share": "percent", "price": "money", "tags": "string", "when": "timestamp"},
            "types": {
                "sale": {"kind": "mandatory", "share": "optional", "tags": "optional multiple", "when": "optional"},
                "rent": {"price": "mandatory", "kind": "optional multiple"},
            },
        }
    )


def test_filters_are_typed_when_they_are_added() -> None:
    index = Index(schema=furniture())
    index.add("a", "kind <= 'dining'")
    with pytest.raises(FilterTypeError, match="did you mean 'kind'"):
        index.add("b", "knid = 'table'")
    with pytest.raises(FilterTypeError, match="but got 101"):
        index.replace("a", "share = 101")
    with pytest.raises(BadSubscriptions) as caught:
        index.add_many([("c", "kind = 'table'"), ("d", "share = 'x'"), ("e", "colour = 1"), ("f", "kind <")])
    assert [row for row, _ in caught.value.errors] == [1, 2, 3]
    table = pa.table({"id": ["c", "d"], "filter": ["kind = 'table'", "share = 'x'"]})
    assert [row for row, _ in load(index, table)] == [1]
    assert list(index) == ["a", "c"]
    assert str(index["a"].filter) == "kind <= 'dining'"
    assert index.match({"kind": "table"}) == ["a", "c"]


def test_invalid_events_are_refused_with_every_reason_and_the_row() -> None:
    index = Index(schema=furniture())
    index.add("a", "kind <= 'dining'")
    with pytest.raises(InvalidEvent) as caught:
        index.match({"kind": "tabel", "share": 1.5, "colour": "red"})
    assert [(v.rule, v.path) for v in caught.value.violations] == [("R2", "kind"), ("R2", "share"), ("R3", "colour")]
    events = [{"kind": "table"}, {"kind": "bedroom"}, {"share": 3}]
    for shape in (events, pa.Table.from_pylist([{"kind": None, "share": None, **event} for event in events])):
        with pytest.raises(InvalidEvent, match="Expected a valid event 2") as caught:
            index.match_batch(shape)
        assert caught.value.row == 2
    assert index.match({"kind": "dining"}) == ["a"]


TABLES = [
    {"kind": ["table", "any"], "share": [1, None]},
    {"kind": ["table", "any"], "share": [1.0, float("nan")]},
    {"kind": ["table", "any"], "share": [1.5, 2.0]},
    {"kind": ["table", "any"], "share": [1, 101]},
    {"kind": ["table", "desk"]},
    {"kind": ["table", None]},
    {"kind": [["table"], ["any"]]},
    {"kind": ["table", "any"], "tags": [["a", "b"], None]},
    {"kind": ["table", "any"], "when": ["2026-01-01", None]},
    {"kind": ["table", "any"], "when": [1, 2]},
    {"kind": ["table", "any"], "colour": ["red", None]},
    {"kind": ["table", "any"], "colour": [None, None]},
    {"event_type": ["sale", "rent"], "kind": ["table", None], "price": [None, 1.25]},
    {"event_type": ["sale", "rent"], "kind": ["table", None], "price": [1.25, 1.25]},
    {"event_type": ["sale", "rent"], "kind": ["table", None], "price": [None, 1.255]},
    {"event_type": ["sale", "lend"], "kind": ["table", "any"]},
    {"event_type": ["sale", None], "kind": ["table", "any"]},
    {"event_type": [["sale"], ["sale", "rent"]], "kind": ["table", "any"], "price": [None, 3]},
]


@pytest.mark.parametrize("columns", TABLES, ids=str)
def test_tables_are_judged_as_their_rows_are(columns: dict[str, list[Any]]) -> None:
    schema, table = furniture(), pa.table(columns)
    index = Index(schema=schema)
    texts = ["kind < 'any'", "share = 1", "tags CONTAINS 'b'", "event_type = 'rent'", "when > '2025-01-01'"]
    index.add_many([(text, text) for text in texts])
    rows = list(read_events(table, table.column_names))
    invalid = [row for row, event in enumerate(rows) if schema.violations(event)]
    if invalid:
        with pytest.raises(InvalidEvent) as caught:
            index.match_batch(table)
        assert caught.value.row == invalid[0]
    else:
        assert pairs(index.match_batch(table)) == sorted(
            (row, id) for row, event in enumerate(rows) for id in index.match(event)
        )


OBJECTS: list[dict[str, Any]] = [
    {"kind": "table", "share": 1}, {"kind": "any", "share": 1.0, "event_type": "sale"},
    {"kind": "dining", "share": 100},
    {"kind": "table", "when": "2026-01-01"}, {"kind": "table", "when": "2026-01-01T00:00:00.5+01:00"},
    {"event_type": "rent", "price": 1.25}, {"event_type": "rent", "price": 3, "kind": "bedroom"},
    {"kind": "table", "tags": "b"}, {"kind": "table", "tags": "\xe9\n"},
]  # fmt: skip
"""Valid objects that become rows of a table."""
ODD: list[dict[str, Any]] = [
    {}, {"kind": None}, {"kind": "table", "share": None}, {"kind": "table", "tags": ["a", "b"]}, {"kind": ["table"]},
    {"kind": "table", "share": True}, {"kind": "table", "share": 2**70}, {"kind": "table", "share": 1.5},
    {"kind": "desk"}, {"kind": "table", "share": 101}, {"kind": "table", "colour": 1},
    {"kind": "table", "when": "soon"},
    {"kind": "table", "when": 5}, {"kind": 3}, {"event_type": "rent", "price": 1.255}, {"event_type": "lend"},
    {"event_type": ["sale", "rent"], "kind": "table", "price": 1}, {"kind": "table", "tags": {"x": 1}},
    {"kind": "table", "when": "+12026-01-01"}, {"event_type": "rent"}, {"kind": "table", "tags": "\ud800"},
    {"event_type": "rent", "price": 1e300}, {"event_type": None, "kind": "table"}, {"event_type": 1, "kind": "table"},
]  # fmt: skip
"""Objects that are invalid, or valid and read by the rules themselves."""


@settings(deadline=None)
@given(st.lists(st.one_of(st.sampled_from(OBJECTS), st.sampled_from(OBJECTS + ODD)), max_size=12), st.booleans())
@example(OBJECTS + ODD, False)
@example(OBJECTS, True)
def test_objects_and_texts_are_judged_as_single_events(events: list[dict[str, Any]], in_two: bool) -> None:
    index = Index(schema=furniture())
    texts = [
        "kind < 'any'",
        "share = 1",
        "tags CONTAINS 'b'",
        "event_type = 'rent'",
        "when > '2025-01-01'",
        "price > 1",
    ]
    texts += ["tags LIKE '%b%'", "share IS NULL", "share IS MISSING", "price >= 1e300"]
    for part in (texts[:5], texts[5:]) if in_two else (texts,):
        index.add_many([(text, text) for text in part])
    found: list[tuple[int, str]] = []
    errors: list[tuple[int, type, str]] = []
    for row, event in enumerate(events):
        try:
            found += [(row, str(id)) for id in index.match(event)]
        except WhimbrelError as error:
            errors.append((row, type(error), str(error.at_row(row) if isinstance(error, RowError) else error)))
    lines = [json.dumps(event).encode() for event in events]
    for shape in (events, lines, b"\n".join(lines), pa.array(lines, pa.binary())):
        refused: Errors = []
        assert pairs(index.match_batch(shape, errors=refused)) == sorted(found)
        assert [(row, type(error), str(error)) for row, error in refused] == errors


def test_a_key_that_comes_twice_is_refused_with_a_schema_too() -> None:
    index = Index(schema=furniture())
    index.add("a", "kind = 'table'")
    refused: Errors = []
    texts = [
        b'{"kind": "any", "kind": "table"}',
        b'{"kind": "table", "share": 1, "share": 1}',
        b'{"kind": "table"}',
        b"{",
    ]
    assert pairs(index.match_batch(texts, errors=refused)) == [(2, "a")]
    assert [(row, type(error)) for row, error in refused] == [(0, JsonError), (1, JsonError), (3, JsonError)]


def test_a_saved_index_keeps_its_schema(tmp_path: Path) -> None:
    index = Index(schema=furniture())
    index.add("a", "kind < 'any' AND tags LIKE '%b%'")
    index.save(tmp_path / "index")
    again = Index.open(tmp_path / "index")
    assert again.schema == index.schema
    for one in (index, again):
        assert one.match({"kind": "table", "tags": ["abc"]}) == ["a"]
        assert one.match({"kind": "any", "tags": ["abc"]}) == []
        assert str(one.explain("a", {"kind": "any"})).splitlines()[1].strip().startswith("- kind != 'any'")
        assert [miss.id for miss in one.near_misses({"kind": "any"})] == ["a"]
        assert pairs(one.match_batch(pa.table({"kind": ["any", "table"], "tags": [["b"], ["b"]]}))) == [(1, "a")]


def test_a_schema_grows_under_an_index() -> None:
    schema = furniture()
    index = Index(schema=schema)
    index.add("a", "kind < 'any'")
    event = {"kind": "table", "colour": "red"}
    with pytest.raises(InvalidEvent):
        index.match(event)
    schema.create_attribute("colour", "string")
    schema.extend_type("sale", "colour")
    index.add("b", "colour = 'red'")
    assert index.match(event) == ["a", "b"]


def test_an_index_without_a_schema_takes_no_filter_with_one() -> None:
    filter = Filter.parse("kind < 'any'", schema=furniture())
    with pytest.raises(FilterError, match="without a schema"):
        Index().add("a", filter)
    with pytest.raises(FilterError, match="without a schema"):
        Index().add_many([("a", filter)])


def test_verified_filters_see_codes() -> None:
    schema = furniture()
    index = Index(schema=schema)
    index.add("a", "kind < 'any' AND tags LIKE '%x%y%'")
    index.add_many([(f"n{n}", f"share = {n}") for n in range(50)])
    events = [{"kind": "table", "tags": ["xzy"]}, {"kind": "any", "tags": ["xzy"]}]
    assert pairs(index.match_batch(events)) == [(0, "a")]
    assert index.match(events[0]) == ["a"]


_MOLDS = (
    "share {op} {share} AND tags = '{text}'",
    "price BETWEEN {price} AND 9 OR tags CONTAINS ANY ('{text}', 'y')",
    "when > TIMESTAMP '2024-01-0{digit}T00:00:00Z' AND share = {share}",
    "when > '2024-01-0{digit}'",
    "kind <= '{kind}' AND share < {share}",
    "tags LIKE '{text}%' AND price != {price}",
    "NOT (share >= {share}) OR kind = '{kind}'",
    "tags = {share}",
    "share = {share} OR TRUE",
    "nobody = {share}",
)


@settings(deadline=None)
@given(
    st.lists(
        st.builds(
            lambda mold, **values: mold.format(**values),
            st.sampled_from(_MOLDS),
            op=st.sampled_from(["<", ">=", "=", "!="]),
            share=st.sampled_from([0, 3, 50, 100, 101, 1.5, -1]),
            price=st.sampled_from([0, 1.25, 1.255, 9]),
            text=st.sampled_from(["x", "y", ""]),
            kind=st.sampled_from(["any", "dining", "table", "chair"]),
            digit=st.sampled_from([1, 2]),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_filters_of_one_shape_are_judged_together_as_one_by_one(texts: list[str]) -> None:
    schema = furniture()
    errors: dict[int, str] = {}
    filters: dict[str, Filter] = {}
    for row, text in enumerate(texts):
        try:
            filters[str(row)] = Filter.parse(text, schema=schema)
        except FilterError as error:
            errors[row] = str(error)
    index = Index(schema=schema)
    if errors:
        with pytest.raises(BadSubscriptions) as caught:
            index.add_many((str(row), text) for row, text in enumerate(texts))
        assert {row: str(error) for row, error in caught.value.errors} == errors
    index.add_many((id, texts[int(id)]) for id in filters)
    for share in (0, 3, 50, 100):
        event = {"kind": "table", "share": share, "tags": ["x", "z"], "when": "2024-01-01T12:00:00Z"}
        read = schema.read(event)
        assert index.match(event) == [
            id for id, one in filters.items() if any(each.matches(read) for each in one.conjunctions)
        ]
