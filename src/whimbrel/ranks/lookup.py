"""Lookup: the constants of one attribute, and the ranks of values of any type among them.

A value has rank `base + 2 * i + e`: `i` constants of its type are below it, and `e` is 1 if it equals the next one.
Comparisons are exact. A float is placed among integers by its floor. An int64 beyond 2**53 is compared with float
constants as a Python number.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, cast

import numpy as np

from whimbrel.compiled.views import read_only
from whimbrel.model.values import BOOLEAN, NUMBER, STRING, TIMESTAMP, SortKey
from whimbrel.ranks.cells import boxed, rank_of
from whimbrel.ranks.kernel_arrays import EXACT, EXACT_FLOAT, FLOATS, INTEGERS, NO_NUMBERS
from whimbrel.ranks.rank_kernels import rank_by_search, rank_by_table
from whimbrel.ranks.string_kernels import rank_strings

LISTED = 1 << 14
"""Attributes with up to so many constants keep them as Python objects too, for single events: about 1 MB."""
TABLE_ENTRIES = 1 << 16
"""A table may always have this many entries, which fit the second-level cache."""
TABLE_SPARSENESS = 8
"""With more constants a table may have this many entries for each."""
CACHED = 1 << 17
"""Up to so many constants get four buckets each, which stay in the cache; more constants get two each."""


class Buckets(NamedTuple):
    """Sorted constants and, for equal steps of magnitude, the index of the first constant of each step."""

    constants: np.ndarray
    buckets: np.ndarray
    origin: float
    scale: float

    @staticmethod
    def of(constants: np.ndarray) -> Buckets:
        """Buckets of equal width with a few constants each. The outermost 1 % share the end buckets."""
        count = len(constants)
        steps = (4 if count <= CACHED else 2) * count
        finite = constants[np.isfinite(constants)] if constants.dtype.kind == "f" else constants
        if len(finite) > 1:
            low, high = (float(finite[int(len(finite) * share)]) for share in (0.01, 0.99))
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                scale = float(np.float64(steps) / (np.float64(high) - low))
                if 0 < scale < math.inf:
                    places = np.clip((constants.astype(np.float64) - low) * scale, 0, steps).astype(np.int64)
                    buckets = np.zeros(steps + 2, np.int32)
                    np.cumsum(np.bincount(places, minlength=steps + 1), out=buckets[1:])
                    return Buckets(read_only(constants), read_only(buckets), low, scale)
        return Buckets(read_only(constants), read_only(np.array([0, count], np.int32)), 0.0, 0.0)


class Table(NamedTuple):
    """The ranks of all integers from one below the first constant to one above the last."""

    table: np.ndarray
    low: int

    @staticmethod
    def of(constants: np.ndarray) -> Table | None:
        """The table, or None if it would be too sparse."""
        low, high = int(constants[0]) - 1, int(constants[-1]) + 1
        if high - low >= max(TABLE_ENTRIES, TABLE_SPARSENESS * len(constants)) or low < -(1 << 62) or high > 1 << 62:
            return None
        equal = np.zeros(high - low + 1, np.int32)
        equal[constants - low] = 1
        return Table(read_only((2 * np.cumsum(equal, dtype=np.int32) - equal).astype(np.int32)), low)


class Lookup:
    """The ranks of one attribute. Search structures are built on first use and kept; threads may build them twice."""

    def __init__(
        self,
        arrays: Mapping[str, np.ndarray],
        attr: int,
        name: str,
        exact_numbers: list[str] | None = None,
        exact_times: list[int] | None = None,
    ) -> None:
        self.attr = attr
        self.name = name
        self._arrays = arrays
        self._exact_numbers = exact_numbers
        self.exact_times = exact_times
        self.number_kind = int(arrays["number_kind"][attr])
        bases: list[int] = arrays["rank_base"][attr].tolist()
        self.number_base, self.string_base, self.time_base = bases[1:4]
        self.string_first = int(arrays["string_start"][attr])
        self.string_count = int(arrays["string_start"][attr + 1]) - self.string_first
        self.ordered = int(arrays["ordered_strings"][attr])

    @cached_property
    def number_array(self) -> np.ndarray:
        """The constants as int64 or float64, unless they are kept exactly."""
        start, end = self._arrays["number_start"][self.attr : self.attr + 2].tolist()
        array = read_only(self._arrays["numbers"][start:end])
        return array.view(np.float64) if self.number_kind == FLOATS else array

    @cached_property
    def time_array(self) -> np.ndarray:
        """The constants as int64, unless they are kept exactly."""
        start, end = self._arrays["time_start"][self.attr : self.attr + 2].tolist()
        return read_only(self._arrays["times"][start:end])

    @property
    def number_constants(self) -> np.ndarray | list[int | float]:
        """The constants as an array of int64 or float64, or as a list if they are kept exactly."""
        return list(self.numbers) if self.number_kind == EXACT else self.number_array

    @property
    def time_constants(self) -> np.ndarray | list[int]:
        """The constants as an array of int64, or as a list if they are kept exactly."""
        return self.time_array if self.exact_times is None else self.exact_times

    @cached_property
    def numbers(self) -> Sequence[int | float]:
        """The constants as Python numbers, which compare exactly: a list, or a memory view if there are many."""
        if self.number_kind == EXACT:
            texts = self._exact_numbers or ()
            return [int(text) if text.lstrip("-").isdigit() else float(text) for text in texts]
        return _numbers_of(self.number_array)

    @cached_property
    def times(self) -> Sequence[int | float]:
        """The constants as Python integers."""
        return self.exact_times if self.exact_times is not None else _numbers_of(self.time_array)

    @cached_property
    def listed_texts(self) -> list[str] | None:
        """The strings in order, unless they are many."""
        if self.string_count > LISTED:
            return None
        _, offsets, data = self._strings
        cuts = offsets[self.string_first : self.string_first + self.string_count + 1].tolist()
        return [data[start:end].tobytes().decode() for start, end in pairwise(cuts)]

    @cached_property
    def texts(self) -> dict[str, float]:
        """The cell of every string: a dict of all constants, or of recent strings if constants are many."""
        return _Texts(self)

    @cached_property
    def _table(self) -> Table | None:
        return Table.of(self.number_array) if self.number_kind == INTEGERS else None

    @cached_property
    def _integers(self) -> Buckets:
        return Buckets.of(self.number_array)

    @cached_property
    def _floats(self) -> Buckets | None:
        """The constants as floats, if each of them is one."""
        array = self.number_array
        if self.number_kind == FLOATS:
            return Buckets.of(array)
        if len(array) and (array[0] < -EXACT_FLOAT or array[-1] > EXACT_FLOAT):
            return None
        return Buckets.of(array.astype(np.float64))

    @cached_property
    def _times(self) -> Buckets:
        return Buckets.of(self.time_array)

    @cached_property
    def _strings(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        start, end = self._arrays["string_hash_start"][self.attr : self.attr + 2].tolist()
        table = read_only(self._arrays["string_hash"][start:end])
        return table, read_only(self._arrays["string_offset"]), read_only(self._arrays["string_bytes"])

    def rank_integers(self, values: np.ndarray, out: np.ndarray) -> None:
        """Write the ranks of int64 values."""
        if self.number_kind == NO_NUMBERS:
            out[:] = self.number_base
        elif self.number_kind == EXACT:
            out[:] = [self.rank_number(value) for value in values.tolist()]
        elif self.number_kind == FLOATS:
            self._rank_integers_among_floats(values, out)
        elif self._table is not None:
            rank_by_table(read_only(values), self._table.table, self._table.low, self.number_base, out)
        else:
            rank_by_search(read_only(values), *self._integers, self.number_base, 0, out)

    def _rank_integers_among_floats(self, values: np.ndarray, out: np.ndarray) -> None:
        floats = values.astype(np.float64)
        assert self._floats is not None
        rank_by_search(read_only(floats), *self._floats, self.number_base, 0, out)
        large = np.flatnonzero((values > EXACT_FLOAT) | (values < -EXACT_FLOAT))
        if len(large):
            out[large] = [self.rank_number(value) for value in values[large].tolist()]

    def rank_floats(self, values: np.ndarray, missing: int, out: np.ndarray) -> None:
        """Write the ranks of float64 values; NaN becomes `missing`."""
        if self.number_kind == NO_NUMBERS:
            out[:] = np.where(np.isnan(values), missing, self.number_base)
        elif self.number_kind == EXACT:
            out[:] = [missing if math.isnan(value) else self.rank_number(value) for value in values.tolist()]
        elif self._floats is not None:
            rank_by_search(read_only(values), *self._floats, self.number_base, missing, out)
        else:
            self._rank_floats_among_integers(values, missing, out)

    def _rank_floats_among_integers(self, values: np.ndarray, missing: int, out: np.ndarray) -> None:
        floors = np.floor(values)
        inside = (floors >= -(2.0**63)) & (floors < 2.0**63)
        integers = np.where(inside, floors, 0).astype(np.int64)
        rank_by_search(read_only(integers), *self._integers, self.number_base, 0, out)
        step = (out - self.number_base) & 1  # a constant equal to the floor is below a value with a fraction
        out += np.where(floors == values, 0, step)
        end = self.number_base + 2 * len(self.number_array)
        out[~inside] = np.where(np.isnan(values), missing, np.where(values > 0, end, self.number_base))[~inside]

    def rank_times(self, values: np.ndarray, out: np.ndarray) -> None:
        """Write the ranks of timestamps in int64 nanoseconds."""
        if self.exact_times is not None:
            out[:] = [self.rank_time(value) for value in values.tolist()]
        else:
            rank_by_search(read_only(values), *self._times, self.time_base, 0, out)

    def rank_strings(self, offsets: np.ndarray, data: np.ndarray, out: np.ndarray) -> None:
        """Write the ranks of UTF-8 strings, given by n + 1 int64 offsets into their bytes."""
        if not self.string_count:
            out[:] = self.string_base
            return
        table, known_offsets, known = self._strings
        rank_strings(
            read_only(offsets), read_only(data), table, self.string_first, self.string_count, known_offsets, known,
            self.string_base, self.ordered, out,
        )  # fmt: skip

    def rank_number(self, value: int | float) -> int:
        """The rank of one number that is not NaN."""
        numbers = self.numbers
        index = bisect_left(numbers, value)
        return self.number_base + 2 * index + int(index < len(numbers) and numbers[index] == value)

    def rank_time(self, value: int) -> int:
        """The rank of one timestamp in nanoseconds."""
        times = self.times
        index = bisect_left(times, value)
        return self.time_base + 2 * index + int(index < len(times) and times[index] == value)

    def rank_string(self, value: str) -> int:
        """The rank of one string."""
        return rank_of(self.texts[value])

    def cell(self, key: SortKey) -> float:
        """The cell that carries the rank of any value, or of null."""
        return self.texts[cast(str, key[1])] if key[0] == STRING else boxed(self.rank(key))

    def rank(self, key: SortKey) -> int:
        """The rank of any value, or of null."""
        kind, value = key
        if kind == NUMBER:
            return self.rank_number(cast(float, value))
        if kind == STRING:
            return self.rank_string(cast(str, value))
        if kind == TIMESTAMP:
            return self.rank_time(cast(int, value))
        return (4 if value else 2) if kind == BOOLEAN else 0


class _Texts(dict[str, float]):
    """The cell of each string. A string that UTF-8 cannot encode raises UnicodeEncodeError."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        listed = lookup.listed_texts or ()
        super().__init__({text: boxed(lookup.string_base + 2 * index + 1) for index, text in enumerate(listed)})

    def __missing__(self, text: str) -> float:
        data = text.encode()
        lookup = self._lookup
        if lookup.listed_texts is not None:  # it is none of the constants
            gap = bisect_left(lookup.listed_texts, text) if lookup.ordered else lookup.string_count
            return boxed(lookup.string_base + 2 * gap)
        out = np.empty(1, np.int32)
        lookup.rank_strings(np.array([0, len(data)], np.int64), np.frombuffer(data, np.uint8), out)
        if len(self) >= LISTED:
            self.clear()
        self[text] = cell = boxed(int(out[0]))
        return cell


def _numbers_of(array: np.ndarray) -> Sequence[int | float]:
    if len(array) <= LISTED:
        return cast(list[int | float], array.tolist())
    return cast(Sequence[int | float], array.data)
