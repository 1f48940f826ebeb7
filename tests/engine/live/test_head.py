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


def agree(
    filters: list[Filter], events: list[dict[str, Any]], others: list[Filter], timestamps: tuple[str, ...] = ()
) -> None:
    """Filters in the head, beside others in segments, match what they say, whatever form events have."""
    index = Index(timestamps)
    half = len(others) // 2
    for some in (others[:half], others[half:]):
        index.add_many((f"other {len(index) + n}", one) for n, one in enumerate(some))
    for number, one in enumerate(filters):
        index.add(f"{number:03}", one)
    expected: dict[int, list[str]] = {}
    for row, event in enumerate(events):
        whole = Event(event, timestamps)
        expected[row] = [f"{number:03}" for number, one in enumerate(filters) if one.matches(whole)]
        for form in (event, whole):
            assert [id for id in index.match(form) if not str(id).startswith("other")] == expected[row], event
    found = index.match_batch(events)
    got: dict[int, list[str]] = {row: [] for row in range(len(events))}
    for row, id in zip(found["event"].to_pylist(), found["subscription"].to_pylist(), strict=True):
        if not id.startswith("other"):
            got[row].append(id)
    assert {row: sorted(ids) for row, ids in got.items()} == expected


some_filters = st.lists(ws.filters, max_size=8)


@given(some_filters, st.lists(ws.events(), max_size=4), some_filters)
def test_what_the_head_finds_is_what_matches(
    filters: list[Filter], events: list[dict[str, Any]], others: list[Filter]
) -> None:
    agree(filters, events, others)


@pytest.mark.parametrize("timestamps", [(), ("t",)])
def test_values_of_every_kind_are_found(timestamps: tuple[str, ...]) -> None:
    filters = [Filter.parse(text) for text in TEXTS]
    others = ["a = 1 OR a > 7", "b < 4 AND d.x > 'B'", "d.x IN ('a', 'b') AND t > TIMESTAMP '2026-01-15'", "d.e.x = 2"]
    for some in ([], filters[:3], [Filter.parse(text) for text in others], filters):
        agree(filters, EVENTS, some, timestamps)


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


def test_batches_after_a_change_do_not_compile_the_head() -> None:
    index = Index()
    index.add_many((n, f"a = {n} AND b = {n}") for n in range(50))
    for n in range(50, 100):
        index.add(n, f"a = {n % 50} AND b BETWEEN 10 AND 20")
        assert pairs(index.match_batch([{"a": n % 50, "b": 15.5}, {"a": 7}] * 100)) == [(2 * k, n) for k in range(100)]
        assert pairs(index.match_batch(pa.table({"a": [n % 50], "b": [12.5]}))) == [(0, n)]
        assert index.match({"a": n % 50, "b": 19.5}) == [n]
    assert index.segments == 1


def test_a_head_of_which_much_must_be_evaluated_becomes_a_segment() -> None:
    index = Index()
    index.add_many((n, f"a = {n}") for n in range(50))
    for n in range(50, 100):
        index.add(n, f"a = {n}")
    events = [{"a": n} for n in range(100)] * 3  # ranks do not tell the newer numbers from each other
    assert pairs(index.match_batch(events)) == [(k, k % 100) for k in range(300)]
    assert index.segments == 1
    assert index.match({"a": 60}) == [60]
    assert index.segments == 2


def test_bad_events_are_refused_with_a_head_as_without() -> None:
    index = Index()
    index.add_many([(0, "a = 1")])
    index.add(1, "a >= 0")
    errors: list[Any] = []
    assert pairs(index.match_batch([{"a": 1}, {"a": b"x"}, {"a": 2}], errors=errors)) == [(0, 0), (0, 1), (2, 1)]
    assert [row for row, _ in errors] == [1]


def test_the_segment_of_a_head_serves_no_snapshot_before_its_deaths() -> None:
    index = Index()
    index.add_many([(0, "a = 1")])
    for id in (1, 2):
        index.add(id, "a = 1")
    before = index._subscriptions.segments.snapshot
    index.remove(1)
    after = index._subscriptions.segments.snapshot
    assert after.head_segment().rows.tolist() == [2]
    assert before.head_segment().rows.tolist() == [1, 2]
    assert after.head_segment() is before.head_segment()
