"""The index of covering filters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import filters
from whimbrel import Filter
from whimbrel.model.covering import CoverIndex


@given(st.lists(filters, max_size=10))
def test_what_is_said_to_cover_does(pool: list[Filter]) -> None:
    places = {filter: place for place, filter in enumerate(pool)}.values()
    covers = CoverIndex(pool, places)
    for place in places:
        wider = covers.covering(place)
        if wider is not None:
            assert wider != place
            assert pool[wider].covers(pool[place])


def test_intervals_are_found_among_many() -> None:
    texts = [f"kind = 'k{n % 7}' AND price BETWEEN {n} AND {n + 10 + n % 5}" for n in range(2_000)]
    pool = [Filter.parse(text) for text in [*texts, "kind = 'k3' AND price BETWEEN 500 AND 505 AND size = 2"]]
    found = CoverIndex(pool, range(len(pool))).covering(2_000)
    assert found is not None
    assert pool[found].covers(pool[2_000])
