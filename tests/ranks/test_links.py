"""Comparisons of two attributes: all operators, types and forms of events, against the filters themselves."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whimbrel import Filter, Index

OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
NAMES = ("a", "b", "c", "o.x", "o.y")

numbers = st.sampled_from([0, 1, -1, 2.5, 1.0, -0.0, 2**53, 2**53 + 1, 2.0**53, 2**63, -(2**63), 1e300, float("inf")])
texts = st.sampled_from(["", "a", "b", "ab", "é", "\U0001f600", "\uffff", "x" * 300])
scalars = st.one_of(
    numbers, texts, st.booleans(), st.none(), st.just(float("nan")), st.just(datetime(2026, 1, 1, tzinfo=UTC)),
    st.integers(-3, 3),
)  # fmt: skip
values = st.one_of(scalars, scalars, scalars, st.lists(scalars, max_size=3))
elements = st.fixed_dictionaries({}, optional={"x": scalars, "y": values})
events = st.fixed_dictionaries(
    {}, optional={"a": values, "b": values, "c": scalars, "o": st.one_of(elements, st.lists(elements, max_size=3))}
)
links = st.builds("{} {} {}".format, st.sampled_from(NAMES), st.sampled_from(OPERATORS), st.sampled_from(NAMES))
others = st.sampled_from(
    ["a > 0", "b != 'a'", "c = 1", "a CONTAINS 1", "o.x IS NULL", "o.y < 5", "a LIKE '%a%'", "b IS NOT NULL"]
)
conjunctions = st.lists(st.one_of(links, links, others), min_size=1, max_size=3).map(" AND ".join)
filters = st.one_of(conjunctions, conjunctions, st.builds("({}) OR NOT ({})".format, conjunctions, conjunctions))


def wanted(texts: list[str], event: dict[str, Any]) -> list[int]:
    return [number for number, text in enumerate(texts) if Filter.parse(text).matches(event)]


def pairs(found: pa.Table) -> list[tuple[int, int]]:
    return sorted(zip(*(found[name].to_pylist() for name in ("event", "subscription")), strict=True))


@settings(max_examples=25, deadline=None)
@given(st.lists(filters, min_size=1, max_size=12), st.lists(events, min_size=1, max_size=8), st.booleans())
def test_links_match_as_the_filters_say(texts: list[str], some: list[dict[str, Any]], merges: bool) -> None:
    index = Index()
    index.add_many(enumerate(texts))
    if merges:
        index.add(len(texts), "a < b AND c != a")
        texts = [*texts, "a < b AND c != a"]
        index.merge()
    right = [wanted(texts, event) for event in some]
    assert [index.match(event) for event in some] == right
    assert pairs(index.match_batch(some)) == [(row, id) for row, ids in enumerate(right) for id in ids]
    lines = [(number, line) for number, event in enumerate(some) if (line := json_line(event))]
    assert [index.match(line) for _, line in lines] == [right[number] for number, _ in lines]
    found = pairs(index.match_batch([line for _, line in lines])) if lines else []
    assert found == [(row, id) for row, (number, _) in enumerate(lines) for id in right[number]]


def json_line(event: dict[str, Any]) -> bytes:
    """The event as JSON; nothing if it has values that JSON has not."""
    try:
        return json.dumps(event, allow_nan=False).encode()
    except (TypeError, ValueError):
        return b""


COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int64(), [0, 1, -5, 2**53 + 1, -(2**63), 2**63 - 1, None]),
    "small": (pa.int16(), [0, 1, -5, 3, 7, None]),
    "unsigned": (pa.uint64(), [0, 1, 2**53 + 1, 2**64 - 1, None]),
    "float": (pa.float64(), [0.0, 1.0, -5.5, 2.0**53, 2.0**63, -(2.0**63), float("inf"), float("nan"), None]),
    "decimal": (pa.decimal128(20, 2), [Decimal("0.00"), Decimal("1.00"), Decimal("2.50"), None]),
    "text": (pa.string(), ["", "a", "b", "é", "\U0001f600", None]),
    "coded": (pa.dictionary(pa.int8(), pa.string()), ["a", "b", "é", None]),
    "bool": (pa.bool_(), [True, False, None]),
    "time": (pa.timestamp("us", "UTC"), [datetime(2026, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC), None]),
    "date": (pa.date32(), [datetime(2026, 1, 1).date(), None]),
    "list": (pa.list_(pa.int64()), [[1], [1, 5], [], [None], None]),
}


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(sorted(COLUMNS)), st.sampled_from(sorted(COLUMNS)))
def test_columns_of_all_types_compare_as_their_events(data: st.DataObject, one: str, two: str) -> None:
    rows = data.draw(st.integers(1, 12))
    drawn = {
        name: pa.array(
            data.draw(st.lists(st.sampled_from(COLUMNS[kind][1]), min_size=rows, max_size=rows)), COLUMNS[kind][0]
        )
        for name, kind in (("a", one), ("b", two))
    }
    table = pa.table(drawn)
    if data.draw(st.booleans()):
        table = table.slice(1)
    texts = [f"a {op} b" for op in OPERATORS] + ["a < b AND a > 0", "a = a", "a != a"]
    index = Index()
    index.add_many(enumerate(texts))
    right = [
        wanted(texts, {name: value for name, value in row.items() if value is not None}) for row in table.to_pylist()
    ]
    assert pairs(index.match_batch(table)) == [(row, id) for row, ids in enumerate(right) for id in ids]


def test_no_filter_is_evaluated_for_plain_events(monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index()
    index.add_many(enumerate(["a < b", "a = b AND c != a", "a >= b AND a > 3"]))
    event = {"a": 5, "b": 5.0, "c": "x"}
    monkeypatch.setattr(Filter, "matches", lambda *_: pytest.fail("a filter was evaluated"))
    assert index.match(event) == [1, 2]
    assert pairs(index.match_batch([event, {"a": "p", "b": "q"}])) == [(0, 1), (0, 2), (1, 0)]
    assert pairs(index.match_batch(pa.Table.from_pylist([event]))) == [(0, 1), (0, 2)]
    assert pairs(index.match_batch([b'{"a": 5, "b": 5.0, "c": "x"}', b'{"a": "p", "b": "q"}'])) == [
        (0, 1),
        (0, 2),
        (1, 0),
    ]
    assert index.cost("a < b AND c = 1").verifications == 0


def test_texts_that_are_timestamps_compare_as_instants() -> None:
    index = Index(timestamps=["a", "b"])
    index.add_many(enumerate(["a < b", "a = b"]))
    some = [{"a": "2026-01-01T12:00:00Z", "b": "2026-01-01T13:00:00+01:00"}, {"a": "2025-01-01", "b": "2026-01-01"}]
    assert [index.match(event) for event in some] == [[1], [0]]
    assert pairs(index.match_batch(pa.Table.from_pylist(some))) == [(0, 1), (1, 0)]


def test_links_survive_saving_merging_and_plans(tmp_path: Path) -> None:
    index = Index()
    index.add_many((number, f"a < b AND c = {number % 7}") for number in range(200))
    index.save(tmp_path)
    opened = Index.open(tmp_path)
    opened.add(200, "b > a AND c > 3")
    opened.merge()
    event = {"a": 1, "b": 2, "c": 4}
    assert opened.match(event) == [*range(4, 200, 7), 200]
    assert opened.plan(200)["conjunctions"][0]["attributes"]  # type: ignore[index]
    assert [miss.id for miss in opened.near_misses({"a": 3, "b": 2, "c": 4}, 3)] == [4, 11, 18]
