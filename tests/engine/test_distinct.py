"""Distinct values and orders are those of NumPy's `unique` and `lexsort`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whimbrel.engine.ranks.distinct import distinct, sort_by_two

_few = st.integers(-3, 3)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float64])
@given(values=st.lists(st.one_of(_few, st.integers(-(2**31), 2**31 - 1)), max_size=20))
def test_distinct_values_are_sorted(values: list[int], dtype: type) -> None:
    found = distinct(np.array(values, dtype))
    assert found.dtype == dtype
    assert found.tolist() == sorted(set(values))


def test_the_largest_integers_do_not_overflow() -> None:
    ends = [-(2**63), 2**63 - 1]
    assert distinct(np.array(ends * 3, np.int64)).tolist() == ends
    assert distinct(np.array([ends[1], ends[1] - 1] * 3, np.int64)).tolist() == [ends[1] - 1, ends[1]]
    assert distinct(np.array([-(2**31), 2**31 - 1], np.int32)).tolist() == [-(2**31), 2**31 - 1]


@given(st.lists(st.tuples(_few, _few), max_size=30))
def test_ties_are_broken_as_by_lexsort(pairs: list[tuple[int, int]]) -> None:
    major, minor = np.array(pairs, np.int64).reshape(-1, 2).T
    assert sort_by_two(major, minor).tolist() == np.lexsort((minor, major)).tolist()
