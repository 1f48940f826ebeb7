"""Distinct values and orders are those of NumPy's `unique` and `lexsort`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whimbrel.ranks.distinct import distinct, float_places, sort_by_two, together

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


_natural = st.one_of(st.integers(0, 3), st.integers(0, 2**62), st.sampled_from([2**40, 2**62 + 1]))


@given(st.lists(st.tuples(_natural, st.integers(0, 2**50)), max_size=30))
def test_equal_numbers_stand_together_sorted_by_the_others(pairs: list[tuple[int, int]]) -> None:
    major, minor = np.array(pairs, np.int64).reshape(-1, 2).T
    order = sort_by_two(major, minor)
    assert sorted(order.tolist()) == list(range(len(pairs)))
    runs = np.flatnonzero(np.diff(major[order], prepend=-1))
    assert len(runs) == len(set(major.tolist()))
    for run in np.split(order, runs[1:]):
        assert run.tolist() == [run[i] for i in np.lexsort((run, minor[run]))]


@given(st.lists(_natural, max_size=30))
def test_equal_numbers_stand_together_in_their_order(numbers: list[int]) -> None:
    values = np.array(numbers, np.int64)
    order, same = together(values)
    assert sorted(order.tolist()) == list(range(len(numbers)))
    assert (values[order[1:]] == values[order[:-1]]).tolist() == same.tolist()
    assert (~same).sum() == max(0, len(set(numbers)) - 1)
    assert (np.diff(order)[same] > 0).all()


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=40))
def test_floats_are_placed_among_their_distinct_values(numbers: list[float]) -> None:
    values = np.array(numbers)
    found = float_places(values)
    if found is not None:
        assert found[0].tolist() == sorted(set(numbers))
        assert found[0][found[1]].tolist() == numbers
    else:  # not spread evenly
        assert len(set(numbers)) == 1 or not np.isfinite(max(numbers) - min(numbers)) or len(numbers) > 20


def test_many_floats_are_placed_unless_they_are_crowded() -> None:
    rng = np.random.default_rng(1)
    even = np.round(rng.random(50_000), 5) - 0.5
    found = float_places(even)
    assert found is not None
    assert found[0].tolist() == np.unique(even).tolist() and (found[0][found[1]] == even).all()
    assert float_places(np.append(even, 1e9)) is None


def test_numbers_with_one_hash_are_told_apart() -> None:
    inverse = pow(0x9E3779B97F4A7C15, -1, 2**64)
    alike = [number for number in (((7 << 40) | low) * inverse % 2**64 for low in range(64)) if number < 2**63]
    major = np.array(alike * 3, np.int64)
    found = major[sort_by_two(major, np.zeros(len(major), np.int64))]
    assert len(alike) > 1 and (np.diff(found) != 0).sum() == len(alike) - 1


def test_long_runs_are_in_order_but_for_the_last_bits() -> None:
    rng = np.random.default_rng(1)
    major, minor = rng.integers(0, 2**60, 500)[rng.integers(0, 500, 70_000)], rng.integers(0, 2**47, 70_000)
    order = sort_by_two(major, minor)
    same = major[order[1:]] == major[order[:-1]]
    assert (~same).sum() == len(set(major.tolist())) - 1
    assert (np.diff(minor[order] >> 24)[same] >= 0).all()
