"""Literal pools: the literals of one attribute and type, from all groups of a bulk load, ranked together."""

from __future__ import annotations

from typing import cast

import numpy as np
import pyarrow as pa

from whimbrel.language.columnar.terms import Column, DictionaryStrings
from whimbrel.model.values import NUMBER, STRING, TIMESTAMP
from whimbrel.ranks.arrow import numbers
from whimbrel.ranks.dictionary import Dictionary
from whimbrel.ranks.dictionary_builder import Constants
from whimbrel.ranks.distinct import float_places
from whimbrel.ranks.lookup import EXACT_FLOAT

_MANY = 4_096
"""Fewest floats that are sorted and given their places in one step."""


def is_beyond_floats(column: np.ndarray) -> bool:
    """Whether some integer of a column is beyond those that binary64 holds all of."""
    return bool(column.dtype == np.int64 and len(column) and max(-int(column.min()), int(column.max())) > EXACT_FLOAT)


class LiteralPool:
    """Columns of literals, one after the other. Equal floats, and equal strings of a vocabulary, are ranked once."""

    def __init__(self, number: int, attr: int, type: int) -> None:
        self.number, self.attr, self.type = number, attr, type
        self.size = 0
        self._columns: list[Column] = []
        self._distinct: np.ndarray | pa.Array | None = None
        self._places: np.ndarray | None = None  # of each literal among the distinct ones

    def add(self, column: Column) -> int:
        """Add a column; return where it begins in the pool."""
        begin = self.size
        self._columns.append(column)
        self.size += len(column)
        return begin

    def give(self, into: Constants) -> None:
        """Add the literals to the constants of the attribute, when all columns are there."""
        if self.type == STRING:
            self._distinct, self._places = _distinct_words(cast("list[DictionaryStrings]", self._columns))
            into.strings.append(self._distinct)
        else:  # integers, nanoseconds, or numbers below 2^53: floats hold all of a mixture
            self._distinct = np.concatenate(self._columns)
            if self.size >= _MANY and self._distinct.dtype == np.float64:
                self._distinct, self._places = float_places(self._distinct) or (self._distinct, None)
            (into.times if self.type == TIMESTAMP else into.arrays).append(self._distinct)
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
