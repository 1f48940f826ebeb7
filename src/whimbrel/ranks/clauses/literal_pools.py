"""Literal pools: the literals of one attribute and type, from all groups of a bulk load, ranked together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from whimbrel.language.columnar.terms import DictionaryStrings
from whimbrel.model.values import NUMBER, STRING, TIMESTAMP
from whimbrel.ranks.arrow import large_strings, numbers
from whimbrel.ranks.constants import Constants
from whimbrel.ranks.dictionary import Dictionary
from whimbrel.ranks.distinct import float_places

Column = Any
"""A column of literals: an int64 or float64 array, `DictionaryStrings`, an Arrow array of strings, or a list."""

_MANY = 4_096
"""Fewest floats that are sorted and given their places in one step."""


class LiteralPool:
    """Columns of literals, one after the other. Equal floats, and equal strings of a vocabulary, are ranked once."""

    def __init__(self, number: int, attr: int, type: int) -> None:
        self.number, self.attr, self.type = number, attr, type
        self.size = 0
        self._columns: list[Column] = []
        self._distinct: Column = None
        self._places: np.ndarray | None = None  # of each literal among the distinct ones

    def add(self, column: Column) -> int:
        """Add a column; return where it begins in the pool."""
        begin = self.size
        self._columns.append(column)
        self.size += len(column)
        return begin

    def give(self, into: Constants) -> None:
        """Add the literals to the constants of the attribute, when all columns are there."""
        if self.type == STRING and all(isinstance(column, DictionaryStrings) for column in self._columns):
            self._distinct, self._places = _distinct_words(self._columns)
        else:
            self._distinct = self._joined()
            if self.size >= _MANY and isinstance(self._distinct, np.ndarray) and self._distinct.dtype == np.float64:
                self._distinct, self._places = float_places(self._distinct) or (self._distinct, None)
        if self.type == STRING:
            into.strings.append(self._distinct)
        elif self.type == TIMESTAMP:
            into.times.append(self._distinct)
        elif isinstance(self._distinct, np.ndarray):
            into.arrays.append(self._distinct)
        else:
            into.numbers += self._distinct
        self._columns = []

    def ranks(self, dictionary: Dictionary) -> np.ndarray:
        """The rank of every literal. The literals are released."""
        found = dictionary.ranks_of(self.attr, self.type, self._distinct)
        if self._places is None:
            return found
        is_sorted = self.type == NUMBER and len(found) > 0
        is_all = is_sorted and int(found[-1]) - int(found[0]) == 2 * (len(found) - 1)  # no others between them
        of_each: np.ndarray = 2 * self._places + found[0] if is_all else found[self._places]
        self._distinct = self._places = None
        return of_each

    def _joined(self) -> Column:
        if self.type == STRING:
            return large_strings([text for column in self._columns for text in column])
        arrays = [column for column in self._columns if isinstance(column, np.ndarray)]
        if len(arrays) == len(self._columns) and len({array.dtype for array in arrays}) == 1:
            return np.concatenate(arrays)
        if self.type == TIMESTAMP or len(arrays) < len(self._columns):
            listed = [column.tolist() if isinstance(column, np.ndarray) else column for column in self._columns]
            return [number for column in listed for number in column]  # in the order of the columns
        constants = Constants()
        constants.arrays += arrays
        return constants.all_numbers()


def _distinct_words(columns: list[DictionaryStrings]) -> tuple[pa.Array, np.ndarray]:
    """The strings that are used, hardly any of them twice, and the place of each literal among them."""
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
