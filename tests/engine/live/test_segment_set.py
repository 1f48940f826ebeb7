"""When segments are merged and the head becomes one: what is left, and that every search between is right."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.live.merges import wait_for_merges
from whimbrel import Filter, Index
from whimbrel.engine.access.segment import Segment
from whimbrel.engine.live import merge_policy
from whimbrel.engine.live import segment_set as engine
from whimbrel.engine.matching.event_forms import TABLE_NS, ObjectSource


def state(index: Index) -> tuple[list[int], int]:
    """The sizes of the segments, ascending, and of the head."""
    snapshot = index._subscriptions.segments.snapshot
    return sorted(len(segment.rows) for segment in snapshot.segments), snapshot.head_size


def test_an_index_of_which_half_was_replaced_is_one_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "HEAD_SIZE", 16)
    index = Index()
    index.add_many((id, f"x = {id}") for id in range(400))
    for id in range(0, 400, 2):
        index.replace(id, f"x = {id} AND y > 0")
        wait_for_merges(index)
    assert state(index) == ([400], 0)
    for id in (0, 1, 398, 399):
        assert index.match({"x": id, "y": 1}) == [id]
        assert index.match({"x": id}) == ([id] if id % 2 else [])
    index._check()


def test_deaths_are_counted_again_before_a_segment_is_mostly_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first count finds too few dead; the next one comes when there may be enough, not a third of all later."""
    monkeypatch.setattr(engine, "HEAD_SIZE", 16)
    index = Index()
    index.add_many((id, f"x = {id}") for id in range(400))
    for id in range(199):
        index.remove(id)
        wait_for_merges(index)
    assert state(index) == ([400], 0)
    index.add(1_000, "x = 1000")
    index.remove(199)
    wait_for_merges(index)
    assert state(index) == ([201], 0)  # with what was in the head
    assert [index.match({"x": x}) for x in (199, 200, 1_000)] == [[], [200], [1_000]]
    index._check()


def test_a_head_that_is_dead_leaves_nothing_to_pay_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "SEGMENT_NS", 10**9)
    index = Index()
    index.add_many((id, f"x = {id}") for id in range(10))
    index.add(10, "x = 3")
    index.remove(10)
    assert index.match({"x": 3}) == [3]
    wait_for_merges(index)
    assert state(index) == ([10], 0)
    assert index.match({"x": 3}) == [3]
    index._check()


