"""Which segments are merged, as a table."""

from __future__ import annotations

import pytest

from whimbrel.engine.live.merge_policy import MERGE_NS, ROW_NS, deaths_to_count, like_sized, mostly_dead, paid_for


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
    [
        ([], [], []),
        ([10], [4], []),
        ([10], [5], [0]),
        ([0], [0], []),
        ([3, 9, 4], [3, 0, 2], [0, 2]),
        ([20, 9, 10, 11, 11], [10, 0, 0, 0, 1], [0, 1, 2, 4]),  # with those that are no larger than what is left
    ],
)
def test_mostly_dead_segments_are_rewritten(sizes: list[int], dead: list[int], merged: list[int]) -> None:
    assert mostly_dead(sizes, dead) == merged


@pytest.mark.parametrize(
    ("sizes", "dead", "deaths"),
    [
        ([], [], 10),
        ([300], [0], 150),
        ([640], [317], 10),  # one in sixty-four
        ([301], [100], 51),
        ([400, 101], [100, 0], 51),
        ([400, 19], [0, 0], 200),  # one that is smaller than two heads is not worth it
        ([19, 0], [9, 0], 10),
    ],
)
def test_the_dead_are_counted_when_a_segment_may_be_mostly_dead(sizes: list[int], dead: list[int], deaths: int) -> None:
    assert deaths_to_count(sizes, dead, head=10) == deaths


@pytest.mark.parametrize(
    ("sizes", "rows", "merged"),
    [
        ([], 10, []),
        ([5], 100, []),  # nothing to merge
        ([5, 6], 10, []),  # not paid for yet
        ([5, 6], 11, [0, 1]),
        ([6, 5], 11, [0, 1]),
        ([9_000, 5, 20, 6], 9_031, [0, 1, 2, 3]),
        ([9_000_000, 5, 20, 6], 31, [1, 2, 3]),
    ],
)
def test_segments_are_merged_once_searches_have_paid_for_it(sizes: list[int], rows: int, merged: list[int]) -> None:
    """Searches have spent time on the smallest one alone."""
    spent = [MERGE_NS + ROW_NS * rows if size == min(sizes) else 0 for size in sizes]
    assert paid_for(sizes, spent) == merged


def test_segments_pay_for_their_own_merge() -> None:
    much, little = 1_000 * MERGE_NS, MERGE_NS // 2
    assert paid_for([900_000, 50, 1], [0, much, 0]) == [0, 1, 2]
    assert paid_for([900_000, 50, 1], [0, 10 * MERGE_NS, little]) == []  # neither all of them nor the newest two
    assert paid_for([900_000, 50, 1], [0, 10 * MERGE_NS, 2 * MERGE_NS]) == [1, 2]
    assert paid_for([900_000, 50, 1], [much, little, little]) == []  # the largest is there in any case
