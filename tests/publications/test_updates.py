"""The order of updates, and partial updates."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from whimbrel.publications.updates import merged, order_updates, removed


def test_what_an_update_does_not_say_is_as_it_was() -> None:
    stored = pa.chunked_array([pa.array(["s0"]), pa.array(["s1"])])
    own = pa.array([None, "u1", None, None, None, "u5", None])
    blank = np.array([False, False, False, True, False, False, False])
    first = np.array([True, False, False, False, False, True, True])
    previous = np.array([1, 2, 3, 4, 5, 0, -1])
    assert merged(stored, own, blank, first, previous).to_pylist() == ["s1", "u1", "u1", None, None, "u5", None]
    names = pa.array([["a", None], None, [], ["b", "a"]], pa.list_(pa.string()))
    assert removed(names, "a").tolist() == [True, False, False, True]


def test_late_updates_and_repetitions_are_left_out() -> None:
    numbers = np.array([1, 0, 1, 2, 1, 0])
    sequences = np.array([7, 5, 6, 1, 7, 4])
    state_rows, latest = np.array([3, -1, 0]), np.array([4, 0, 1])
    found = order_updates(numbers, sequences, state_rows, latest, 10)
    assert found.rows.tolist() == [1, 2, 0]  # key 0 has 4 already, key 2 has 1, and key 1 comes with 7 twice
    assert found.numbers.tolist() == [0, 1, 1]
    assert found.first.tolist() == [True, True, False]
    assert found.previous.tolist() == [3, -1, 11]
    assert order_updates(numbers, None, state_rows, latest, 10).rows.tolist() == [1, 5, 0, 2, 4, 3]
