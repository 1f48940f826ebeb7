"""Slots that die or take the place of others: what is found, in which order, and what becomes of the memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.live.merges import wait_for_merges
from whimbrel import Index
from whimbrel.engine.access.shared.packing import VERIFY_BIT, leave_out_dead
from whimbrel.engine.live import segment_set as engine
from whimbrel.engine.matching.event_forms import ObjectSource


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 9), st.booleans()))),
    st.lists(st.integers(0, 5), min_size=10, max_size=10),
)
def test_dead_slots_are_left_out_row_by_row(rows: list[list[tuple[int, bool]]], deaths: list[int]) -> None:
    version, died = 3, np.array(deaths, np.int32)
    flagged = [[slot | (VERIFY_BIT if flag else 0) for slot, flag in row] for row in rows]
    offsets = np.cumsum([0, *map(len, rows)])
    slots = np.array([slot for row in flagged for slot in row], np.int32)
    kept = leave_out_dead(offsets, slots, died, version)
    expected = [[one for one in row if not 0 < died[one & ~VERIFY_BIT] <= version] for row in flagged]
    assert offsets.tolist() == np.cumsum([0, *map(len, expected)]).tolist()
    assert slots[:kept].tolist() == [slot for row in expected for slot in row]


def test_places_stay_through_many_replacements_merges_and_saves(tmp_path: Path) -> None:
    index = Index()
    for id in range(10):
        index.add(id, "x = 1")
    for _ in range(600):
        for id in (3, 7):
            index.replace(id, "x = 1")
    for id in range(10, 1_500):
        index.add(id, "y = 1")
    index._check()
    index.save(tmp_path / "index")
    opened = Index.open(tmp_path / "index")
    opened.replace(3, "x > 0")
    for one in (index, opened):
        assert one.match({"x": 1}) == list(range(10)) and list(one) == list(range(1_500))
        one.merge()
        assert one.match({"x": 1}) == list(range(10))
        one._check()


def test_segments_that_are_mostly_dead_are_written_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "HEAD_SIZE", 8)
    index = Index()
    index.add_many((id, f"x = {id % 7}") for id in range(100))
    index.add_many((id, f"x = {id % 7}") for id in range(100, 200))
    for id in range(90):
        index.remove(id)
        wait_for_merges(index)
    assert sorted(len(segment.rows) for segment in index._subscriptions.segments.snapshot.segments) < [50, 100]
    assert index.match({"x": 0}) == [id for id in range(90, 200) if id % 7 == 0]
    for id in range(90, 200):
        index.replace(id, "y = 1")
        wait_for_merges(index)
    assert sum(len(segment.rows) for segment in index._subscriptions.segments.snapshot.segments) < 220
    assert index.match({"x": 0}) == [] and index.match({"y": 1}) == list(range(90, 200))
    for id in range(90, 200):
        index.remove(id)
    wait_for_merges(index)
    assert index.match({"y": 1}) == [] and len(index) == 0
    index._check()


def test_searches_pay_for_merging_what_changes_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "SEGMENT_NS", 1_000_000_000)
    index = Index()
    index.add_many((number, f"x = {number}") for number in range(10))
    index.add_many((number, f"x = {number}") for number in range(10, 20))
    index.replace(3, "x = 30")
    index.remove(4)
    snapshot = index._subscriptions.segments.snapshot
    assert (index.segments, snapshot.head_size, snapshot.died is None) == (2, 1, False)
    assert index.match({"x": 30}) == [3]
    wait_for_merges(index)
    after = index._subscriptions.segments.snapshot
    assert (index.segments, after.head_size, after.died is None) == (1, 0, True)
    assert [index.match({"x": x}) for x in (3, 4, 5, 15, 30)] == [[], [], [5], [15], [3]]
    index._check()


def test_batches_pay_for_merging_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ObjectSource, "segment_ns", 1_000_000_000)
    index = Index()
    for first in (0, 10, 20):
        index.add_many((number, f"x = {number}") for number in range(first, first + 10))
    events = [{"x": x} for x in range(30)]
    wanted = index.match_batch(events, threads=1).to_pydict()
    wait_for_merges(index)
    assert index.segments == 1
    assert index.match_batch(events, threads=1).to_pydict() == wanted
