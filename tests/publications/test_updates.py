"""Partial updates."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from whimbrel.publications.updates import merged, removed


def test_what_an_update_does_not_say_is_as_it_was() -> None:
    stored = pa.chunked_array([pa.array(["s0"]), pa.array(["s1"])])
    own = pa.array([None, "u1", None, None, None, "u5", None])
    blank = np.array([False, False, False, True, False, False, False])
    first = np.array([True, False, False, False, False, True, True])
    previous = np.array([1, 2, 3, 4, 5, 0, -1])
    assert merged(stored, own, blank, first, previous).to_pylist() == ["s1", "u1", "u1", None, None, "u5", None]
    names = pa.array([["a", None], None, [], ["b", "a"]], pa.list_(pa.string()))
    assert removed(names, "a").tolist() == [True, False, False, True]
