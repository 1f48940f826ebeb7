"""Which segments are merged, as a table."""

from __future__ import annotations

import pytest

from whimbrel.engine.live.merge_policy import MERGE_NS, ROW_NS, is_time_to_count, like_sized, mostly_dead, paid_for


@pytest.mark.parametrize(
    ("sizes", "merged"),
    [
        ([], []),
        ([100, 100, 100], []),  # too few
        ([100, 100, 100, 100], [0, 1, 2, 3]),
        ([100, 1, 100, 7], [0, 1, 2, 3]),  # below a head: one tier
        ([199, 100, 50, 1], [0, 1, 2, 3]),
        ([200, 100, 100, 100], []),  # twice a head begins the next tier
        ([200, 799, 400, 300], [0, 1, 2, 3]),  # up to four times as large: one tier
        ([800, 200, 200, 200], []),
        ([800, 3_199, 200, 1_000, 900, 5], [0, 1, 3, 4]),
        ([200, 200, 200, 200, 5, 5, 5, 5], [4, 5, 6, 7]),  # the lowest tier first
        ([5, 5, 5, 5, 5], [0, 1, 2, 3, 4]),  # all of the tier
    ],
)
def test_segments_of_like_size_are_merged(sizes: list[int], merged: list[int]) -> None:
    assert like_sized(sizes, head=100, fanout=4) == merged


def test_a_growing_index_rewrites_each_subscription_a_few_times() -> None:
    sizes: list[int] = []
    written = 0
    for _ in range(4_096):
        sizes.append(100)
        while places := like_sized(sizes, head=100, fanout=4):
            whole = sum(sizes[place] for place in places)
            written += whole
            sizes = [size for place, size in enumerate(sizes) if place not in places] + [whole]
    assert len(sizes) < 4 * 7  # fewer than the fanout in each tier
    assert written <= 7 * 409_600


@pytest.mark.parametrize(
    ("sizes", "dead", "merged"),
    [([], [], []), ([10], [4], []), ([10], [5], [0]), ([0], [0], []), ([3, 9, 4], [3, 0, 2], [0, 2])],
)
def test_mostly_dead_segments_are_rewritten(sizes: list[int], dead: list[int], merged: list[int]) -> None:
    assert mostly_dead(sizes, dead) == merged


@pytest.mark.parametrize(
    ("deaths", "sizes", "is_time"),
    [
        (0, [], False),
        (100, [], True),
        (99, [1], False),
        (100, [300], True),
        (100, [301], False),
        (101, [200, 103], True),
    ],
)
def test_the_dead_are_counted_when_a_third_may_have_died(deaths: int, sizes: list[int], is_time: bool) -> None:
    assert is_time_to_count(deaths, sizes, head=100) is is_time


@pytest.mark.parametrize(
    ("sizes", "rows", "merged"),
    [
        ([], 10, []),
        ([5], 100, []),  # nothing to merge
        ([5, 5], 9, []),  # not paid for yet
        ([5, 5], 10, [0, 1]),
        ([900, 5, 20, 5], 10, [1, 3]),  # the smallest
        ([900, 5, 20, 5], 30, [1, 2, 3]),
        ([900, 5, 20, 5], 930, [0, 1, 2, 3]),
        ([7, 7, 7], 14, [0, 1]),
    ],
)
def test_segments_are_merged_once_searches_have_paid_for_it(sizes: list[int], rows: int, merged: list[int]) -> None:
    assert paid_for(sizes, MERGE_NS + ROW_NS * rows) == merged
