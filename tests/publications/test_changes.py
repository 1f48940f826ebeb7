"""Matches of states and their differences."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from whimbrel.publications.changes import Differ, Matches

CODES = st.lists(st.sets(st.integers(0, 5)), max_size=8)


@given(st.data())
def test_changes_are_the_differences_of_sets(data: st.DataObject) -> None:
    differ = Differ()
    for _ in range(3):
        old, new = data.draw(CODES), data.draw(CODES)
        previous = [data.draw(st.integers(-1, len(old) + row - 1)) for row in range(len(new))]
        every = [*old, *new]
        expected = set()
        for row, before in enumerate(previous):
            was = every[before] if before >= 0 else set()
            expected |= {(row, code, False) for code in new[row] - was} | {(row, code, True) for code in was - new[row]}
        changes = differ.changes(_matches(old), _matches(new), np.array(previous, np.int64))
        found = list(zip(*(column.tolist() for column in changes), strict=True))
        assert len(found) == len(expected)
        assert set(found) == expected


def _matches(sets: list[set[int]]) -> Matches:
    offsets = np.cumsum([0, *map(len, sets)])
    return Matches.of_runs(offsets, np.array([code for each in sets for code in each], np.int32), 6)
