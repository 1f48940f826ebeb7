"""Match lists: what goes in comes out, in ascending order, in few bytes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whimbrel.log.match_list import decode, decode_all, encode, encode_all

_INT64 = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(-300, 300),
    st.sampled_from([-(1 << 63), (1 << 63) - 1, 0, -1, 1, 127, 128]),
)
_LISTS = st.one_of(st.lists(_INT64, max_size=40), st.lists(st.integers(0, 1_000), max_size=40))


@given(_LISTS)
def test_a_list_comes_back_as_an_ascending_set(numbers: list[int]) -> None:
    assert decode(encode(numbers)) == sorted(set(numbers))


@given(_LISTS)
def test_arrays_and_lists_give_the_same_bytes(numbers: list[int]) -> None:
    assert encode(np.array(numbers, np.int64)) == encode(numbers)


@given(st.lists(_LISTS, max_size=4))
def test_many_lists_at_once_are_the_lists_one_by_one(lists: list[list[int]]) -> None:
    ascending = [sorted(set(numbers)) for numbers in lists]
    coded = [encode(numbers) for numbers in lists]
    offsets, numbers = decode_all(coded)
    assert [numbers[start:stop].tolist() for start, stop in pairwise(offsets)] == ascending
    assert encode_all(offsets, numbers) == coded


@given(st.binary(max_size=80))
def test_any_bytes_are_either_a_list_or_refused(coded: bytes) -> None:
    try:
        numbers = decode(coded)
    except ValueError:
        return
    assert all(-(1 << 63) <= number < 1 << 63 for number in numbers)


@given(_LISTS.filter(bool), st.data())
def test_a_list_that_is_cut_within_a_number_is_refused(numbers: list[int], data: st.DataObject) -> None:
    coded = encode(numbers)
    cut = coded[: data.draw(st.integers(0, len(coded)))]
    if not cut or cut[-1] < 0x80:
        assert decode(cut) == sorted(set(numbers))[: len(decode(cut))]
        return
    with pytest.raises(ValueError, match="cut off"):
        decode(cut)
    with pytest.raises(ValueError, match="cut off"):
        decode_all([cut])
    with pytest.raises(ValueError, match="cut off"):
        decode_all([cut, coded])


def test_a_thousand_of_a_million_take_two_bytes_each() -> None:
    numbers = np.random.default_rng(1).choice(1_000_000, 1_000, replace=False)
    assert len(encode(numbers)) <= 2_020


@pytest.mark.parametrize("numbers", [[True], ["a"], [1.0], [1 << 63], [-(1 << 63) - 1]])
def test_what_is_not_int64_is_refused(numbers: list[int]) -> None:
    with pytest.raises(TypeError, match="Expected int64"):
        encode(numbers)


def test_arrays_of_other_kinds_are_refused() -> None:
    with pytest.raises(TypeError, match="float64"):
        encode(np.array([1.5]))
