"""Ranks: every value of an attribute as one int32, so that a compiled matcher compares integers only.

For each attribute the constants of all stored constraints are sorted, type after type (boolean < number < string <
timestamp). With n constants of a type, its block holds 2n + 1 ranks from `first` on: constant i is
first + 2i + 1, and a value that lies between constants i - 1 and i is first + 2i. Two values of one rank satisfy the
same constraints, so an interval of values is exactly an interval [low, high] of ranks, whatever the type and however
large the integers (ALGORITHMS.md sections 0.1 and 25). Missing and null are `MISSING`, outside every interval.

`Coding` is dynamic: it counts the constants of the conjunctions that are added and removed. `Coding.codes()` freezes
them; ranks are made anew only when a constant has come since (a constant that has gone does no harm).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from whimbrel.model.conjunction import Conjunction
from whimbrel.model.event import Event
from whimbrel.model.intervals import Cut, IntervalSet
from whimbrel.model.values import NUMBER, STRING, TIMESTAMP, SortKey

Int32s: TypeAlias = npt.NDArray[np.int32]
Int64s: TypeAlias = npt.NDArray[np.int64]
Span: TypeAlias = tuple[int, int]
Constants: TypeAlias = Sequence[Any] | npt.NDArray[Any]
"""Constants of one type: Python values, or an array of int64 or float64."""

MISSING = -1
"""The rank of a missing attribute and of null."""

_BOOLEANS = (False, True)
_EXACT = 1 << 53


class AttributeRanks:
    """The frozen order of one attribute's constants.

    >>> ranks = AttributeRanks([(NUMBER, 5), (NUMBER, 0.5), (STRING, "x")])
    >>> [ranks.rank((NUMBER, number)) - ranks.first[NUMBER] for number in (0, 0.5, 3, 5, 10**20)]
    [0, 1, 2, 3, 4]
    """

    __slots__ = ("_arrays", "_sorted", "first")

    def __init__(self, keys: Iterable[SortKey] = (), columns: Iterable[tuple[int, Constants]] = ()) -> None:
        parts: list[list[Constants]] = [[], [], [], []]
        loose: list[list[Any]] = [[], [], [], []]
        for kind, value in keys:
            loose[kind].append(value)
        for kind, column in columns:
            parts[kind].append(column)
        self._sorted: list[Any] = [_BOOLEANS]  # sequences of Python values
        self._arrays: list[npt.NDArray[Any] | None] = [None]
        self.first = [0]
        for kind in (NUMBER, STRING, TIMESTAMP):
            self.first.append(self.first[-1] + 2 * len(self._sorted[-1]) + 1)
            constants = _distinct([*parts[kind], loose[kind]])
            array = None
            if kind != STRING:
                array = _as_array(constants, np.float64 if kind == NUMBER else np.int64)
            self._arrays.append(array)
            self._sorted.append(constants if array is None else memoryview(array.data))  # which yields Python numbers
        self.first.append(self.first[-1] + 2 * len(self._sorted[-1]) + 1)

    @property
    def count(self) -> int:
        """How many ranks there are: they are 0 to count - 1."""
        return self.first[-1]

    def rank(self, key: SortKey) -> int:
        """The rank of a value; `MISSING` for null. O(log n)."""
        kind, value = key
        if kind < 0:
            return MISSING
        constants = self._sorted[kind]
        place = bisect_left(constants, value)
        return self.first[kind] + 2 * place + (place < len(constants) and constants[place] == value)

    def floor(self, cut: Cut) -> int:
        """The lowest rank above a cut, whose value must be a constant. O(log n)."""
        kind, inside, value, after = cut
        if not inside:
            return self.first[kind]
        rank = self.rank((kind, value))  # type: ignore[arg-type]
        assert (rank - self.first[kind]) % 2, "a cut at a value that is no constant"
        return rank + after

    def spans(self, values: IntervalSet) -> list[Span]:
        """The intervals of ranks, both ends included, that a set of values is."""
        return [(self.floor(low), self.floor(high) - 1) for low, high in values.pairs()]

    def kind(self, rank: int) -> int:
        """The type whose block holds the rank."""
        return next(kind for kind in (TIMESTAMP, STRING, NUMBER, 0) if rank >= self.first[kind])

    def value(self, rank: int) -> SortKey | None:
        """The constant of a rank, or None for a rank between constants."""
        kind = self.kind(rank)
        place, is_constant = divmod(rank - self.first[kind], 2)
        return (kind, self._sorted[kind][place]) if is_constant else None

    def numbers(self, values: npt.NDArray[Any]) -> Int32s:
        """The ranks of many int64 or float64 numbers; NaN is `MISSING`."""
        constants = self._arrays[NUMBER]
        if constants is None or (values.dtype.kind == "i" and np.any(np.abs(values.astype(np.float64)) >= _EXACT)):
            return self._each(NUMBER, values.tolist())
        floats = values.astype(np.float64)
        ranks = self._searched(NUMBER, constants, floats)
        ranks[np.isnan(floats)] = MISSING
        return ranks

    def constants(self, kind: int, column: Constants) -> Int32s:
        """The ranks of a column of one type: int64 or float64 numbers, int64 nanoseconds, or a list of values."""
        if isinstance(column, np.ndarray):
            if kind == NUMBER:
                return self.numbers(column)
            array = self._arrays[kind]
            if array is not None:
                return self._searched(kind, array, column)
        return self._each(kind, column)

    def _searched(self, kind: int, constants: npt.NDArray[Any], values: npt.NDArray[Any]) -> Int32s:
        places = np.searchsorted(constants, values)
        found = np.zeros(len(values), dtype=np.bool_)
        if len(constants):
            found = constants[np.minimum(places, len(constants) - 1)] == values
        return (self.first[kind] + 2 * places + found).astype(np.int32)

    def _each(self, kind: int, values: Iterable[Any]) -> Int32s:
        known: dict[Any, int] = {}
        out: list[int] = []
        for value in values:
            rank = known.get(value)
            if rank is None:
                is_nan = isinstance(value, float) and math.isnan(value)
                rank = known[value] = MISSING if is_nan else self.rank((kind, value))
            out.append(rank)
        return np.array(out, dtype=np.int32)


class Codes:
    """The attributes, numbered in order of their names, and the ranks of each."""

    __slots__ = ("names", "numbers", "ranks")

    def __init__(self, ranks: dict[str, AttributeRanks]) -> None:
        self.names = tuple(sorted(ranks))
        self.numbers = {name: number for number, name in enumerate(self.names)}
        self.ranks = tuple(ranks[name] for name in self.names)

    def spans(self, name: str, values: IntervalSet) -> list[Span]:
        """The rank intervals of a constraint's values."""
        return self.ranks[self.numbers[name]].spans(values)

    def event(self, event: Event) -> list[tuple[int, list[int]]]:
        """The attributes of an event that some constraint mentions: (number, ranks of its non-null values)."""
        out = []
        for name in event.attributes:
            number = self.numbers.get(name)
            if number is not None:
                rank = self.ranks[number].rank
                found = [rank(key) for key in event.keys(name) if key[0] >= 0]
                if found:
                    out.append((number, found))
        return out


