"""The constants of filters, gathered for each attribute before they get ranks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import numpy as np
import pyarrow as pa

from whimbrel.model.intervals import STRINGS, IntervalSet
from whimbrel.model.values import NUMBER, STRING, TIMESTAMP
from whimbrel.ranks.arrow import large_strings
from whimbrel.ranks.lookup import EXACT_FLOAT


@dataclass(slots=True)
class Constants:
    """The constants of one attribute: arrays from columns of literals, plain values from single filters.

    `ordered`: some filter compares the strings by order, so that unknown strings need their true place among them.
    `joined`: the attribute is a derived one, and some filter has several tests of it that want the same value.
    """

    arrays: list[np.ndarray] = field(default_factory=list)
    numbers: list[int | float] = field(default_factory=list)
    strings: list[list[str] | pa.Array] = field(default_factory=list)
    times: list[np.ndarray | list[int]] = field(default_factory=list)
    ordered: bool = False
    joined: bool = False

    def add(self, values: IntervalSet) -> None:
        """Add the constants of a set of values: the ends of its intervals."""
        texts: list[str] = []
        moments: list[int] = []
        for rank, finite, value, _ in values.cuts:
            if finite and rank == NUMBER:
                assert isinstance(value, int | float)
                self.numbers.append(value)
            elif finite and rank == STRING:
                texts.append(str(value))
            elif finite and rank == TIMESTAMP:
                assert isinstance(value, int)
                moments.append(value)
        if texts:
            if not self.strings or not isinstance(self.strings[-1], list):
                self.strings.append([])
            cast("list[str]", self.strings[-1]).extend(texts)
            self.ordered = self.ordered or is_ordered(values)
        if moments:
            self.times.append(moments)

    def all_numbers(self) -> np.ndarray | list[int | float]:
        """One int64 array, or one float64 array if that is exact, or else a list."""
        arrays = list(self.arrays)
        if self.numbers:
            packed = _pack(self.numbers)
            if isinstance(packed, list):
                return [number for array in arrays for number in array.tolist()] + packed
            arrays.append(packed)
        if not arrays:
            return []
        if len(arrays) == 1 and arrays[0].dtype in (np.int64, np.float64):
            return arrays[0]
        if all(array.dtype == np.int64 for array in arrays):
            return np.concatenate(arrays)
        if all(array.dtype == np.float64 or _fits_float(array) for array in arrays):
            return np.concatenate([array.astype(np.float64) for array in arrays])
        return [number for array in arrays for number in array.tolist()]

    def all_strings(self) -> pa.ChunkedArray:
        """All strings as one Arrow column."""
        chunks = [large_strings(part) if isinstance(part, list) else part for part in self.strings]
        return pa.chunked_array(chunks, pa.large_string())

    def all_times(self) -> np.ndarray | list[int]:
        """One int64 array, or a list if some instant does not fit."""
        if all(isinstance(part, np.ndarray) for part in self.times):
            return np.concatenate(self.times) if self.times else np.empty(0, np.int64)
        plain = [int(moment) for part in self.times for moment in part]
        fits = all(-(1 << 63) <= moment < 1 << 63 for moment in plain)
        return np.array(plain, np.int64) if fits else plain


def is_ordered(values: IntervalSet) -> bool:
    """Whether membership of an unknown string depends on its place among the constants."""
    return values.intersect(STRINGS).as_points() is None and STRINGS.minus(values).as_points() is None


def _pack(numbers: list[int | float]) -> np.ndarray | list[int | float]:
    if all(isinstance(number, int) and -(1 << 63) <= number < 1 << 63 for number in numbers):
        return np.array(numbers, dtype=np.int64)
    if all(isinstance(number, float) or -EXACT_FLOAT <= number <= EXACT_FLOAT for number in numbers):
        return np.array(numbers, dtype=np.float64)
    return numbers


def _fits_float(array: np.ndarray) -> bool:
    return bool(array.size == 0 or (array.min() >= -EXACT_FLOAT and array.max() <= EXACT_FLOAT))
