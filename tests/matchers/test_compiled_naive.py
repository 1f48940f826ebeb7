"""The compiled baseline, and what all compiled members share: bulk loading, batches, changes between matches."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import events, filters
from whimbrel.lab.workloads import make as make_workload
from whimbrel.matchers import MATCHERS, make
from whimbrel.matchers.frozen import FrozenMatcher
from whimbrel.model.errors import (
    DuplicateId,
    FilterSyntaxError,
    IdKindError,
    LimitExceeded,
    UnknownId,
    UnsupportedEvent,
    UnsupportedFilter,
)
from whimbrel.model.filter import Filter

FROZEN = [name for name, member in MATCHERS.items() if issubclass(member, FrozenMatcher)]
each_member = pytest.mark.parametrize("name", FROZEN)
each_general = pytest.mark.parametrize(
    "name", ["compiled_naive", "fair_predicate", "equality_preferred", "quarantine", "neon"]
)  # those that hold ranges, whatever their number


def frozen(name: str, **options: object) -> FrozenMatcher:
    matcher = make(name, **options)
    assert isinstance(matcher, FrozenMatcher)
    return matcher


def texts_of(name: str, candidates: list[Filter]) -> list[str]:
    """The filters that a member holds, as text."""
    probe = frozen(name)
    kept = []
    for number, filter in enumerate(candidates):
        try:
            probe.add(number, filter)
        except (UnsupportedFilter, LimitExceeded):
            continue
        kept.append(str(filter))
    return kept


def answer(matcher: FrozenMatcher, event: dict[str, Any]) -> list[int | str] | None:
    try:
        return matcher.match(event)
    except UnsupportedEvent:
        return None


@each_member
@given(candidates=st.lists(filters, max_size=8), found=st.lists(events(), min_size=1, max_size=3))
def test_many_at_once_answer_like_one_by_one(name: str, candidates: list[Filter], found: list[dict[str, Any]]) -> None:
    texts = texts_of(name, candidates)
    single, bulk = frozen(name), frozen(name)
    for number, text in enumerate(texts):
        single.add(number, text)
    bulk.add_many(enumerate(texts))
    bulk._check()
    for event in found:
        assert answer(bulk, event) == answer(single, event)
    bulk._check()
    assert [str(bulk[id].filter) for id in bulk] == [str(single[id].filter) for id in single]


@each_member
@given(data=st.data())
def test_changes_between_matches_are_seen_at_once(name: str, data: st.DataObject) -> None:
    matcher = frozen(name)
    kept: dict[int, Filter] = {}
    texts = texts_of(name, data.draw(st.lists(filters, min_size=1, max_size=6)))
    matcher.add_many(enumerate(texts))
    kept.update((number, Filter.parse(text)) for number, text in enumerate(texts))
    for step in range(data.draw(st.integers(1, 6))):
        for filter in data.draw(st.lists(filters, max_size=2)):
            id = len(texts) + 10 * step + len(kept)
            try:
                if kept and data.draw(st.booleans()):
                    id = data.draw(st.sampled_from(sorted(kept)))
                    matcher.replace(id, filter)
                else:
                    matcher.add(id, filter)
            except (UnsupportedFilter, LimitExceeded, DuplicateId):
                continue
            kept[id] = filter
        for id in data.draw(st.lists(st.sampled_from(sorted(kept)), unique=True, max_size=2)) if kept else []:
            matcher.remove(id)
            del kept[id]
        matcher._check()
        event = data.draw(events())
        found = answer(matcher, event)
        if found is not None:
            assert sorted(found) == sorted(id for id, filter in kept.items() if filter.matches(event))
            batch = matcher.match_batch([event]).column("subscription").to_pylist()
            assert sorted(batch) == sorted(found)
        matcher._check()


@each_member
def test_a_bad_bulk_load_changes_nothing(name: str) -> None:
    matcher = frozen(name)
    matcher.add_many([("x", "a = 1")])
    for ids, texts, error in (
        (["y", "x"], ["a = 1", "a = 2"], DuplicateId),
        (["y", "y"], ["a = 1", "a = 2"], DuplicateId),
        (["y", 1], ["a = 1", "a = 2"], IdKindError),
        (["y", "z"], ["a = 1", "a ="], FilterSyntaxError),
        (["y", "z"], ["a = 1", "a LIKE '%x_'"], UnsupportedFilter),
        (["y"], ["a = 1", "a = 2"], ValueError),
    ):
        with pytest.raises(error):
            matcher.add_many(zip(ids, texts, strict=True))  # type: ignore[arg-type]
        matcher._check()
        assert list(matcher) == ["x"]
    assert matcher.match({"a": 1}) == ["x"]


@each_general
def test_what_was_loaded_in_bulk_can_be_read_replaced_and_removed(name: str) -> None:
    matcher = frozen(name)
    matcher.add_many(enumerate(["a = 1", "a = 1 AND b > 2", "a > 5 AND a < 5", "b <= 2"]))
    assert str(matcher[1].filter) == "a = 1 AND b > 2"
    assert (len(matcher), 2 in matcher, 4 in matcher) == (4, True, False)
    assert matcher.match({"a": 1, "b": 2}) == [0, 3]
    matcher.replace(0, "b = 2")
    matcher.remove(3)
    assert matcher.match({"a": 1, "b": 2}) == [0]
    assert matcher.match({"a": 1, "b": 3}) == [1]
    assert matcher.match_batch([{"a": 1, "b": 2}, {"a": 1, "b": 3}]).num_rows == 2
    with pytest.raises(UnknownId):
        matcher.remove(3)
    matcher._check()
    matcher.freeze()
    matcher._check()
    assert matcher.match({"a": 1, "b": 2}) == [0]


@each_general
def test_tables_of_every_type_match_like_their_rows(name: str) -> None:
    matcher = frozen(name, timestamps=["t"])
    texts = ["a >= 2", "a = 2.5", "b = TRUE", "c = 'x'", "c < 'y' AND a != 3", "d = 1", "e.x = 1", "a != 2.5"]
    texts += ["t < TIMESTAMP '2026-01-02'", "u = TIMESTAMP '2026-01-01'", "a = 9007199254740993", "f > 0.5"]
    matcher.add_many(enumerate(texts))
    stamps = pa.array([0, None, 1767225600], pa.timestamp("s"))
    table = pa.table(
        {
            "a": pa.array([2.5, None, float("nan")]),
            "b": [True, False, None],
            "c": pa.array(["x", None, "y"]).dictionary_encode(),
            "t": ["2026-01-01", "2027-01-01", None],
            "u": stamps,
            "f": pa.array([None, 1, 0], pa.decimal128(5, 2)),
            "e": [None, {"x": 1}, {"y": 1}],
            "g": [{"z": 1}] * 3,
        }
    )
    integers = pa.table({"a": pa.array([9007199254740993, 9007199254740992, 3], pa.int64()), "n": pa.nulls(3)})
    unsigned = pa.table({"a": pa.array([2**64 - 1, 0], pa.uint64())})
    for part in (table, table.drop_columns("e"), integers, unsigned, pa.concat_tables([integers, integers.slice(1)])):
        expected = [
            (row, id)
            for row, event in enumerate(part.to_pylist())
            for id in matcher.match({k: v for k, v in event.items() if v is not None})
        ]
        found = matcher.match_batch(part)
        pairs = zip(found.column("event").to_pylist(), found.column("subscription").to_pylist(), strict=True)
        assert sorted(pairs) == expected


@each_general
def test_columns_of_lists_match_like_their_rows(name: str) -> None:
    matcher = frozen(name)
    if not matcher.capabilities.lists:
        pytest.skip("lists are outside the capabilities")
    matcher.add_many(enumerate(["a > 10 AND a < 20", "a != 5", "a = 5 AND b = 'x'", "b = 'y'", "a IN (1, 30)"]))
    lists = {"a": [[5, 30], [5], [], None, [15, None]], "b": [["x", "y"], ["x"], None, ["y"], [None]]}
    table = pa.table(lists)
    expected = [[1, 2, 3, 4], [2], [], [3], [0, 1]]
    for shape in (table, pa.concat_tables([table.slice(0, 2), table.slice(2)]), table.to_pylist()):
        rows = shape if isinstance(shape, list) else None
        events = [{k: v for k, v in row.items() if v is not None} for row in rows] if rows is not None else shape
        starts, places = next(iter(matcher.match_blocks(events)))
        assert [sorted(places[i:j].tolist()) for i, j in pairwise(starts)] == expected


@each_general
def test_batches_name_each_subscription_once_and_fill_the_buffer_many_times(name: str) -> None:
    matcher = frozen(name)
    matcher.add_many([("always", "TRUE"), ("or", "a < 5 OR b = 1"), *((str(i), "a < 9") for i in range(3000))])
    matcher.freeze()
    matcher._out = matcher._out[:3]
    found = matcher.match_batch(pa.table({"a": [1] * 5, "b": [1] * 5}))
    assert found.num_rows == 5 * 3002
    assert found.slice(0, 3002).column("subscription").to_pylist().count("or") == 1
    assert matcher.stats()["rows"] == 3


@each_general
@pytest.mark.parametrize("workload", ["lesubscribe", "mixed", "ranges"])
def test_workloads_match_like_the_reference(name: str, workload: str) -> None:
    made = make_workload(workload, n=400, events=30)
    filters = [Filter.parse(text) for text in made.subscriptions.column("filter").to_pylist()]
    matcher = frozen(name)
    supported = [i for i, f in enumerate(filters) if all(map(matcher.capabilities.supports, f.conjunctions))]
    matcher.add_many(zip(supported, [str(filters[i]) for i in supported], strict=True))
    rows = [{k: v for k, v in row.items() if v is not None} for row in made.events.to_pylist()]
    expected = sum(filters[i].matches(row) for row in rows for i in supported)
    assert matcher.match_batch(made.events).num_rows == expected
    matcher._check()


@each_general
def test_counters_are_there_only_when_asked_for(name: str) -> None:
    silent, counting = frozen(name), frozen(name, count=True)
    for matcher in (silent, counting):
        matcher.add_many(enumerate(["a = 1 AND b < 5", "a = 2", "b < 7"]))
        assert matcher.match_batch([{"a": 1, "b": 3}, {"b": 6}]).num_rows == 3
    assert not set(counting.counted) & set(silent.stats())
    assert all(isinstance(counting.stats()[key], int) for key in counting.counted)
    assert int(counting.stats()["bytes"]) > 0


def test_naive_looks_at_a_conjunction_until_its_first_failure() -> None:
    naive = frozen("compiled_naive", count=True)
    naive.add_many(enumerate(["a = 1 AND b < 5 AND c = 1", "a = 2 AND b < 5", "b < 7"]))
    naive.match({"a": 1, "b": 6})
    stats = naive.stats()
    assert (stats["conjunctions_checked"], stats["predicate_evaluations"]) == (3, 2 + 1 + 1)
    naive.match({"a": [2, 1], "b": 3})
    assert naive.stats()["predicate_evaluations"] == 4 + 3 + 2 + 1
