"""Matches of many states as arrays, and what begins and ceases between two of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whimbrel.compiled.jit import kernel
from whimbrel.publications.keys import room

Rows = NDArray[np.int64]
Codes = NDArray[np.int32]


class Changes(NamedTuple):
    """Pairs of a row and a subscription's code; whether the row has left it, else it has entered."""

    rows: Rows
    codes: Codes
    left: NDArray[np.bool_]


@dataclass
class Matches:
    """For each state the codes of the subscriptions that it matches; a length of -1 is not known.

    The arrays may have room for more: `count` states and `used` codes count. All codes are below `bound`.
    """

    starts: Rows
    lengths: Rows
    codes: Codes
    count: int
    used: int
    bound: int

    @staticmethod
    def unknown(count: int) -> Matches:
        """States of which nothing is known."""
        return Matches(np.zeros(count, np.int64), np.full(count, -1, np.int64), np.zeros(0, np.int32), count, 0, 0)

    @staticmethod
    def of_runs(offsets: Rows, codes: Codes, bound: int) -> Matches:
        """From the codes of one state after another, and where each begins and the last ends."""
        return Matches(offsets[:-1], np.diff(offsets), codes, len(offsets) - 1, len(codes), bound)

    @staticmethod
    def of_lists(lists: pa.ListArray, bound: int) -> Matches:
        """From lists of codes; a null is not known."""
        offsets = lists.offsets.to_numpy()
        lengths = np.where(lists.is_valid().to_numpy(zero_copy_only=False), np.diff(offsets), -1)
        return Matches(
            offsets[:-1].astype(np.int64), lengths, lists.values.to_numpy(), len(lists), len(lists.values), bound
        )

    def to_lists(self) -> pa.ListArray:
        """The lists that `of_lists` takes; the codes must lie one state after another, as `take` gives them."""
        ends = np.append(self.starts[: self.count], self.used).astype(np.int32)
        unknown = self.lengths[: self.count] < 0
        return pa.ListArray.from_arrays(ends, self.codes[: self.used], mask=pa.array(unknown))

    def of(self, row: int) -> Codes:
        """The codes of one state."""
        start = self.starts[row]
        return self.codes[start : start + max(self.lengths[row], 0)]

    def without(self, chosen: NDArray[np.bool_]) -> Matches:
        """Some states match nothing."""
        if not chosen.any():
            return self
        return replace(self, lengths=np.where(chosen, 0, self.lengths[: self.count]))

    def append(self, others: Matches, rows: Rows) -> None:
        """Some of other states after these."""
        first, self.count = self.count, self.count + len(rows)
        self.starts, self.lengths = room(self.starts, self.count), room(self.lengths, self.count)
        self.starts[first : self.count] = others.starts[rows]
        self.lengths[first : self.count] = others.lengths[rows]
        self._add_codes(others, slice(first, self.count))

    def learn(self, rows: Rows, found: Matches) -> None:
        """The codes of some states."""
        self.starts[rows] = found.starts[: found.count]
        self.lengths[rows] = found.lengths[: found.count]
        self._add_codes(found, rows)

    def _add_codes(self, others: Matches, where: Rows | slice) -> None:
        self.starts[where] += self.used
        end = self.used + others.used
        self.codes = room(self.codes, end)
        self.codes[self.used : end] = others.codes[: others.used]
        self.used, self.bound = end, max(self.bound, others.bound)

    def take(self, rows: Rows) -> Matches:
        """Some of the states, with their codes only."""
        lengths = self.lengths[rows]
        ends = np.cumsum(np.maximum(lengths, 0))
        codes = np.empty(int(ends[-1]) if len(ends) else 0, np.int32)
        _gather(self.starts, self.lengths, self.codes, rows, codes)
        return Matches(ends - np.maximum(lengths, 0), lengths, codes, len(rows), len(codes), self.bound)


class Differ:
    """Finds differences between matches, with a mark for every code that it has seen."""

    def __init__(self) -> None:
        self._marks = np.zeros(0, np.int64)
        self._mark = 1

    def changes(self, old: Matches, new: Matches, previous: Rows) -> Changes:
        """What each new state has entered and left since the one before: an old state, a new one after them, or -1."""
        self._marks = room(self._marks, max(old.bound, new.bound))
        most = _most(old.lengths, old.count, new.lengths, previous)
        rows, codes, left = np.empty(most, np.int64), np.empty(most, np.int32), np.empty(most, np.bool_)
        olds = old.starts, old.lengths, old.codes, old.count
        news = new.starts, new.lengths, new.codes
        found = _changes(*olds, *news, previous, self._marks, self._mark, rows, codes, left)
        self._mark += 2 * len(previous)
        return Changes(rows[:found], codes[:found], left[:found])


@kernel
def _gather(starts, lengths, codes, rows, out):  # type: ignore[no-untyped-def]
    at = 0
    for row in rows:
        for i in range(starts[row], starts[row] + lengths[row]):
            out[at] = codes[i]
            at += 1


@kernel
def _most(old_lengths, old_count, new_lengths, previous):  # type: ignore[no-untyped-def]
    """No more changes than all codes of both."""
    most = 0
    for row in range(previous.size):
        before = previous[row]
        most += new_lengths[row]
        if before >= old_count:
            most += new_lengths[before - old_count]
        elif before >= 0:
            most += max(old_lengths[before], 0)
    return most


@kernel
def _changes(  # type: ignore[no-untyped-def]
    old_starts, old_lengths, old_codes, old_count, new_starts, new_lengths, new_codes, previous, marks, mark,
    rows, codes, left,
):  # fmt: skip
    """A code of the old state gets the mark of the row, one of both the next mark."""
    found = 0
    for row in range(previous.size):
        before = previous[row]
        first, stop, olds = 0, 0, old_codes
        if before >= old_count:
            first = new_starts[before - old_count]
            stop, olds = first + new_lengths[before - old_count], new_codes
        elif before >= 0:
            first = old_starts[before]
            stop = first + old_lengths[before]
        for i in range(first, stop):
            marks[olds[i]] = mark
        for i in range(new_starts[row], new_starts[row] + new_lengths[row]):
            code = new_codes[i]
            if marks[code] == mark:
                marks[code] = mark + 1
            else:
                rows[found], codes[found], left[found] = row, code, False
                found += 1
        for i in range(first, stop):
            if marks[olds[i]] == mark:
                rows[found], codes[found], left[found] = row, olds[i], True
                found += 1
        mark += 2
    return found
