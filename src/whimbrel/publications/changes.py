"""The matches of many states as arrays, and the differences between old and new ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whimbrel.compiled.jit import kernel
from whimbrel.publications.arrow_columns import Flags, Rows
from whimbrel.publications.keys import with_capacity

Codes: TypeAlias = NDArray[np.int32]


class Changes(NamedTuple):
    """Pairs of a new state and a subscription's code; `left` says whether the state left it or entered it."""

    rows: Rows
    codes: Codes
    left: Flags


@dataclass
class Matches:
    """For each state the codes of the subscriptions that it matches; a length of -1 means not matched yet.

    The arrays may be longer than needed: the first `count` states and the first `used` codes are in use. All codes are
    below `bound`.
    """

    starts: Rows
    lengths: Rows
    codes: Codes
    count: int
    used: int
    bound: int

    @staticmethod
    def unknown(count: int) -> Matches:
        """Matches of `count` states, none of which was matched yet."""
        return Matches(np.zeros(count, np.int64), np.full(count, -1, np.int64), np.zeros(0, np.int32), count, 0, 0)

    @staticmethod
    def of_runs(offsets: Rows, codes: Codes, bound: int) -> Matches:
        """From the codes of all states; those of state i are from offsets[i] to offsets[i + 1]."""
        return Matches(offsets[:-1], np.diff(offsets), codes, len(offsets) - 1, len(codes), bound)

    @staticmethod
    def of_lists(lists: pa.ListArray, bound: int) -> Matches:
        """From lists of codes; null is a state that was not matched yet."""
        offsets = lists.offsets.to_numpy()
        lengths = np.where(lists.is_valid().to_numpy(zero_copy_only=False), np.diff(offsets), -1)
        return Matches(
            offsets[:-1].astype(np.int64), lengths, lists.values.to_numpy(), len(lists), len(lists.values), bound
        )

    def to_lists(self) -> pa.ListArray:
        """The inverse of `of_lists`, for matches whose codes lie one state after the other, as `take` gives them."""
        ends = np.append(self.starts[: self.count], self.used).astype(np.int32)
        unknown = self.lengths[: self.count] < 0
        return pa.ListArray.from_arrays(ends, self.codes[: self.used], mask=pa.array(unknown))

    def of(self, row: int) -> Codes:
        """The codes of the subscriptions that one state matches."""
        start = self.starts[row]
        return self.codes[start : start + max(self.lengths[row], 0)]

    def without(self, chosen: Flags) -> Matches:
        """The same matches, but the chosen states match nothing."""
        if not chosen.any():
            return self
        return replace(self, lengths=np.where(chosen, 0, self.lengths[: self.count]))

    def append(self, others: Matches, rows: Rows) -> None:
        """Append some rows of other matches."""
        first, self.count = self.count, self.count + len(rows)
        self.starts, self.lengths = with_capacity(self.starts, self.count), with_capacity(self.lengths, self.count)
        self.starts[first : self.count] = others.starts[rows]
        self.lengths[first : self.count] = others.lengths[rows]
        self._add_codes(others, slice(first, self.count))

    def learn(self, rows: Rows, found: Matches) -> None:
        """Set the matches of the states at `rows`."""
        self.starts[rows] = found.starts[: found.count]
        self.lengths[rows] = found.lengths[: found.count]
        self._add_codes(found, rows)

    def _add_codes(self, others: Matches, where: Rows | slice) -> None:
        self.starts[where] += self.used
        end = self.used + others.used
        self.codes = with_capacity(self.codes, end)
        self.codes[self.used : end] = others.codes[: others.used]
        self.used, self.bound = end, max(self.bound, others.bound)

    def take(self, rows: Rows) -> Matches:
        """The matches of some states, without unused codes."""
        lengths = self.lengths[rows]
        ends = np.cumsum(np.maximum(lengths, 0))
        codes = np.empty(int(ends[-1]) if len(ends) else 0, np.int32)
        _gather(self.starts, self.lengths, self.codes, rows, codes)
        return Matches(ends - np.maximum(lengths, 0), lengths, codes, len(rows), len(codes), self.bound)


class Differ:
    """Finds differences between matches. It keeps an array of marks, one for each code, between calls."""

    def __init__(self) -> None:
        self._marks = np.zeros(0, np.int64)
        self._mark = 1

    def changes(self, old: Matches, new: Matches, previous: Rows) -> Changes:
        """Find which subscriptions each new state entered and left.

        `previous` gives the state before each: below `old.count` a row of `old`, from there on a row of `new`, -1 none.
        """
        self._marks = with_capacity(self._marks, max(old.bound, new.bound))
        most = _most(old.lengths, old.count, new.lengths, previous)
        rows, codes, left = np.empty(most, np.int64), np.empty(most, np.int32), np.empty(most, np.bool_)
        old_arrays = old.starts, old.lengths, old.codes, old.count
        new_arrays = new.starts, new.lengths, new.codes
        found = _changes(*old_arrays, *new_arrays, previous, self._marks, self._mark, rows, codes, left)
        self._mark += 2 * len(previous)
        return Changes(rows[:found], codes[:found], left[:found])


@kernel
def _gather(starts: Rows, lengths: Rows, codes: Codes, rows: Rows, out: Codes) -> None:
    """Copy the codes of some states."""
    at = 0
    for row in rows:
        for i in range(starts[row], starts[row] + lengths[row]):
            out[at] = codes[i]
            at += 1


@kernel
def _most(old_lengths: Rows, old_count: int, new_lengths: Rows, previous: Rows) -> int:
    """A bound for the number of changes: all codes of the states before and after."""
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
def _changes(
    old_starts: Rows, old_lengths: Rows, old_codes: Codes, old_count: int, new_starts: Rows, new_lengths: Rows,
    new_codes: Codes, previous: Rows, marks: Rows, mark: int, rows: Rows, codes: Codes, left: Flags,
) -> int:  # fmt: skip
    """Write the changes of all states and return how many there are.

    Each state has two marks of its own: codes of the state before get the first, codes that both have the second.
    """
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
