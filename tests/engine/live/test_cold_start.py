"""While a second process compiles the kernels, a small index evaluates its filters: same results, and nobody waits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from tests.strategies import events, filters
from whimbrel import Filter, Index, Schema
from whimbrel.compiled import warm_up
from whimbrel.compiled.warm_up import WarmUp
from whimbrel.engine.live import segment_set
from whimbrel.model.errors import DuplicateId, EventError

EVENTS = [{"x": number % 7, "name": f"n{number}", "tags": ["a", number]} for number in range(40)]
TEXTS = [f"x < {number % 9} AND name LIKE '%{number}'" for number in range(30)] + ["tags CONTAINS 'a'", "x IS MISSING"]


@pytest.fixture
def compiling(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the second process is compiling: as long as the list is not empty."""
    still = [True]
    monkeypatch.setattr(WarmUp, "is_compiling", lambda self: bool(still))
    return still


def expected(rows: list[dict[str, object]]) -> set[tuple[int, int]]:
    parsed = [Filter.parse(text) for text in TEXTS]
    return {(row, id) for row, event in enumerate(rows) for id, one in enumerate(parsed) if one.matches(event)}


def pairs(table: pa.Table) -> set[tuple[int, int]]:
    found = list(zip(*table.to_pydict().values(), strict=True))
    assert len(found) == len(set(found))
    return set(found)


@pytest.fixture
def index(compiling: list[bool]) -> Index:
    made = Index()
    made.add_many(enumerate(TEXTS[:20]))
    for id, text in enumerate(TEXTS[20:], 20):
        made.add(id, text)
    return made


def test_events_of_every_form_match_without_a_segment(index: Index) -> None:
    lines = "\n".join(map(json.dumps, EVENTS)).encode()
    table = pa.table({"x": [event["x"] for event in EVENTS], "name": [event["name"] for event in EVENTS]})
    for form in (EVENTS, list(map(json.dumps, EVENTS)), lines):
        assert pairs(index.match_batch(form)) == expected(EVENTS)
    assert pairs(index.match_batch(table)) == expected([{"x": e["x"], "name": e["name"]} for e in EVENTS])
    without_columns = pa.table({"x": [1, 2]}).select([])
    assert pairs(index.match_batch(without_columns)) == expected([{}, {}])
    for event in EVENTS:
        assert index.match(event) == sorted(id for _, id in expected([event]))
        assert index.match(json.dumps(event)) == index.match(event)
    assert index.segments == 0
    index._check()


def test_the_head_becomes_a_segment_once_kernels_are_there(index: Index, compiling: list[bool]) -> None:
    assert pairs(index.match_batch(EVENTS)) == expected(EVENTS)
    compiling.clear()
    assert pairs(index.match_batch(EVENTS)) == expected(EVENTS)
    assert index.segments == 1


def test_kernels_that_come_in_the_middle_of_a_stream_are_used(index: Index, compiling: list[bool]) -> None:
    found: set[tuple[int, int]] = set()
    first = 0
    for offsets, rows in index.match_blocks(EVENTS, threads=1):
        for event in range(len(offsets) - 1):
            found |= {(first + event, id) for id in index.ids(rows[offsets[event] : offsets[event + 1]]).tolist()}
        first += len(offsets) - 1
        compiling.clear()
    assert found == expected(EVENTS)


def test_who_evaluates_for_too_long_compiles(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_set, "COLD_NS", -1)
    assert pairs(index.match_batch(EVENTS)) == expected(EVENTS)
    assert index.match(EVENTS[0]) == sorted(id for _, id in expected(EVENTS[:1]))
    assert index.segments == 1


def test_a_large_load_is_a_segment(index: Index) -> None:
    index.add_many((id, f"x = {id}") for id in range(100, 100 + segment_set.HEAD_SIZE))
    assert index.segments == 1
    assert index.match({"x": 1_000}) == [1_000]


def test_changes_are_seen(index: Index) -> None:
    index.remove(30)
    index.replace(0, "name = 'n5'")
    index.add_many([(50, "x = 5")])
    assert index.match({"x": 5, "name": "n5", "tags": "a"})[0] == 0
    assert {0, 50} <= set(index.match_batch([{"x": 5, "name": "n5"}])["subscription"].to_pylist())
    assert 30 not in index.match_batch(EVENTS)["subscription"].to_pylist()
    index._check()


def test_a_load_with_a_duplicate_adds_nothing(index: Index) -> None:
    with pytest.raises(DuplicateId):
        index.add_many([(90, "x = 1"), (3, "x = 2")])
    assert len(index) == len(TEXTS) and 90 not in index
    index._check()


def test_bad_events_are_refused_as_always(index: Index) -> None:
    bad: list[object] = [EVENTS[0], {"x": object()}, EVENTS[1], "[1]"]
    with pytest.raises(EventError) as raised:
        index.match_batch(bad)
    assert raised.value.row == 1
    errors: list[tuple[int, Exception]] = []
    assert pairs(index.match_batch(bad, errors=errors)) == {
        (row, id) for row, event in ((0, EVENTS[0]), (2, EVENTS[1])) for _, id in expected([event])
    }
    assert [(row, error.row) for row, error in errors] == [(1, 1), (3, 3)]  # type: ignore[attr-defined]
    with pytest.raises(EventError):
        index.match_batch(pa.table({"x": pa.array([b"1"])}), errors=[])


def test_a_schema_refuses_what_it_always_refuses(compiling: list[bool]) -> None:
    schema = Schema.from_document({"attributes": {"x": "float"}, "types": {"e": {"x": "mandatory"}}})
    index = Index(schema=schema)
    index.add(1, "x > 3")
    assert pairs(index.match_batch([{"event_type": "e", "x": 5}])) == {(0, 1)}
    errors: list[tuple[int, Exception]] = []
    found = index.match_batch([{"event_type": "e", "x": 4}, {"event_type": "e", "x": "text"}], errors=errors)
    assert pairs(found) == {(0, 1)} and [row for row, _ in errors] == [1]
    assert index.segments == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(filters, events())
def test_any_filter_matches_as_the_reference_says(
    compiling: list[bool], filter: Filter, event: dict[str, object]
) -> None:
    index = Index()
    index.add(1, filter)
    assert index.match_batch([event]).num_rows == filter.matches(event)
    assert index.segments == 0


PROGRAM = """
import json, sys
from numba.core import event
from whimbrel import Index
compiled = []
class Seen(event.Listener):
    def on_start(self, one): compiled.append(one.data["dispatcher"].py_func.__name__)
    def on_end(self, one): pass
event.register("numba:compile", Seen())
index = Index()
index.add_many((number, f"x = {number}") for number in range(100))
found = [index.match({"x": 7}), index.match_batch([{"x": 7}] * 20).num_rows]
print(json.dumps([found, compiled]))
"""


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="there is no other core")
def test_a_cold_start_with_few_subscriptions_compiles_nothing_itself(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), warm_up.SWITCH: "1"}
    command = [sys.executable, "-W", "error", "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[[7], 20], []]
