"""Arrow arrays by their buffers: the same as by `pyarrow.array`, without pandas."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whimbrel.ranks import arrow


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), max_size=20))
def test_texts(texts: list[str]) -> None:
    made = arrow.large_strings(texts)
    made.validate(full=True)
    assert made.equals(pa.array(texts, pa.large_string()))


@given(
    st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5), max_size=20), st.integers(0, 9)
)
def test_wider_offsets(texts: list[str | None], first: int) -> None:
    array = pa.array(texts, pa.string()).slice(first)
    made = arrow.widened(array)
    made.validate(full=True)
    assert made.equals(array.cast(pa.large_string()))
    assert arrow.widened(made) is made
    assert arrow.widened(array.dictionary_encode()).equals(made)


def test_many_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "FEW", 1)
    assert arrow.large_strings(["a", "b"]).to_pylist() == ["a", "b"]


def test_what_is_no_text_is_refused_or_null() -> None:
    with pytest.raises(UnicodeEncodeError):
        arrow.large_strings(["a", "\ud800"])
    with pytest.raises(pa.ArrowException):
        arrow.large_strings(["a", 5])  # type: ignore[list-item]
    assert arrow.large_strings(["a", None]).null_count == 1  # type: ignore[list-item]


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64, np.uint64, np.float64])
def test_numbers_there_and_back(kind: type[np.generic]) -> None:
    values = np.arange(10).astype(kind)
    assert arrow.numbers(values[::2]).equals(pa.array(values[::2]))
    assert arrow.values_of(pa.array(values).slice(3, 4)).tolist() == [3, 4, 5, 6]
    assert arrow.values_of(pa.array(values)).dtype == kind
    assert len(arrow.values_of(pa.array(values[:0]))) == 0


PROGRAM = """
import sys
import pyarrow as pa
from whimbrel import Index
from whimbrel.ranks.arrow import large_strings, numbers
import numpy as np
texts = [f"x = {number} AND y = 'a{number}'" for number in range(100)]
events = pa.Table.from_arrays([numbers(np.arange(9)), large_strings([f"a{n}" for n in range(9)])], ["x", "y"])
table = pa.Table.from_arrays([numbers(np.arange(100)), large_strings(texts)], ["id", "filter"])
for subscriptions in (list(enumerate(texts)), [(str(n), text) for n, text in enumerate(texts)], table):
    index = Index()
    index.add_many(subscriptions)
    assert len(index.match({"x": 7, "y": "a7"})) == 1
    assert sum(len(rows) for _, rows in index.match_blocks(events, threads=1)) == 9
print("pandas" in sys.modules)
"""


@pytest.mark.skipif(find_spec("pandas") is None, reason="pandas is not installed")
def test_loading_and_matching_do_not_import_pandas() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
