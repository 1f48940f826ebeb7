"""The dictionary of a segment against the definition of ranks."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies as ws
from tests.ranks.reference import FLOATS, INT64, NUMBERS, Constants, Ranks, constants, dictionary_of, make
from whimbrel.model.constraint import NULL_KEY
from whimbrel.model.values import NUMBER, STRING, TIMESTAMP, SortKey, Timestamp, canonical_number, sort_key, to_value
from whimbrel.ranks.lookup import LISTED


@given(constants, st.booleans(), ws.values)
def test_rank_counts_the_constants_below(own: Constants, ordered: bool, value: Any) -> None:
    encoder = make({"a": own}, ["a"] if ordered else [])
    key = sort_key(to_value(value))  # type: ignore[arg-type]
    assert encoder.dictionary.lookup(0).rank(key) == Ranks(own, ordered).of(key)
    assert encoder.dictionary.lookup(0).rank(NULL_KEY) == 0


@given(constants)
def test_ranks_of_constants_are_found_in_bulk(own: Constants) -> None:
    encoder = make({"other": {}, "a": own})
    ranks_of = encoder.dictionary.ranks_of
    numbers, strings, times = (own.get(name, []) for name in ("numbers", "strings", "times"))
    if numbers:
        expected = [encoder.dictionary.lookup(1).rank((NUMBER, n)) for n in numbers]
        assert ranks_of(1, NUMBER, numbers).tolist() == expected
    if strings:
        expected = [encoder.dictionary.lookup(1).rank((STRING, s)) for s in strings]
        assert ranks_of(1, STRING, strings).tolist() == expected
        assert ranks_of(1, STRING, pa.chunked_array([strings, strings])).tolist() == expected * 2
    if times:
        assert ranks_of(1, TIMESTAMP, times).tolist() == [
            encoder.dictionary.lookup(1).rank((TIMESTAMP, t)) for t in times
        ]


def test_ranks_of_values_that_are_no_constants_are_refused() -> None:
    dictionary = dictionary_of({"a": {"numbers": [1, 2], "strings": ["x"]}})
    with pytest.raises(ValueError, match="constants of attribute 'a'"):
        dictionary.ranks_of(0, NUMBER, [1, 3])
    with pytest.raises(ValueError, match="constants of attribute 'a'"):
        dictionary.ranks_of(0, STRING, ["y"])
    with pytest.raises(ValueError, match="constants of attribute 'a'"):
        dictionary.ranks_of(0, TIMESTAMP, [1])


def test_large_integers_beside_fractions_are_kept_exactly() -> None:
    encoder = make({"a": {"numbers": [2**53 + 1, 0.5, 10**30 + 1]}})
    assert encoder.dictionary.arrays["number_kind"].tolist() == [3]
    assert encoder.dictionary.meta.exact_numbers == {"0": ["0.5", str(2**53 + 1), str(10**30 + 1)]}
    values = [0.5, 2**53, 2**53 + 1, float(2**53 + 2), 10**30, 10**30 + 1, 1e30, math.inf]
    assert [encoder.dictionary.lookup(0).rank((NUMBER, v)) - 6 for v in values] == [1, 2, 3, 4, 4, 5, 6, 6]
    assert encoder.dictionary.ranks_of(0, NUMBER, [10**30 + 1, 0.5]).tolist() == [11, 7]


def test_the_kind_of_numbers_is_the_simplest_that_is_exact() -> None:
    sets = [[1, 2], np.array([1.0, 2.0]), [1, 2.5], [2**53 + 1, 0.5], [2**63, 1], [1, 2**60, 4.0], np.array([1.5]), []]
    arrays = dictionary_of({name: {"numbers": s} for name, s in zip("abcdefgh", sets, strict=True)}).arrays
    assert arrays["number_kind"].tolist() == [1, 1, 2, 3, 2, 1, 2, 0]


@given(st.lists(st.text(alphabet="ab\0é\U0001f600", max_size=24), max_size=300), st.integers(0, 20))
def test_strings_are_sorted_and_distinct(texts: list[str], prefix: int) -> None:
    texts = ["x" * prefix + text for text in texts]
    arrays = dictionary_of({"a": {"strings": pa.array(texts, pa.string())}}).arrays
    offsets, data = arrays["string_offset"].tolist(), arrays["string_bytes"].tobytes()
    assert [data[s:e].decode() for s, e in pairwise(offsets)] == sorted(set(texts))


@pytest.mark.parametrize(
    "numbers",
    [
        *([], [-1], [0, 1, 2], [-5, 70_000], [0.5], [-1, 0.5, 2.5], [2**53, 2**53 + 1], [2**53, 2.0**53 + 2, 0.5]),
        *(INT64, FLOATS, NUMBERS, [-(2**63), 2**63 - 1], [2**62], [-math.inf, math.inf], [5e-324, 1e308, -1e308]),
    ],
    ids=str,
)
def test_numbers_compare_by_exact_value(numbers: list[int | float]) -> None:
    encoder, ranks = make({"a": {"numbers": [canonical_number(n) for n in numbers]}}), Ranks({"numbers": numbers})
    unsigned = [n for n in (*NUMBERS, 2**63, 2**63 + 1) if isinstance(n, int) and 0 <= n < 2**64]
    for kind, values in ((pa.int64(), INT64), (pa.uint64(), unsigned), (pa.float64(), FLOATS)):
        expected = [ranks.of((NUMBER, value)) for value in values]
        assert encoder.encode_table(pa.table({"a": pa.array(values, kind)})).ranks.tolist() == expected
        assert encoder.encode_events([{"a": value} for value in values]).ranks.tolist() == expected
        assert [encoder.dictionary.lookup(0).rank((NUMBER, value)) for value in values] == expected


SPREADS = {
    "uniform": lambda draw, size: draw.random(size),
    "skewed": lambda draw, size: draw.lognormal(0, 5, size),
    "wide": lambda draw, size: draw.integers(-(2**63), 2**63 - 1, size),
    "dense": lambda draw, size: draw.integers(0, 10**5, size),
    "huge": lambda draw, size: np.concatenate([draw.random(size), [math.inf, -math.inf, 1e308, -1e308, 2.0**60]]),
}


@pytest.mark.parametrize("spread", SPREADS)
def test_big_dictionaries_have_the_same_ranks(spread: str) -> None:
    """Beyond the sizes that are kept as tables or Python objects."""
    draw = np.random.default_rng(7)
    size, ordered = LISTED + 1, spread in ("uniform", "wide")
    numbers = SPREADS[spread](draw, size)
    texts = [f"{x:05}" for x in draw.integers(0, 10**5, size + 10_000)]
    times = draw.integers(0, 10**18, size)
    encoder = make({"a": {"numbers": numbers, "strings": pa.array(texts), "times": times}}, ["a"] if ordered else [])
    ranks = Ranks({"numbers": numbers.tolist(), "strings": texts, "times": times.tolist()}, ordered)
    some = numbers[:50].tolist()
    floats = [*map(float, some), *FLOATS, *draw.random(50).tolist(), *(np.nextafter(some, math.inf)).tolist()]
    integers = [*(int(n) for n in some if abs(n) < 2**62), *INT64, *draw.integers(-(2**63), 2**63 - 1, 50).tolist()]
    strings = [*texts[:50], *ws.STRINGS, *(text[:4] for text in texts[:50]), *(text + "0" for text in texts[:50])]
    moments = [*times[:50].tolist(), *(times[:50] + 1).tolist(), 0, -1, 2**63 - 1]
    for kind, values, values_type, scalar in (
        (NUMBER, floats, pa.float64(), float),
        (NUMBER, integers, pa.int64(), int),
        (STRING, strings, pa.string(), str),
        (TIMESTAMP, moments, pa.timestamp("ns"), Timestamp),
    ):
        keys: list[SortKey] = [(kind, canonical_number(v) if kind == NUMBER else v) for v in values]
        expected = [ranks.of(key) for key in keys]
        assert encoder.encode_table(pa.table({"a": pa.array(values, values_type)})).ranks.tolist() == expected
        assert encoder.encode_events([{"a": scalar(v)} for v in values]).ranks.tolist() == expected
        assert [encoder.dictionary.lookup(0).rank(key) for key in keys] == expected


@given(
    st.lists(st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=12),
    st.integers(1, 4),
)
def test_integers_are_sorted_and_distinct_however_dense(numbers: list[int], times: int) -> None:
    arrays = dictionary_of({"a": {"numbers": np.array(numbers * times, np.int64)}}).arrays
    assert arrays["numbers"].tolist() == sorted(set(numbers))
