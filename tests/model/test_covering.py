"""The index of covering filters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import filters
from whimbrel import Filter
from whimbrel.model import covering
from whimbrel.model.covering import CoverIndex, SearchLimits

ranges = st.tuples(st.integers(0, 9), st.integers(0, 5)).map(
    lambda t: Filter.parse(f"x >= {t[0]} AND x <= {t[0] + t[1]}")
)
pools = st.lists(filters | ranges | ranges, max_size=12)

UNLIMITED = SearchLimits(nodes=10_000, nearest=1_000, widest=1_000, compared=1_000)


def index_of(pool: list[Filter]) -> CoverIndex[int]:
    index = CoverIndex[int](pool.__getitem__)
    for place in range(len(pool)):
        index.add(place)
    return index


@given(pools)
def test_what_is_said_to_cover_does(pool: list[Filter]) -> None:
    index = index_of(pool)
    for place in range(len(pool)):
        wider = index.find(place)
        if wider is not None:
            assert wider != place
            assert pool[wider].covers(pool[place])


@given(pools, st.lists(st.integers(0, 11), max_size=30), st.integers(0, 3))
def test_filters_come_and_go(pool: list[Filter], changes: list[int], inserted: int) -> None:
    index, present = CoverIndex[int](pool.__getitem__, UNLIMITED), set[int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(covering, "_INSERTED", inserted)
        for place in changes:
            if place >= len(pool):
                continue
            if place in present:
                index.remove(place)
            else:
                index.add(place)
            present ^= {place}
            index._check()
            found = index.find(place)
            expected = [one for one in present - {place} if pool[one].covers(pool[place])]
            assert (found in expected) if expected and pool[place].conjunctions else found is None
            index._check()
        for place in present:
            index.remove(place)
    assert not index


def test_intervals_are_found_among_many() -> None:
    texts = [f"kind = 'k{n % 7}' AND price BETWEEN {n} AND {n + 10 + n % 5}" for n in range(2_000)]
    pool = [Filter.parse(text) for text in [*texts, "kind = 'k3' AND price BETWEEN 500 AND 505 AND size = 2"]]
    found = index_of(pool).find(2_000)
    assert found is not None
    assert pool[found].covers(pool[2_000])


def test_the_widest_filter_is_found_first_and_a_near_one_if_that_demands_more() -> None:
    pool = [Filter.parse(f"x < {n}") for n in range(100)]
    assert index_of(pool).find(50) == 99
    pool = [Filter.parse(f"x < {n} AND y < {-n}") for n in range(100)] + [Filter.parse("x < 50 AND y < -51")]
    assert index_of(pool).find(100) in (50, 51)
