"""Keys as numbers."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from whimbrel.publications.keys import KeyNumbers

TEXTS = st.lists(st.one_of(st.sampled_from(["", "a", "b", "ab", "é"]), st.text(max_size=4)), max_size=30)
INTEGERS = st.lists(st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1)), max_size=30)


@given(st.one_of(st.lists(TEXTS, max_size=5), st.lists(INTEGERS, max_size=5)), st.integers(0, 3))
def test_keys_are_numbered_in_the_order_in_which_they_come(
    batches: list[list[str]] | list[list[int]], cut: int
) -> None:
    keys, known = KeyNumbers(), dict[str | int, int]()
    kind = pa.string() if any(isinstance(key, str) for batch in batches for key in batch) else pa.int64()
    for batch in batches:
        rest = batch[cut:]
        numbers = keys.numbers(pa.array(batch, kind).slice(min(cut, len(batch))))
        assert numbers.tolist() == [known.setdefault(key, len(known)) for key in rest]
    assert len(keys) == len(known)


def test_many_keys_find_their_numbers_again() -> None:
    keys = KeyNumbers()
    names = pa.array([f"key-{number}" for number in range(50_000)])
    assert keys.numbers(names).tolist() == list(range(50_000))
    assert keys.numbers(names.slice(40_000)).tolist() == list(range(40_000, 50_000))
