"""What the index gives back: order, names, statistics, and the index as a collection."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.engine.test_index import block_pairs, pairs
from whimbrel import Filter, Index
from whimbrel.model.errors import EventError


def test_events_are_named_by_row_where_they_are_bad() -> None:
    index = Index()
    index.add(0, "a = 1")
    with pytest.raises(EventError, match="event 40"):
        index.match_batch([{"a": 1}] * 40 + [{"a": object()}] + [{"a": 1}] * 40)


@pytest.mark.parametrize("threads", [1, 2, 5, None])
def test_results_of_many_units_come_in_event_order(threads: int | None) -> None:
    index = Index()
    index.add_many((id, f"a >= {id}") for id in range(50))
    batch = [{"a": row % 60} for row in range(5_000)]
    wanted = [(row, id) for row in range(5_000) for id in range(min(50, row % 60 + 1))]
    assert sorted(pairs(index.match_batch(batch, threads))) == wanted
    assert sorted(block_pairs(index, pa.Table.from_pylist(batch), threads)) == wanted
    assert sorted(pairs(index.match_batch(iter(batch), threads))) == wanted


@pytest.mark.parametrize("threads", [1, 3])
def test_blocks_may_be_left_early(threads: int) -> None:
    index = Index()
    index.add_many((id, "a >= 0") for id in range(10))
    for stop in range(3):
        blocks = index.match_blocks([{"a": row} for row in range(500)], threads)
        for _ in range(stop):
            next(blocks)
        blocks.close()
    assert len(block_pairs(index, [{"a": 1}], threads)) == 10


def test_string_ids_come_as_one_dictionary() -> None:
    index = Index()
    index.add_many((f"id{n}", f"a >= {n}") for n in range(10))
    table = index.match_batch([{"a": 3}, {"a": 0}, {"a": -1}, {"a": 3}])
    assert table.schema == pa.schema({"event": pa.int64(), "subscription": pa.dictionary(pa.int32(), pa.string())})
    assert sorted(pairs(table)) == [*[(0, f"id{n}") for n in range(4)], (1, "id0"), *[(3, f"id{n}") for n in range(4)]]
    assert index.match_batch([{"a": -1}]).schema == table.schema


def test_timestamps_are_read_where_they_are_named() -> None:
    index = Index(timestamps=["t"])
    index.add(0, "t < TIMESTAMP '2026-01-02'")
    index.add(1, "u = '2026-01-01'")
    event = {"t": "2026-01-01", "u": "2026-01-01"}
    assert index.match(event) == [0, 1]
    for batch in ([event], pa.Table.from_pylist([event])):
        assert sorted(pairs(index.match_batch(batch))) == [(0, 0), (0, 1)]
    index.analyze(pa.Table.from_pylist([event]))
    assert index.match(event) == [0, 1]
    assert index.near_misses({"t": "2026-02-01"})[0].failed == 1
    assert index.explain(0, event).matched


def test_stats_count_what_is_held_and_done() -> None:
    index = Index()
    index.add_many((id, f"a = {id} AND b > 3") for id in range(100))
    index.add(100, "TRUE")
    index.add(101, "a = 1 AND a = 2")
    index.remove(7)
    before = index.stats()
    assert before["subscriptions"] == 101 and before["head"] == 2
    assert index.match({"a": 5, "b": 4}) == [5, 100]
    assert len(pairs(index.match_batch([{"a": 5, "b": 4}] * 10))) == 20
    index.plan(100)  # compiles the head
    after = index.stats()
    assert after["events"] == 11 and after["head"] == 0 and after["always_true"] == 1
    assert sum(after["segment_sizes"]) == 101 and after["rows"] == 102  # type: ignore[call-overload]
    assert after["bytes"] > 0 and after["text_bytes"] > 0  # type: ignore[operator]
    assert index.plan(100)["conjunctions"] == [{"segment": 1, "key": "always", "attributes": [], "share": 1.0}]
    assert index.plan(101)["conjunctions"] == []


def test_the_index_is_a_collection() -> None:
    index = Index()
    assert len(index) == 0 and list(index) == [] and "x" not in index and index.attributes() == frozenset()
    index.add("x", "a = 1 OR d.x > 3")
    assert len(index) == 1 and list(index) == ["x"] and "x" in index
    assert index["x"].id == "x" and index["x"].filter == Filter.parse("a = 1 OR d.x > 3")
    assert index.attributes() == {"a", "d.x"}
    index.merge()
    assert index.attributes() == {"a", "d.x"}
    assert index["x"].filter.text == "a = 1 OR d.x > 3"
