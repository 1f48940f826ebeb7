"""Watched numbers against a plain set."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from whimbrel.broker.webhooks.watched import WatchedNumbers

NUMBERS = st.lists(st.integers(0, 40))


@given(NUMBERS, st.lists(st.tuples(NUMBERS, NUMBERS), max_size=5))
def test_the_watched_ones_are_found(first: list[int], steps: list[tuple[list[int], list[int]]]) -> None:
    watched, expected = WatchedNumbers(set(first)), set(first)
    for added, asked in steps:
        for number in added:
            watched.add(number)
            expected.add(number)
        assert watched.among(np.array(asked, np.int64)) == sorted(expected & set(asked))
