"""AttributeRanks agree with the sets of values that they stand for, on every type and at the edges of exactness."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import interval_sets, values
from whimbrel.matchers.coding import MISSING, AttributeRanks, Coding
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.constraint import NULL_KEY, Constraint
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter
from whimbrel.model.normal_form import key_of
from whimbrel.model.values import NUMBER, STRING, TIMESTAMP


@given(st.lists(interval_sets(), min_size=1, max_size=4), st.lists(values, min_size=1, max_size=8))
def test_a_value_is_in_a_set_iff_its_rank_is_in_one_of_the_spans(sets, found) -> None:  # type: ignore[no-untyped-def]
    coding = Coding()
    for one in sets:
        coding.add(Conjunction((("a", Constraint(values=one)),)))
    codes = coding.codes()
    for value in found:
        key = key_of(value)
        rank = codes.ranks[0].rank(key)
        assert 0 <= rank < codes.ranks[0].count
        for one in sets:
            assert any(low <= rank <= high for low, high in codes.spans("a", one)) == (key in one)


@given(st.lists(values, max_size=8))
def test_constants_have_ranks_of_their_own_and_come_back(found: list[object]) -> None:
    keys = {key_of(value) for value in found}  # type: ignore[arg-type]
    ranks = AttributeRanks(keys)
    by_rank = {ranks.rank(key): key for key in keys}
    assert len(by_rank) == len(keys)
    assert [key for _, key in sorted(by_rank.items())] == sorted(keys)
    assert all(ranks.value(rank) == key and ranks.kind(rank) == key[0] for rank, key in by_rank.items())


def test_null_is_missing_and_ranks_between_constants_have_no_value() -> None:
    ranks = AttributeRanks([(NUMBER, 1), (NUMBER, 2)])
    assert ranks.rank(NULL_KEY) == MISSING
    assert ranks.value(ranks.rank((NUMBER, 1.5))) is None


@given(st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(2**53 - 2, 2**53 + 2)), min_size=1))
def test_columns_of_integers_rank_like_single_integers(column: list[int]) -> None:
    for constants in ([1, 2**53, 0.5], [2**53 + 1, 2**62], [math.inf]):
        ranks = AttributeRanks((NUMBER, constant) for constant in constants)
        one_by_one = [ranks.rank((NUMBER, value)) for value in column]
        assert ranks.numbers(np.array(column, dtype=np.int64)).tolist() == one_by_one


def test_columns_of_floats_rank_like_single_numbers_and_nan_is_missing() -> None:
    ranks = AttributeRanks([], [(NUMBER, np.array([2.5, 1.0, 2.5])), (NUMBER, np.array([7], dtype=np.int64))])
    found = ranks.numbers(np.array([math.nan, -math.inf, 1, 2.5, 3, 7]))
    assert (found[1:] - ranks.first[NUMBER]).tolist() == [0, 1, 3, 4, 5]
    assert found[0] == MISSING


def test_columns_of_strings_and_nanoseconds() -> None:
    ranks = AttributeRanks([(STRING, "b")], [(STRING, ["a", "c"]), (TIMESTAMP, np.array([5, 3], dtype=np.int64))])
    assert (ranks.constants(STRING, ["c", "a", "bb"]) - ranks.first[STRING]).tolist() == [5, 1, 4]
    assert (ranks.constants(TIMESTAMP, np.array([3, 9])) - ranks.first[TIMESTAMP]).tolist() == [1, 4]


def test_codes_change_only_when_a_constant_comes() -> None:
    coding = Coding()
    five, six = (Filter.parse(f"a < {number}").conjunctions[0] for number in (5, 6))
    coding.add(five)
    first = coding.codes()
    coding.add(five)
    assert coding.codes() is first
    coding.add(six)
    second = coding.codes()
    assert second is not first
    coding.remove(six)
    assert coding.codes() is second
    assert second.event(Event({"a": [4, None], "b": 1})) == [(0, [second.ranks[0].first[NUMBER]])]
