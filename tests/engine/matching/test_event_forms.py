"""Events in every form: the same pairs from each, bad ones raised with their row or collected, memory bounded."""

from __future__ import annotations

import itertools
import json
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies as ws
from whimbrel import Filter, Index, Schema
from whimbrel.model import conjunction
from whimbrel.model.errors import EventError, LimitExceeded, RowError
from whimbrel.model.event import Event
from whimbrel.model.limits import Limit
from whimbrel.model.schema import InvalidEvent

TEXTS = ["a = 1", "a > 0.5", "b LIKE '%x%'", "d.x = 'a' AND d.y = 1", "d.x IS NOT NULL", "a IS NULL", "TRUE", "a < b"]
BAD = st.sampled_from([{"a": b"x"}, {1: 2}, {"a": "\ud800"}, {"n": 10**1_001}, 7, None, {"d": {"x": {1}}}])


def index_of(texts: list[str], **options: Any) -> Index:
    index = Index(**options)
    index.add_many(enumerate(texts))
    return index


def pairs(table: pa.Table) -> list[tuple[int, int]]:
    return sorted(zip(table["event"].to_pylist(), table["subscription"].to_pylist(), strict=True))


def expected(events: list[Any], texts: list[str]) -> tuple[list[tuple[int, int]], list[tuple[int, str]]]:
    """What the filters say, and the errors of the events that cannot be read."""
    filters = [Filter.parse(text) for text in texts]
    found: list[tuple[int, int]] = []
    errors: list[tuple[int, str]] = []
    for row, event in enumerate(events):
        try:
            read = Event.of(event)
        except RowError as error:
            errors.append((row, str(error.at_row(row))))
            continue
        found += [(row, n) for n, filter in enumerate(filters) if filter.matches(read)]
    return found, errors


@given(st.lists(st.one_of(ws.events(), ws.events(), BAD), max_size=30), st.booleans(), st.sampled_from([1, 2]))
def test_bad_events_are_collected_and_keep_their_rows(events: list[Any], has_dead: bool, threads: int) -> None:
    index = index_of(TEXTS)
    if has_dead:
        index.add(99, "TRUE")
        index.remove(99)
    found, errors = expected(events, TEXTS)
    collected: list[tuple[int, RowError]] = []
    assert pairs(index.match_batch(events, threads, errors=collected)) == found
    assert [(row, str(error)) for row, error in collected] == errors
    if errors:
        with pytest.raises(RowError) as raised:
            index.match_batch(iter(events), threads)
        assert str(raised.value) == errors[0][1]


@given(st.lists(ws.events(), max_size=20))
def test_lists_streams_and_events_give_the_same_pairs(events: list[dict[str, Any]]) -> None:
    index = index_of(TEXTS)
    found, _ = expected(events, TEXTS)
    for form in (events, tuple(events), iter(events), [Event(event) for event in events], map(OrderedDict, events)):
        assert pairs(index.match_batch(form)) == found


def test_rows_of_a_table_are_collected_too() -> None:
    index = index_of(["at > TIMESTAMP '2026-01-01'", "n = 1", "TRUE"], timestamps=["at"])
    table = pa.table({"at": ["2026-05-01", "x", None, "2025-01-01", "y"], "n": [1, 1, 1, 2, 1]})
    errors: list[tuple[int, RowError]] = []
    found = pairs(index.match_batch(table, errors=errors))
    assert found == [(0, 0), (0, 1), (0, 2), (2, 1), (2, 2), (3, 2)]
    assert [(row, error.row, "'" in str(error)) for row, error in errors] == [(1, 1, True), (4, 4, True)]
    with pytest.raises(EventError, match="event 1"):
        index.match_batch(table)
    with pytest.raises(EventError, match="a column of"):  # wrong as a whole: no row is right
        index.match_batch(pa.table({"n": pa.array([b"x"])}), errors=[])


def test_invalid_events_of_a_schema_are_collected() -> None:
    document = {"properties": {"n": {"type": "integer"}}, "additionalProperties": False}
    schema = Schema.from_json_schema({"type": "object", **document})
    index = Index(schema=schema)
    index.add(1, "n > 1")
    events: list[dict[str, Any]] = [{"n": 5}, {"n": "x"}, {"m": 1}, {"n": 7}]
    for form in (events, iter(events), pa.table({"n": ["5", "x"]})):
        errors: list[tuple[int, RowError]] = []
        found = index.match_batch(form, errors=errors)
        assert pairs(found) == ([] if isinstance(form, pa.Table) else [(0, 1), (3, 1)])
        assert [row for row, _ in errors] == ([0, 1] if isinstance(form, pa.Table) else [1, 2])
        assert all(isinstance(error, InvalidEvent) and error.row == row for row, error in errors)
    with pytest.raises(InvalidEvent, match="valid event 1"):
        index.match_batch(events)


