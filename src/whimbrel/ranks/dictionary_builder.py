"""Builds the dictionary of a set of filters: sorts the constants of every attribute and lays them out as flat arrays.

Everything works on whole arrays: a segment has millions of constants. The constants of a bulk load come in literal
pools, one for each attribute and type, in which the literals of all groups are ranked together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import pyarrow as pa

from whimbrel.compiled.views import read_only
from whimbrel.language.columnar.terms import Column, DictionaryStrings
from whimbrel.model.intervals import STRINGS, IntervalSet
from whimbrel.model.values import NUMBER, STRING, TIMESTAMP
from whimbrel.ranks.arrow import Strings, large_strings, numbers, one_array, string_buffers
from whimbrel.ranks.dictionary import Dictionary, DictionaryMeta, NumberColumn
from whimbrel.ranks.distinct import distinct, distinct_strings, float_places
from whimbrel.ranks.kernel_arrays import EXACT, EXACT_FLOAT, FLOATS, INTEGERS, NO_NUMBERS
from whimbrel.ranks.string_kernels import fill_hash_table

_FEW = 256
_SAMPLE = 2_048
_MANY = 4_096
"""From so many floats on, sorting them and finding their places is one step."""
_NO_INTEGERS = np.empty(0, np.int64)
_NO_STRINGS = np.zeros(1, np.int64), np.empty(0, np.uint8)
_NO_TABLE = np.empty(0, np.int32)
"""The empty arrays of an attribute without constants: made once, as a load may have thousands of attributes."""


@dataclass(slots=True)
class Constants:
    """The constants of one attribute: arrays from columns of literals, plain values from single filters.

    `ordered`: some filter compares the strings by order, so that unknown strings need their true place among them.
    `joined`: the attribute is derived, and some filter has several tests of it that must hold for the same value.
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
            return _NO_INTEGERS
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
        """One int64 array, or a list if some timestamp does not fit."""
        if not self.times:
            return _NO_INTEGERS
        if all(isinstance(part, np.ndarray) for part in self.times):
            return np.concatenate(self.times)
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


def build_dictionary(names: Sequence[str], constants: Sequence[Constants]) -> Dictionary:
    """Build a dictionary of attributes; the constants of each may have any order, and repetitions.

    >>> toys, prices = Constants(), Constants()
    >>> toys.strings.append(["bear", "ant"])
    >>> prices.numbers += [5, 3, 5]
    >>> dictionary = build_dictionary(["toy", "price"], [toys, prices])
    >>> dictionary.lookup(1).numbers, dictionary.lookup(1).rank_number(4)
    ([3, 5], 8)
    """
    count = len(names)
    kinds = np.zeros(count, np.uint8)
    sizes = np.ones((count, 5), np.int64)
    sizes[:, 1] = 5  # the boolean block
    all_numbers: list[np.ndarray] = []
    times: list[np.ndarray] = []
    offsets: list[np.ndarray] = []
    data: list[np.ndarray] = []
    tables: list[np.ndarray] = []
    exact_numbers: dict[str, list[str]] = {}
    exact_times: dict[str, list[int]] = {}
    for attr, own in enumerate(constants):
        kinds[attr], its_numbers = _sort_numbers(own.all_numbers())
        its_times = _sort_times(own.all_times())
        its_offsets, its_data = _sort_strings(own.all_strings()) if own.strings else _NO_STRINGS
        sizes[attr, 2:] += [2 * len(its_numbers), 2 * (len(its_offsets) - 1), 2 * len(its_times)]
        if isinstance(its_numbers, list):
            exact_numbers[str(attr)] = [repr(number) for number in its_numbers]
            its_numbers = np.empty(0, np.int64)
        if isinstance(its_times, list):
            exact_times[str(attr)] = its_times
            its_times = np.empty(0, np.int64)
        all_numbers.append(its_numbers.view(np.int64))
        times.append(its_times)
        offsets.append(its_offsets)
        data.append(its_data)
        tables.append(_hash_table(its_offsets, its_data) if own.strings else _NO_TABLE)
    bases = np.cumsum(sizes, axis=1)
    if bases.max(initial=0) > np.iinfo(np.int32).max:
        raise OverflowError("Expected fewer than 2**30 constants of an attribute in one segment")
    arrays = {
        "number_kind": kinds,
        "number_start": _starts(map(len, all_numbers)),
        "numbers": _joined(all_numbers, np.int64),
        "string_start": _starts(len(one) - 1 for one in offsets),
        "string_offset": _joined([np.zeros(1, np.int64), *_shifted(offsets, data)], np.int64),
        "string_bytes": _joined(data, np.uint8),
        "string_hash_start": _starts(map(len, tables)),
        "string_hash": _joined(tables, np.int32),
        "time_start": _starts(map(len, times)),
        "times": _joined(times, np.int64),
        "ordered_strings": np.array([own.ordered for own in constants], np.uint8),
        "rank_base": bases.astype(np.int32),
    }
    return Dictionary(arrays, DictionaryMeta(list(names), exact_numbers, exact_times))


