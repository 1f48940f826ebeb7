"""An index with a schema, and every matcher behind one, against the direct meaning of the domains."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.matching.furniture import furniture, pairs
from tests.model.schema import domain_semantics as direct
from whimbrel import Filter, Index, Schema
from whimbrel.engine.intake.subscriptions import BadSubscriptions
from whimbrel.engine.loader import load
from whimbrel.engine.matching.typed_events import coded_table
from whimbrel.matchers import MATCHERS, make
from whimbrel.matchers.shared.frozen import FrozenMatcher
from whimbrel.model.errors import FilterError, UnsupportedEvent, UnsupportedFilter
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
    if isinstance(matcher, FrozenMatcher):
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
