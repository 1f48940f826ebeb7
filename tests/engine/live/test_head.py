"""The index of the head against `Filter.matches`, under changes, for events of every form."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests import strategies as ws
from whimbrel import Filter, Index
from whimbrel.engine.live.head import Head, HeadEntry
from whimbrel.model.event import Event

TEXTS = [
    *("a = 1", "a = TRUE", "a = '1'", "a IN (1, 2, 'x') AND b > 0", "a > 0 AND b < 5", "a CONTAINS ALL (1, 2)"),
    *("d.x = 'a' AND d.e.x = 1", "d.x > 'A'", "a IS NULL", "a IS MISSING", "TRUE", "a < b", "NOT (a = 1)", "a = 0"),
    *("t = TIMESTAMP '2026-01-31'", "t > TIMESTAMP '2026-01-01' AND a = 1", "a = 1 OR d.x = 'a'", "b LIKE '%x%'"),
    *("a CONTAINS NULL", "a = 9007199254740993", "FALSE", f"a IN ({', '.join(map(str, range(40)))})"),
]
EVENTS: list[dict[str, Any]] = [
    {"a": True}, {"a": 1.0}, {"a": -0.0, "b": 3}, {"a": math.nan}, {"a": [1, 2]}, {"a": None, "t": "2026-01-31"},
    {"d": {"x": "a", "e": {"x": 1}}}, {"d.x": "a", "d": {"e.x": 1}}, {"d": [{"x": "a"}, {"e": {"x": 1}}]},
    {"a": 2**53 + 1, "t": datetime(2026, 1, 31)}, {"a": [], "d": {}}, {"d": "x", "d.x": ["a", None], "b": "axb"},
    {"t": ["2026-01-31T00:00Z"], "a": 1}, {"a": 1, "b": 2, "d": ({"x": "a"}, 1)},
]  # fmt: skip


def head_of(filters: list[Filter]) -> Head:
    head = Head()
    head.entries += [HeadEntry(row, filter) for row, filter in enumerate(filters)]
    return head


def agree(filters: list[Filter], events: list[dict[str, Any]], timestamps: tuple[str, ...] = ()) -> None:
    head = head_of(filters)
    for size in (len(filters) // 2, len(filters)):
        for event in events:
            whole = Event(event, timestamps)
            expected = [row for row, filter in enumerate(filters[:size]) if filter.matches(whole)]
            for form in (event, whole):
                assert [entry.row for entry in head.search(size, form, timestamps)] == expected, event


@given(st.lists(ws.filters, max_size=8), st.lists(ws.events(), max_size=4))
def test_what_the_head_finds_is_what_matches(filters: list[Filter], events: list[dict[str, Any]]) -> None:
    agree(filters, events)


@pytest.mark.parametrize("timestamps", [(), ("t",)])
def test_values_of_every_kind_are_found(timestamps: tuple[str, ...]) -> None:
    agree([Filter.parse(text) for text in TEXTS], EVENTS, timestamps)


changes = st.lists(
    st.tuples(st.sampled_from(["add", "add", "replace", "remove", "match", "batch", "table"]), st.integers(0, 99)),
    max_size=25,
)


@given(changes, st.booleans())
@example([("add", 0), ("replace", 0), ("match", 0), ("batch", 0)], True)
def test_changes_are_seen_by_the_next_match(steps: list[tuple[str, int]], has_segment: bool) -> None:
    index = Index(timestamps=["t"])
    held: dict[int, str] = {}
    if has_segment:
        held = {1_000: "a = 1", 1_001: "b > 0 AND a >= 0", 1_002: "d.x = 'a' AND d.e.x = 1"}
        index.add_many(held.items())
    for what, number in steps:
        text = TEXTS[number % len(TEXTS)]
        event = EVENTS[number % len(EVENTS)]
        if what == "add":
            id = len(held) + 2_000 + number * 100
            if id not in held:
                index.add(id, text)
                held[id] = text
        elif what == "replace" and held:
            id = list(held)[number % len(held)]
            index.replace(id, text)
            held[id] = text
        elif what == "remove" and held:
            id = list(held)[number % len(held)]
            index.remove(id)
            del held[id]
        elif what == "match":
            assert index.match(event) == matching(held, event)
        elif what == "batch":
            events = EVENTS[number % len(EVENTS) :]
            assert pairs(index.match_batch(events)) == [
                (row, id) for row, one in enumerate(events) for id in sorted(matching(held, one))
            ]
        else:
            table = pa.table({"a": [1, 5, None], "b": [3, -1, 2]})
            rows = [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()]
            assert pairs(index.match_batch(table)) == [
                (row, id) for row, one in enumerate(rows) for id in sorted(matching(held, one))
            ]
    index._check()


def matching(held: dict[int, str], event: dict[str, Any]) -> list[int]:
    return [id for id, text in held.items() if Filter.parse(text).matches(event, ["t"])]


def pairs(table: pa.Table) -> list[tuple[int, int]]:
    return sorted(zip(table["event"].to_pylist(), table["subscription"].to_pylist(), strict=True))


def test_small_batches_after_a_change_do_not_compile_the_head() -> None:
    index = Index()
    index.add_many((n, f"a = {n}") for n in range(50))
    for n in range(50, 100):
        index.add(n, f"a = {n} AND b > 0")
        assert pairs(index.match_batch([{"a": n, "b": 1}, {"a": 7}])) == [(0, n), (1, 7)]
        assert pairs(index.match_batch(pa.table({"a": [n], "b": [2]}))) == [(0, n)]
        assert index.match({"a": n, "b": 3}) == [n]
    assert index.segments == 1
    assert index.match_batch([{"a": 60, "b": 1}] * 20_000).num_rows == 20_000
    assert index.segments == 2


def test_bad_events_are_refused_with_a_head_as_without() -> None:
    index = Index()
    index.add_many([(0, "a = 1")])
    index.add(1, "a >= 0")
    errors: list[Any] = []
    assert pairs(index.match_batch([{"a": 1}, {"a": b"x"}, {"a": 2}], errors=errors)) == [(0, 0), (0, 1), (2, 1)]
    assert [row for row, _ in errors] == [1]
