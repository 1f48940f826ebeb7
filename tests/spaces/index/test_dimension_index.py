"""The index of one role against brute force, by every strategy."""

from __future__ import annotations

import numpy as np
import pytest

from whimbrel.spaces.index import ordered_lists
from whimbrel.spaces.index.dimension_index import DimensionIndex
from whimbrel.spaces.index.region_arrays import HIGH, LOW, Regions

SPACES = {
    "one narrow": [[0, 1]],
    "one wide": [list(range(12))],
    "several": [[0, 1], [1, 2, 3], [4], list(range(3, 14))],
}


def draw(rng: np.random.Generator, dimensions: int, most: int, width: int, count: int) -> list[list[tuple[int, ...]]]:
    rows = []
    for _ in range(count):
        chosen = np.sort(rng.choice(dimensions, rng.integers(1, most + 1), replace=False))
        row = []
        for d in chosen.tolist():
            low = int(rng.integers(0, 60))
            high = low + 1 + int(rng.integers(0, width + 1))
            kind = rng.integers(0, 12)
            row.append((d, LOW if kind == 0 else low, HIGH if kind == 1 else high))
        rows.append(row)
    return rows


Bounds = tuple[np.ndarray, np.ndarray, np.ndarray]


def bounds(rows: list[list[tuple[int, ...]]], dimensions: int) -> Bounds:
    """By row and dimension: the low end, the high end, and whether there is a constraint."""
    shape = (len(rows), dimensions)
    lows, highs, is_given = np.full(shape, LOW), np.full(shape, HIGH), np.zeros(shape, bool)
    for row, cells in enumerate(rows):
        for d, low, high in cells:
            lows[row, d], highs[row, d], is_given[row, d] = low, high, True
    return lows, highs, is_given


def matching(regions: Bounds, place: int, stored: Bounds, spaces: list[list[int]]) -> set[int]:
    """The stored regions that share a space with a region, and overlap it in all dimensions of that space."""
    low, high, is_given = (each[place] for each in regions)
    overlaps = (low < stored[1]) & (stored[0] < high)
    found = np.zeros(len(overlaps), bool)
    for space in spaces:
        if is_given[space].any():
            found |= stored[2][:, space].any(axis=1) & overlaps[:, space].all(axis=1)
    return set(np.flatnonzero(found).tolist())


@pytest.mark.parametrize("tail", [0, 50, 2_048])
@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("width", [0, 8, 40])
def test_searches_find_what_begins_to_match(name: str, tail: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered_lists, "TAIL", tail)
    rng = np.random.default_rng(width)
    spaces = SPACES[name]
    dimensions = 1 + max(d for space in spaces for d in space)
    index = DimensionIndex()
    index.define(spaces, dimensions)
    stored = draw(rng, dimensions, min(dimensions, 3), width, 400)
    index.write(index.take(400), Regions.of(stored))
    for turn in range(8):
        count = 60 if turn % 3 == 0 else 10  # many are merged, few marked dead one by one
        chosen = rng.choice(400, count, replace=False)
        for row, cells in zip(chosen.tolist(), draw(rng, dimensions, 2, width, count), strict=True):
            stored[row] = cells
        index.write(chosen.astype(np.int32), Regions.of([stored[row] for row in chosen.tolist()]))
        index._check()
        olds = draw(rng, dimensions, min(dimensions, 5), 3 * turn, 25)
        news = [
            old if turn == 7 else [(d, low, high) if rng.integers(2) else (d, 5, 6) for d, low, high in old]
            for old in olds
        ]
        news[:8] = draw(rng, dimensions, min(dimensions, 5), 3, 8)
        olds[20:] = [[] for _ in olds[20:]]
        found = np.stack(index.search(Regions.of(olds), Regions.of(news)), axis=1)
        before, after, there = (bounds(each, dimensions) for each in (olds, news, stored))
        for place in range(len(news)):
            expected = matching(after, place, there, spaces) - matching(before, place, there, spaces)
            assert sorted(found[found[:, 0] == place, 1].tolist()) == sorted(expected), (turn, place)


def test_a_large_batch_is_shared_by_two_threads() -> None:
    rng = np.random.default_rng(5)
    index = DimensionIndex()
    index.define([[0, 1]], 2)
    index.write(index.take(200), Regions.of(draw(rng, 2, 2, 5, 200)))
    news = Regions.of(draw(rng, 2, 2, 0, 600))
    found = np.stack(index.search(Regions.none(600), news), axis=1)
    for place in range(600):
        alone = index.search(Regions.none(1), news.part(place, place + 1))[1]
        assert sorted(found[found[:, 0] == place, 1].tolist()) == sorted(alone.tolist())


def test_flags_choose_which_rows_are_searched() -> None:
    index = DimensionIndex()
    index.define([[0]], 1)
    rows = index.take(3)
    index.write(rows, Regions.of([[(0, 0, 10)]] * 3))
    index.rows.flags[rows] = [1, 0, 3]
    found = index.search(Regions.none(1), Regions.of([[(0, 5, 6)]]), required=1)[1]
    assert sorted(found.tolist()) == [0, 2]


def test_free_rows_are_used_again_and_lost_cells_are_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered_lists, "TAIL", 4)
    index = DimensionIndex()
    index.define([list(range(9))], 9)
    rng = np.random.default_rng(0)
    rows = index.take(50)
    for _ in range(40):
        index.write(rows, Regions.of(draw(rng, 9, 9, 5, 50)))
        index.merge()
        index._check()
    assert len(index.rows.cells) < 50 * 9 * 4
    index.free(rows[:20])
    index._check()
    assert set(index.take(20).tolist()) == set(rows[:20].tolist())
    assert index.row_count == 50
