"""Pools of literals: whatever the columns are made of, every literal gets the rank of its constant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from whimbrel.language.columnar.terms import DictionaryStrings
from whimbrel.model.values import NUMBER, STRING, TIMESTAMP
from whimbrel.ranks.dictionary_builder import Constants, LiteralPool, build_dictionary

_integers = st.lists(st.integers(-4, 4), min_size=1, max_size=4)
_texts = st.lists(st.sampled_from(["", "a", "b", "ab", "ü"]), min_size=1, max_size=4)
_numbers = st.one_of(
    _integers.map(lambda column: np.array(column, np.int64)),
    st.lists(st.floats(-4, 4), min_size=1, max_size=4).map(lambda column: np.array(column) + 0.0),
)
_times = _integers.map(lambda column: np.array(column, np.int64))
_words = _texts.map(
    lambda known: DictionaryStrings(
        np.arange(len(known), dtype=np.int32)[::-1].copy(), pa.array(known, pa.large_string())
    )
)


def agrees(columns: list[Any], type: int) -> None:
    pool = LiteralPool(0, 0, type)
    begins = [pool.add(column) for column in columns]
    constants = Constants()
    pool.give(constants)
    found = pool.ranks(build_dictionary(["a"], [constants])).tolist()
    values = [value for column in columns for value in (column.tolist() if isinstance(column, np.ndarray) else column)]
    order = {value: place for place, value in enumerate(sorted(set(values)))}
    assert begins == [sum(map(len, columns[:n])) for n in range(len(columns))]
    assert [(rank - found[0]) // 2 for rank in found] == [order[value] - order[values[0]] for value in values]


@given(st.lists(_numbers, min_size=1, max_size=4))
def test_numbers_of_any_kind_stay_in_order(columns: list[Any]) -> None:
    agrees(columns, NUMBER)


@given(st.lists(_times, min_size=1, max_size=4))
def test_timestamps_stay_in_order(columns: list[Any]) -> None:
    agrees(columns, TIMESTAMP)


@given(st.lists(_words, min_size=1, max_size=4), st.booleans())
def test_strings_of_several_vocabularies_stay_in_order(columns: list[Any], shared: bool) -> None:
    agrees(columns * (2 if shared else 1), STRING)


def test_words_of_which_the_first_and_the_last_are_at_the_ends() -> None:
    known = pa.array(["a", "c", "b", "d"], pa.large_string())
    agrees([DictionaryStrings(np.arange(4, dtype=np.int32), known)], STRING)
