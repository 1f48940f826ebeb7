"""Events as columns: what they match is what the events match, whatever they hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from whimbrel import Filter, Index
from whimbrel.model.expression import Expression
from whimbrel.pipeline.stages.match.json_columns import columns_of

_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.sampled_from([0, 1, 2, 2.0, 0.5, -0.0, 1 << 53, (1 << 53) + 1, 1 << 63, 1 << 70, "u", "v", "1", ""]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "y"]), inner, max_size=2),
    max_leaves=4,
)
_EVENTS = st.dictionaries(st.sampled_from(["a", "b", "d", "d.x", "e"]), _VALUES, max_size=4)
_TEXTS = [
    "a = 1", "a < 2", "a != 'u'", "a IS NULL", "a IS MISSING", "a = TRUE", "a CONTAINS NULL", "a = '1'",
    "a = 9007199254740992", "a = 9007199254740993", "a = 9223372036854775808", "a > 1000000000000000000000",
    "b CONTAINS ALL ('u', 'v')", "b = 'u' AND b = 'v'", "b IS NULL OR b = ''", "b >= 0.5", "b CONTAINS NONE (1)",
    "d.x = 1", "d.x = 1 AND d.y = 2", "d.x IS NULL", "d IS NULL", "d = 1", "d.y < d.x", "a < b", "a = a",
]  # fmt: skip


def _matched(index: Index, events: list[dict[str, Any]]) -> list[list[int | str]]:
    table, odd = columns_of(events, index.attributes())
    found: list[list[int | str]] = [[] for _ in events]
    for row, id in zip(*(column.to_pylist() for column in index.match_batch(table).columns), strict=True):
        if row not in odd:
            found[row].append(id)
    for row in odd:
        found[row] += index.match(events[row])
    return [sorted(ids, key=str) for ids in found]


@given(st.lists(_EVENTS, max_size=6), st.lists(st.sampled_from(_TEXTS), min_size=1, max_size=8, unique=True))
def test_columns_match_as_the_events_do(events: list[dict[str, Any]], texts: list[str]) -> None:
    index = Index()
    index.add_many(enumerate(texts))
    parsed = [Filter.parse(text) for text in texts]
    expected = [[id for id, filter in enumerate(parsed) if filter.matches(event)] for event in events]
    assert _matched(index, events) == [sorted(ids, key=str) for ids in expected]


@given(
    st.lists(strategies.events().filter(lambda event: "nan" not in repr(event)), max_size=5),
    st.lists(strategies.expressions, min_size=1, max_size=5),
)
def test_events_and_filters_of_all_kinds(events: list[dict[str, Any]], expressions: list[Expression]) -> None:
    filters = [Filter(expression) for expression in expressions]
    index = Index()
    index.add_many(enumerate(filters))
    expected = [[id for id, filter in enumerate(filters) if filter.matches(event)] for event in events]
    assert _matched(index, events) == [sorted(ids, key=str) for ids in expected]


@pytest.mark.parametrize(
    ("events", "kind", "odd"),
    [
        ([{"a": 1}, {"a": 2}, {}], "int64", []),
        ([{"a": 1}, {"a": 0.5}], "double", []),
        ([{"a": (1 << 53) + 1}, {"a": 0.5}], "double", [0]),
        ([{"a": 1 << 63}, {"a": 1}], "int64", [0]),
        ([{"a": "x"}, {"a": 1}, {"a": "y"}], "string", [1]),
        ([{"a": "\ud800"}, {"a": "y"}], "string", [0]),
        ([{"a": ["x"]}, {"a": "y"}, {"a": []}], "list<item: string>", []),
        ([{"a": None}, {"a": True}], "list<item: bool>", []),
        ([{"a": [["x"]]}, {"a": "y"}], "list<item: string>", [0]),
        ([{"other": object()}], "null", []),
    ],
)
def test_a_column_has_the_type_of_most_cells(events: list[dict[str, Any]], kind: str, odd: list[int]) -> None:
    table, found = columns_of(events, ["a"])
    assert (str(table["a"].type).replace("element", "item"), found) == (kind, odd)


def test_nested_names_and_collisions() -> None:
    table, odd = columns_of([{"d": {"x": 1}}, {"d.x": 2}, {"d.x": 3, "d": {"x": 4}}, {"d": [{"x": 5}]}], ["d.x"])
    assert (table["d.x"].to_pylist()[:2], odd) == ([1, 2], [2, 3])
