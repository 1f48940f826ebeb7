"""A workspace goes from segment to segment: it fits each once, and anew when its buffers have moved."""

from __future__ import annotations

import gc

import pytest

from whimbrel import Index
from whimbrel.engine.access.kernel import LAST_EPOCH
from whimbrel.engine.matching import workspace as module
from whimbrel.model.errors import EventError


def segments(index: Index, first: int, attributes: int, count: int = 40) -> None:
    """One more segment, with so many attributes."""
    index.add_many((first + n, f"a{n % attributes} = {n} OR x = {first + n}") for n in range(count))


def test_every_segment_is_fitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    index, calls = Index(), []
    for first in (0, 100, 200):
        segments(index, first, 3)
    assert index.segments == 3
    index.match({"x": 1})
    monkeypatch.setattr(module, "words_of", lambda *parts: calls.append(parts))
    assert [index.match({"x": x}) for x in (0, 105, 210, 7)] == [[0], [105], [210], [7]]
    assert calls == []


def test_buffers_that_grow_are_found_by_the_segments_before() -> None:
    index = Index()
    for number, attributes in enumerate((2, 300, 5, 3_000)):
        segments(index, 10_000 * number, attributes, max(40, attributes))
        for x in range(0, 10_000 * (number + 1), 10_000):
            for event in ({"x": x + 1, "a1": 1}, {"a1": 1}):
                expected = {n * 10_000 + 1 for n in range(number + 1)} | ({x + 1} if "x" in event else set())
                assert set(index.match(event)) >= expected
        gc.collect()  # what nobody points to any more


def test_segments_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORDS_KEPT", 4)
    index = Index()
    for number in range(12):
        segments(index, 100 * number, 2)
        assert index.match({"x": 100 * number + 5}) == [100 * number + 5]
        index.merge()
    (workspace,) = index._workspaces._all
    assert len(workspace._fitted) <= 5


def test_events_are_counted_anew_after_very_many() -> None:
    index = Index()
    index.add_many([(0, "a = 1 OR a = 2"), (1, "a = 3")])
    index.match({"a": 1})
    (workspace,) = index._workspaces._all
    for before in (LAST_EPOCH - 1, LAST_EPOCH):
        workspace._epoch[0] = before
        assert [index.match({"a": [1, 2]}) for _ in range(3)] == [[0]] * 3
        assert workspace._epoch[0] == (before + 2) % LAST_EPOCH + 1


@pytest.mark.parametrize("threads", [1, 2])
def test_a_workspace_comes_back_from_a_bad_batch_and_from_one_that_nobody_finishes(threads: int) -> None:
    index = Index()
    index.add(1, "a = 1")
    events = [{"a": 1}] * 100
    for _ in range(5):
        with pytest.raises(EventError):
            index.match_batch([{"a": 1}, {"a": b"1"}], threads)
        blocks = index.match_blocks(events, threads)
        next(blocks)
        blocks.close()
    assert len(index._workspaces._all) == len(index._workspaces._free) <= threads + 1
