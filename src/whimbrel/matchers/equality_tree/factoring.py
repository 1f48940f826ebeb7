"""Factoring: one tree per combination of the values of chosen index attributes (Gryphon, section 5).

An event falls into one bucket. A subscription goes into every bucket that it can match in: where it does not test an
index attribute, into the bucket of each of its values, and into OTHER, which stands for a value that no subscription
tests and for a missing one (AMB-5b: the paper has a closed domain, and without OTHER such events lose matches).
In a closed domain there is no OTHER, and events outside of the domain have no bucket.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.matchers.equality_tree.level_kernels import STAR
from whimbrel.model.limits import Limit

COPIES = Limit("factored copies", 4_000_000, "copies of subscriptions", "a tree per bucket holds all that may match")

OTHER = 0
OUTSIDE = -1
"""The digit of a value that a closed domain does not have."""

_LARGEST_KEY = 1 << 62


class Factoring:
    """The buckets of a table of subscriptions: a row for each, a column for each attribute, ranks or `STAR`.

    A bucket is a key: a digit for each index attribute, `OTHER` or 1 + the place of the value among its values, times
    the attribute's stride. With `closed` the digit is the place. Copy i is row `rows[i]` in the bucket `keys[i]`.
    """

    def __init__(self, table: Int32s, attributes: Sequence[int], counts: Sequence[int], closed: bool) -> None:
        """`attributes` are columns of the table, `counts` how many ranks each attribute has."""
        self.closed = closed
        self.attributes: Int32s = np.array(attributes, dtype=np.int32)
        self.values = [np.unique(table[:, column][table[:, column] != STAR]) for column in attributes]
        sizes = self._sizes()
        self.strides: Int64s = np.cumprod([1, *sizes], dtype=np.int64)[: len(sizes)]
        self.starts: Int32s = np.cumsum([0, *(counts[column] for column in attributes)], dtype=np.int32)[: len(sizes)]
        unknown = OUTSIDE if closed else OTHER
        self.digits: Int32s = np.full(sum(counts[column] for column in attributes), unknown, dtype=np.int32)
        for start, values in zip(self.starts, self.values, strict=True):
            self.digits[start + values] = unknown + 1 + np.arange(len(values))
        self.rows: Int64s = np.arange(len(table))
        self.keys: Int64s = np.zeros(len(table), dtype=np.int64)
        for place, column in enumerate(attributes):
            self._spread(table[self.rows, column], place, sizes[place])

    def _spread(self, ranks: Int32s, place: int, size: int) -> None:
        """Put every copy into the bucket of its value of one attribute; where it has none, a copy into each bucket."""
        is_open = ranks == STAR
        times = np.where(is_open, size, 1)
        own = self.digits[self.starts[place] + np.maximum(ranks, 0)]
        counted = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        digits = np.where(np.repeat(is_open, times), counted, np.repeat(own, times))
        self.rows = np.repeat(self.rows, times)
        self.keys = np.repeat(self.keys, times) + digits * self.strides[place]

    def digits_of(self, key: int) -> list[int]:
        """The digit of each index attribute in the key of a bucket."""
        return [int(key // stride % size) for stride, size in zip(self.strides, self._sizes(), strict=True)]

    def _sizes(self) -> list[int]:
        """The number of digits of each index attribute."""
        return [len(values) + (not self.closed) for values in self.values]

    def outside(self, ranks: Int32s) -> tuple[int, int] | None:
        """The first row of ranks with a value outside of a closed domain, and the attribute; None if all are inside."""
        if not self.closed:
            return None
        for start, attribute in zip(self.starts, self.attributes, strict=True):
            found = ranks[:, attribute]
            lost = np.flatnonzero((found < 0) | (self.digits[start + np.maximum(found, 0)] == OUTSIDE))
            if len(lost):
                return int(lost[0]), int(attribute)
        return None


def copies(table: Int32s, attributes: Sequence[int], closed: bool) -> int:
    """Count the copies of rows that factoring would make; no less than the largest bucket key that it would use."""
    stars = table[:, list(attributes)] == STAR
    sizes = [len(np.unique(table[~stars[:, i], column])) + (not closed) for i, column in enumerate(attributes)]
    made: npt.NDArray[np.float64] = np.where(stars, np.array(sizes, dtype=np.float64), 1.0).prod(axis=1)
    largest = float(np.prod(np.array(sizes, dtype=np.float64)))
    return int(made.sum() if largest < _LARGEST_KEY else largest)