def test_an_event_that_takes_too_many_steps_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conjunction, "BINDING_STEPS", Limit("binding steps", 10, "combinations tried", ""))
    index = index_of([" AND ".join(f"l.x{i} < l.y{i}" for i in range(8)), "TRUE"])
    many = {"l": [{f"{kind}{i}": n for i in range(8) for kind in "xy"} for n in range(4)]}
    with pytest.raises(LimitExceeded) as raised:
        index.match(many)
    assert raised.value.row is None
    errors: list[tuple[int, RowError]] = []
    assert pairs(index.match_batch([{}, many, {}], errors=errors)) == [(0, 1), (2, 1)]
    assert [row for row, _ in errors] == [1]
    for events in ([{}, many, {}], [{}, many, {}, {"l": b"x"}]):  # the last one is refused when it is read
        with pytest.raises(LimitExceeded, match="event 1"):
            index.match_batch(events)


def test_a_row_that_is_bad_where_an_earlier_segment_does_not_look_is_refused_with_its_number() -> None:
    """The first segment verifies a filter on the event, before the second one looks at its timestamps."""
    index = Index(timestamps=["at"])
    index.add_many([(0, r"a RLIKE '\bx\b'")])
    index.add_many([(1, "at > TIMESTAMP '2026-01-01'")])
    assert index.segments == 2
    table = pa.table({"a": ["y", "x", "y", "x"], "at": ["2026-05-01", "2026-05-01", "2025-01-01", "never"]})
    for threads in (1, 2):
        with pytest.raises(EventError, match="event 3: at"):
            index.match_batch(table, threads)
        errors: list[tuple[int, RowError]] = []
        assert pairs(index.match_batch(table, threads, errors)) == [(0, 1), (1, 0), (1, 1)]
        assert [(row, error.row) for row, error in errors] == [(3, 3)]


def test_a_stream_is_read_no_further_than_it_is_asked_for() -> None:
    index = index_of(["n >= 0"])
    taken = itertools.count()

    def endless() -> Iterator[dict[str, int]]:
        for number in taken:
            yield {"n": number}

    blocks = index.match_blocks(endless(), threads=1)
    for _ in range(4):
        next(blocks)
    blocks.close()
    assert next(taken) < 10_000


def test_an_event_of_many_values_and_many_small_ones_are_read_together() -> None:
    index = index_of([f"t CONTAINS {n}" for n in range(2_000)])
    events: list[dict[str, Any]] = [{"t": list(range(n))} for n in (3, 2_000, 0, 1_999, 12_000, 1)]
    assert pairs(index.match_batch(events)) == [
        (row, n) for row, event in enumerate(events) for n in event["t"] if n < 2_000
    ]


ARRAY_TEXTS = [
    "i.x = 1", "i.x = 1 AND i.y = 2", "i.x = 1 AND a = 1", "i.x = 1 OR i.y = 2", "i.z.u = 1 AND i.y = 2",
    "i.z.u = 1 AND i.z.v = 1", "i.x IS NOT NULL AND i.y = 1", "i.x = 1 AND j.x = 1", "i LIKE '%b%' AND i.x = 1",
    "i.x = 1 AND i.y = 2 AND j.x = 2 AND j.y = 1", "i.x IN (1, 3) AND i.y > 1 AND i.w < 3", "i.x != 2 AND i.y != 1",
    "i.x = 1 AND i.y = 2 OR j.x = 1 AND j.y = 2", "i.x = 2 AND i.y = 2 AND i.x < i.w", "i.x CONTAINS 1 AND i.y = 2",
    "i.x = 1 AND i.y LIKE '%b'", "NOT (i.x = 1 AND i.y = 2)", "i.x BETWEEN 1 AND 2 AND i.y = 'ab' AND a = 1",
]  # fmt: skip
several = st.one_of(st.integers(1, 3), st.lists(st.integers(1, 3), max_size=2), st.none())
element = st.fixed_dictionaries(
    {},
    optional={
        "x": several,
        "y": st.one_of(st.integers(1, 2), st.just("ab")),
        "w": st.integers(1, 3),
        "z": st.deferred(lambda: zs),
    },
)
inner = st.fixed_dictionaries({}, optional={"u": st.integers(1, 2), "v": st.integers(1, 2)})
zs = st.one_of(inner, st.lists(inner, max_size=2))
arrays = st.one_of(element, st.lists(st.one_of(element, st.sampled_from(["ab", 1, None]), st.lists(element))))
array_events = st.fixed_dictionaries(
    {}, optional={"i": arrays, "j": arrays, "a": st.integers(1, 2), "i.y": st.integers(1, 2)}
)