def _sort_numbers(values: NumberColumn) -> tuple[int, np.ndarray | list[int | float]]:
    """How the numbers are kept (`kernel_arrays.INTEGERS` and so on), and their sorted distinct values."""
    if len(values) == 0:
        return NO_NUMBERS, _NO_INTEGERS
    if isinstance(values, np.ndarray):
        if values.dtype.kind == "f":
            integers, floats = np.empty(0, np.int64), values.astype(np.float64, copy=False)
        else:
            integers, floats = values.astype(np.int64, copy=False), np.empty(0)
    else:
        try:
            integers = np.array([v for v in values if not isinstance(v, float)], np.int64)
        except OverflowError:
            return _exactly(values)
        floats = np.array([v for v in values if isinstance(v, float)], np.float64)
    if not len(floats):
        return INTEGERS, distinct(integers)
    if _are_whole(floats[:_FEW]) and _are_whole(floats):
        return INTEGERS, distinct(np.concatenate([integers, floats.astype(np.int64)]))
    if len(integers) and max(-int(integers.min()), int(integers.max())) > EXACT_FLOAT:
        return _exactly([*integers.tolist(), *floats.tolist()])
    found = distinct(np.concatenate([integers.astype(np.float64), floats]) if len(integers) else floats)
    zero = int(np.searchsorted(found, 0.0))
    if zero < len(found) and found[zero] == 0.0 and np.signbit(found[zero]):
        found = found + 0.0  # no negative zero
    return FLOATS, found


def _are_whole(floats: np.ndarray) -> bool:
    return bool(((np.floor(floats) == floats) & (np.abs(floats) < 2.0**63)).all())


def _exactly(values: Sequence[int | float]) -> tuple[int, np.ndarray | list[int | float]]:
    """Keep the numbers as Python numbers, unless an array of floats holds the same values."""
    found = sorted(set(values))
    try:
        floats = np.array([float(value) for value in found])
    except OverflowError:
        return EXACT, found
    if floats.tolist() == found:
        return FLOATS, floats + 0.0
    return EXACT, found


def _sort_times(values: np.ndarray | Sequence[int]) -> np.ndarray | list[int]:
    if len(values) == 0:
        return _NO_INTEGERS
    try:
        return distinct(np.asarray(values, np.int64))
    except OverflowError:
        return sorted({int(value) for value in values})


def _sort_strings(values: Strings) -> tuple[np.ndarray, np.ndarray]:
    """The offsets and bytes of the sorted distinct strings."""
    if len(values) == 0:
        return _NO_STRINGS
    if len(values) <= _FEW:
        listed = values if isinstance(values, Sequence) else values.to_pylist()
        texts = [text.encode() for text in sorted(set(listed) - {None})]
        return _starts(map(len, texts)), np.frombuffer(b"".join(texts), np.uint8)
    array = one_array(values)
    if len(array) > _SAMPLE and 2 * len(array.slice(0, _SAMPLE).unique()) < _SAMPLE:
        array = array.unique()
    offsets, data = string_buffers(array)
    offsets, data = string_buffers(array.take(numbers(distinct_strings(read_only(offsets), read_only(data)))))
    return offsets - offsets[0], data[offsets[0] : offsets[-1]]


