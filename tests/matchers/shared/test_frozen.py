"""What all compiled members share: bulk loading, batches, counters."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import pairwise

import pyarrow as pa
import pytest

from whimbrel.lab.workloads import make as make_workload
from whimbrel.matchers import MATCHERS, make
from whimbrel.matchers.shared.frozen import FrozenMatcher
from whimbrel.model.errors import DuplicateId, FilterSyntaxError, IdKindError, UnknownId, UnsupportedFilter
from whimbrel.model.event import Event
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


@cache
def workload(name: str) -> tuple[pa.Table, list[Filter], list[int]]:
    """The events of a small workload, its filters, and how many events each of them matches."""
    made = make_workload(name, n=200, events=30)
    filters = [Filter.parse(text) for text in made.subscriptions.column("filter").to_pylist()]
    events = [Event({k: v for k, v in row.items() if v is not None}) for row in made.events.to_pylist()]
    return made.events, filters, [sum(filter.matches(event) for event in events) for filter in filters]


@each_general
@pytest.mark.parametrize("of", ["lesubscribe", "mixed", "ranges"])
def test_workloads_match_like_the_reference(name: str, of: str) -> None:
    events, filters, matches = workload(of)
    matcher = frozen(name)
    supported = [i for i, f in enumerate(filters) if all(map(matcher.capabilities.supports, f.conjunctions))]
    matcher.add_many((i, str(filters[i])) for i in supported)
    found = matcher.match_batch(events).column("subscription").to_pylist()
    assert Counter(found) == Counter({i: matches[i] for i in supported if matches[i]})
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