@given(st.lists(array_events, max_size=8), st.booleans())
def test_arrays_of_objects_are_coupled_in_every_form(events: list[dict[str, Any]], has_dead: bool) -> None:
    index = index_of(ARRAY_TEXTS)
    if has_dead:
        index.remove(3)
    filters = {n: Filter.parse(text) for n, text in enumerate(ARRAY_TEXTS) if n in index}
    found = [[n for n, filter in filters.items() if filter.matches(event)] for event in events]
    texts = [json.dumps(event) for event in events]
    assert [index.match(event) for event in events] == found
    assert [index.match(text) for text in texts] == found
    assert [index.match_rows(event).tolist() for event in events] == found
    every_pair = [(row, n) for row, its in enumerate(found) for n in its]
    assert pairs(index.match_batch(events)) == every_pair
    assert pairs(index.match_batch(texts)) == every_pair


columns = st.fixed_dictionaries(
    {
        "i": st.lists(
            st.fixed_dictionaries({name: st.one_of(st.none(), st.integers(1, 3)) for name in "xyw"}), max_size=4
        ),
        "j": st.one_of(
            st.none(), st.lists(st.fixed_dictionaries({name: st.integers(1, 2) for name in "xy"}), max_size=3)
        ),
        "a": st.integers(1, 2),
    }
)


@given(st.lists(columns, min_size=1, max_size=8), st.integers(0, 2))
def test_columns_of_arrays_of_objects_are_coupled(events: list[dict[str, Any]], first: int) -> None:
    index = index_of(ARRAY_TEXTS)
    table = pa.Table.from_pylist(events).slice(first)
    filters = [Filter.parse(text) for text in ARRAY_TEXTS]
    found = index.match_batch(table, threads=1)
    read = [Event({k: v for k, v in event.items() if v is not None}) for event in _without_nulls(events[first:])]
    assert pairs(found) == [
        (row, n) for row, event in enumerate(read) for n, one in enumerate(filters) if one.matches(event)
    ]


def _without_nulls(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A null field of a column is missing, unlike one of an object."""
    return [
        {
            name: [{k: v for k, v in one.items() if v is not None} for one in value]
            if isinstance(value, list)
            else value
            for name, value in event.items()
        }
        for event in events
    ]


@pytest.mark.parametrize("size", [1, 70, 1_500])
def test_only_one_element_of_many_holds(size: int) -> None:
    index = index_of([f"i.x = {n} AND i.y = {n}" for n in range(5)])
    items = [{"x": n % 5, "y": (n + 1) % 5} for n in range(size)]
    for place in (0, size - 1):
        event = {"i": [*items[:place], {"x": 3, "y": 3}, *items[place + 1 :]]}
        assert index.match(event) == index.match(json.dumps(event)) == [3]
        assert pairs(index.match_batch([event, {"i": items}])) == [(0, 3)]
        assert pairs(index.match_batch(pa.Table.from_pylist([{"i": items}, event]))) == [(1, 3)]


def test_rows_of_one_event_belong_to_the_caller() -> None:
    index = Index()
    index.add_many([("a", "x = 1"), ("b", "x > 0"), ("c", "x = 2")])
    index.replace("a", "x >= 1")
    one, two = index.match_rows({"x": 1}), index.match_rows({"x": 2})
    assert one.dtype == two.dtype == "int32"
    assert index.ids(one).to_pylist() == index.match({"x": 1}) == ["a", "b"]
    assert index.ids(two).to_pylist() == index.match({"x": 2}) == ["a", "b", "c"]
    assert len(index.match_rows({})) == 0


def test_rows_of_a_table_keep_their_arrays_of_objects_where_another_row_is_refused() -> None:
    index = Index(timestamps=["t"])
    index.add_many([(1, "d.x = 1 AND d.y = 2"), (2, "t > TIMESTAMP '2020-01-01'")])
    apart = {"d": [{"x": 1, "y": 5}, {"x": 3, "y": 2}], "t": "2021-01-01"}
    bad = {"d": [{"x": 1, "y": 2}], "t": "nonsense"}
    errors: list[tuple[int, RowError]] = []
    found = index.match_batch(pa.Table.from_pylist([apart, bad, apart]), errors=errors)
    assert found.to_pylist() == [{"event": 0, "subscription": 2}, {"event": 2, "subscription": 2}]
    assert [row for row, _ in errors] == [1]