def test_a_head_that_costs_batches_more_than_a_segment_becomes_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_policy, "MERGE_NS", 10**12)  # no merge is paid for
    index = Index()
    index.add_many((id, f"x = {id}") for id in range(100))
    few, many = TABLE_NS // engine.ENTRY_NS // 2, 4 * TABLE_NS // engine.ENTRY_NS
    events = pa.table({"x": list(range(100)) * 100})
    for id in range(100, 100 + few):
        index.add(id, f"x = {id % 100}")
    for _ in range(10):
        assert len(index.match_batch(events, threads=1)) == 100 * (100 + few)
    assert state(index) == ([100], few)  # a segment would cost more
    for id in range(100 + few, 100 + many):
        index.add(id, f"x = {id % 100}")
    excess = len(events) * (many * engine.ENTRY_NS - TABLE_NS)
    for _ in range(engine.HEAD_NS // excess + 2):
        assert len(index.match_batch(events, threads=1)) == 100 * (100 + many)
    assert state(index) == ([100, many], 0)
    assert index.match({"x": 7}) == [id for id in range(100 + many) if id % 100 == 7]
    index._check()


def test_a_merge_that_comes_too_late_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the background merges two segments, somebody merges everything: the older result must not come back."""
    monkeypatch.setattr(ObjectSource, "segment_ns", 10**9)
    index = Index()
    for first in (0, 10):
        index.add_many((id, f"x = {id}") for id in range(first, first + 10))
    merged, overtaken = Segment.merged, []

    def slow(*given: Any) -> Segment:
        result = merged(*given)
        if threading.current_thread().name == "whimbrel-merge" and not overtaken:
            overtaken.append(True)
            index.remove(3)
            index.add(20, "x = 20")
            index.merge()
        return result

    monkeypatch.setattr(Segment, "merged", staticmethod(slow))
    assert len(index.match_batch([{"x": x} for x in range(20)], threads=1)) == 20
    wait_for_merges(index)
    assert overtaken and state(index) == ([20], 0)
    assert [index.match({"x": x}) for x in (3, 4, 20)] == [[], [4], [20]]
    index._check()


TEXTS = [
    *("a = 'p'", "a != 'p'", "a NOT IN ('p', 'q', 'new')", "a != 'new' AND a != 3", "a IS NOT NULL", "a IS NULL"),
    *("a CONTAINS ALL ('p', 'q')", "a CONTAINS ALL ('p', 5) AND b != 'q'", "a CONTAINS NONE ('p')", "a > 'n'"),
    *("a CONTAINS ANY ('q', NULL)", "b >= 2 AND a != 'zz'", "a LIKE 'p%'", "a = b", "a != 'p' OR b IS NOT NULL"),
]
some_values = st.sampled_from(["p", "q", "new", "zz", "", 3, 5, 2.5, True, None, ["p", "q"], ["p", None], ["new", 5]])
some_events = st.dictionaries(st.sampled_from(["a", "b"]), some_values, max_size=2)
steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "replace", "remove", "search", "search", "batch", "batch", "merge"]),
        st.integers(0, 99),
        st.lists(some_events, min_size=1, max_size=4),
    ),
    max_size=20,
)


@given(steps, st.sampled_from([["a = 'p' AND b = 1"], ["a < 'q'", "b != 'q'"], TEXTS]), st.booleans())
def test_searches_are_right_while_they_pay_for_merges(
    changes: list[tuple[str, int, list[dict[str, Any]]]], first: list[str], is_dear: bool
) -> None:
    """Merges run in the background between any two steps; what a search finds is what the filters say."""
    index = Index()
    held = dict(enumerate(first))
    index.add_many(held.items())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "SPENT_AT_ONCE", 0)
        patch.setattr(engine, "HEAD_NS", 0 if is_dear else 10**9)
        patch.setattr(engine, "SEGMENT_NS", 10**6)
        patch.setattr(ObjectSource, "segment_ns", 10**6)
        patch.setattr(merge_policy, "MERGE_NS", 2 * 10**6)
        for what, number, events in changes:
            text = TEXTS[number % len(TEXTS)]
            if what == "add":
                held[len(held) + 1_000 * (number + 1)] = text
                index.add(list(held)[-1], text)
            elif what == "replace" and held:
                id = list(held)[number % len(held)]
                held[id] = text
                index.replace(id, text)
            elif what == "remove" and held:
                id = list(held)[number % len(held)]
                del held[id]
                index.remove(id)
            elif what == "merge":
                index.merge()
            elif what == "search":
                for event in events:
                    assert index.match(event) == matching(held, event), event
            else:
                found = index.match_batch(events, threads=1)
                pairs = sorted(zip(found["event"].to_pylist(), found["subscription"].to_pylist(), strict=True))
                assert pairs == sorted((row, id) for row, event in enumerate(events) for id in matching(held, event))
        wait_for_merges(index)
    index._check()


def matching(held: dict[int, str], event: dict[str, Any]) -> list[int]:
    return [id for id, text in held.items() if Filter.parse(text).matches(event)]


@pytest.mark.parametrize("text", ["a != 'p'", "a NOT IN ('p', 'q')", "a IS NOT NULL", "a CONTAINS ALL ('p', 'q')"])
def test_ranks_decide_what_the_head_asks(text: str) -> None:
    """No filter is evaluated, where the segment knows the constants."""
    index = Index()
    index.add_many([(0, "a IN ('p', 'q', 'r')"), (1, "a = 3")])
    index.add(2, text)
    for value in ("p", "q", "r", "s", 3, 4, True, ["p", "q"], ["p", "s"], None):
        event = {"a": value}
        assert (2 in index.match(event)) is Filter.parse(text).matches(event), event
    assert index._subscriptions.segments.snapshot.head.spent == 0