class Coding:
    """The constants of a changing set of conjunctions.

    >>> from whimbrel.model.filter import Filter
    >>> coding = Coding()
    >>> for conjunction in Filter.parse("price < 5 AND color = 'red'").conjunctions:
    ...     coding.add(conjunction)
    >>> codes = coding.codes()
    >>> codes.names, codes.event(Event({"price": 3, "size": 1}))
    (('color', 'price'), [(1, [5])])
    """

    def __init__(self) -> None:
        self._counts: dict[str, Counter[SortKey]] = {}
        self._columns: dict[str, list[tuple[int, Constants]]] = {}
        self._codes: Codes | None = None

    def add(self, conjunction: Conjunction) -> None:
        """Count the constants of a conjunction."""
        for name, key in _constants(conjunction):
            counts = self._counts.get(name)
            if counts is None:
                counts = self._counts[name] = Counter()
                self._codes = None
            if key is not None:
                counts[key] += 1
                if counts[key] == 1:
                    self._codes = None

    def remove(self, conjunction: Conjunction) -> None:
        """Forget the constants of a conjunction that was added; attributes stay, so that their numbers do."""
        for name, key in _constants(conjunction):
            if key is not None:
                self._counts[name][key] -= 1
                if not self._counts[name][key]:
                    del self._counts[name][key]

    def add_column(self, name: str, kind: int, column: Constants) -> None:
        """Take many constants of one type at once: an int64 or float64 array, or a list of values."""
        self._columns.setdefault(name, []).append((kind, column))
        self._codes = None

    def codes(self) -> Codes:
        """The frozen codes: the same object until a constant comes that it does not have."""
        if self._codes is None:
            self._codes = Codes(
                {
                    name: AttributeRanks(self._counts.get(name, ()), self._columns.get(name, ()))
                    for name in self._counts.keys() | self._columns.keys()
                }
            )
        return self._codes


def _constants(conjunction: Conjunction) -> Iterator[tuple[str, SortKey | None]]:
    """The constants of each attribute's intervals, after a None that says that the attribute is there."""
    for name, constraint in conjunction.constraints:
        yield name, None
        for kind, inside, value, _ in constraint.values.cuts:
            if inside:
                yield name, (kind, value)  # type: ignore[misc]
    for link in conjunction.links:
        yield link.left, None
        yield link.right, None


def _distinct(parts: Sequence[Constants]) -> list[Any] | npt.NDArray[Any]:
    """The values of all parts, each once, in order: an array if all parts are arrays that one type holds exactly."""
    filled = [part for part in parts if len(part)]
    arrays = [part for part in filled if isinstance(part, np.ndarray)]
    if arrays and len(arrays) == len(filled):
        if len({array.dtype for array in arrays}) > 1 and all(map(_is_exact, arrays)):
            arrays = [array.astype(np.float64) for array in arrays]
        if len({array.dtype for array in arrays}) == 1:
            unique: npt.NDArray[Any] = np.unique(np.concatenate(arrays))
            return unique
    values: set[Any] = set()
    for part in filled:
        values.update(part.tolist() if isinstance(part, np.ndarray) else part)
    return sorted(values)


def _is_exact(array: npt.NDArray[Any]) -> bool:
    """Whether binary64 holds every number of the array."""
    return array.dtype.kind == "f" or bool(np.all((array >= -_EXACT) & (array <= _EXACT)))


def _as_array(constants: list[Any] | npt.NDArray[Any], dtype: type[np.generic]) -> npt.NDArray[Any] | None:
    """The constants as an array of the type, or None if it cannot hold each of them exactly."""
    if isinstance(constants, np.ndarray) and constants.dtype == dtype:
        return constants
    if isinstance(constants, np.ndarray):
        if constants.dtype.kind == "i" and _is_exact(constants):
            return constants.astype(dtype)
        constants = constants.tolist()
    try:
        array = np.array(constants, dtype=dtype)
    except OverflowError:
        return None
    return array if array.tolist() == constants else None