def _hash_table(offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
    count = len(offsets) - 1
    table = np.zeros(1 << (2 * count - 1).bit_length() if count else 0, np.int32)
    if count:
        fill_hash_table(read_only(offsets), read_only(data), table)
    return table


def _starts(sizes: Iterable[int]) -> np.ndarray:
    return np.cumsum([0, *sizes], dtype=np.int64)


def _joined(parts: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate(parts).astype(dtype, copy=False) if parts else np.empty(0, dtype)


def _shifted(offsets: list[np.ndarray], data: list[np.ndarray]) -> Iterable[np.ndarray]:
    """The offsets of each attribute's strings in the bytes of all."""
    for own, first in zip(offsets, _starts(map(len, data))[:-1], strict=True):
        yield own[1:] + first


def is_beyond_floats(column: np.ndarray) -> bool:
    """Whether some integer of a column may be beyond 2^53, where binary64 has gaps; true for objects."""
    if column.dtype == object:
        return True
    return bool(column.dtype == np.int64 and len(column) and max(-int(column.min()), int(column.max())) > EXACT_FLOAT)


class LiteralPool:
    """Columns of literals, one after the other. Equal floats, and equal strings of a vocabulary, are ranked once."""

    def __init__(self, number: int, attr: int, type: int) -> None:
        self.number, self.attr, self.type = number, attr, type
        self.size = 0
        self._columns: list[Column] = []
        self._distinct: np.ndarray | pa.Array | None = None
        self._places: np.ndarray | None = None  # the place of each literal among the distinct ones

    def add(self, column: Column) -> int:
        """Add a column; return where it begins in the pool."""
        begin = self.size
        self._columns.append(column)
        self.size += len(column)
        return begin

    def give(self, into: Constants) -> None:
        """Add the literals to the constants of the attribute; all columns must have been added."""
        if self.type == STRING:
            self._distinct, self._places = _distinct_words(cast("list[DictionaryStrings]", self._columns))
            into.strings.append(self._distinct)
        else:  # integers, nanoseconds, or a mixture that floats hold, or objects
            self._distinct = np.concatenate(self._columns)
            if self.size >= _MANY and self._distinct.dtype == np.float64:
                self._distinct, self._places = float_places(self._distinct) or (self._distinct, None)
            if self.type == NUMBER and self._distinct.dtype == object:
                into.numbers += self._distinct.tolist()
            else:
                (into.times if self.type == TIMESTAMP else into.arrays).append(self._distinct)
        self._columns = []

    def ranks(self, dictionary: Dictionary) -> np.ndarray:
        """The rank of every literal. Frees the literals."""
        found = dictionary.ranks_of(self.attr, self.type, self._distinct)
        if self._places is None:
            return found
        is_sorted = self.type == NUMBER and len(found) > 0
        is_all = is_sorted and int(found[-1]) - int(found[0]) == 2 * (len(found) - 1)  # no other constants in between
        of_each: np.ndarray = 2 * self._places + found[0] if is_all else found[self._places]
        self._distinct = self._places = None
        return of_each


def _distinct_words(columns: list[DictionaryStrings]) -> tuple[pa.Array, np.ndarray]:
    """The strings that occur, hardly any of them twice, and the place of each literal among them."""
    vocabularies: dict[int, int] = {}
    known: list[pa.Array] = []
    size = 0
    for column in columns:
        if vocabularies.setdefault(id(column.vocabulary), size) == size:
            known.append(column.vocabulary)
            size += len(column.vocabulary)
    codes = np.concatenate([column.codes + vocabularies[id(column.vocabulary)] for column in columns])
    used = np.zeros(size, bool)
    used[codes] = True
    places = np.cumsum(used, dtype=np.int64) - 1
    every = pa.concat_arrays(known) if len(known) > 1 else known[0]
    return every.take(numbers(np.flatnonzero(used))), places[codes]
