"""Rows whose texts differ as wholes but share predicates: conjunctions of plain predicates, grouped by predicate."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from whimbrel.language.columnar.columns import Column, Int64s
from whimbrel.language.sql.literal_columns import numbers_column
from whimbrel.language.sql.skeletons import MOST_PREDICATES, ParsedSkeleton, read_predicate, split_skeleton

_EXPONENT = re.compile("[eE]").search


class _Known(dict[str, int]):
    """The number of each part among `predicates`, or -1 if it is not plain; read when it is first asked for."""

    def __init__(self) -> None:
        self.predicates: list[ParsedSkeleton] = []
        self.attributes: list[str] = []

    def __missing__(self, part: str) -> int:
        predicate = read_predicate(part)
        code = -1 if predicate is None else len(self.predicates)
        if predicate is not None:
            self.predicates.append(predicate)
            self.attributes.append(predicate.shape.conjunctions[0][0].attribute)
        self[part] = code
        return code


class ConjunctionRows:
    """Rows whose texts are conjunctions of plain predicates, one after the other, as long as they are being gathered.

    >>> gathered = ConjunctionRows()
    >>> gathered.add("a = ' AND b < '", [7], [], ["1", "2"]), gathered.add("a = ' OR b < '", [8], [], ["1", "2"])
    (True, False)
    >>> [
    ...     (predicate.shape.conjunctions[0][0].attribute, places.tolist(), columns)
    ...     for predicate, places, columns in gathered.columns()
    ... ]
    [('a', [0], (array([1]),)), ('b', [1], (array([2]),))]
    """

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.counts: list[int] = []
        self._known = _Known()
        self._codes: list[int] = []
        self._strings: list[str] = []
        self._numbers: list[str] = []

    def add(self, rest: str, rows: Sequence[int], strings: Sequence[str], numbers: Sequence[str]) -> bool:
        """Takes in rows that differ in literals only; False if they are not all conjunctions of plain predicates."""
        known = self._known
        codes = [known[part] for part in split_skeleton(rest)]
        if -1 in codes or len(codes) > MOST_PREDICATES or _has_odd(numbers):
            return False
        if len({known.attributes[code] for code in codes}) < len(codes):
            return False  # two constraints on one attribute become one, which is not a matter of parts
        self.rows += rows
        self.counts += [len(codes)] * len(rows)
        self._codes += codes * len(rows)
        self._strings += strings
        self._numbers += numbers
        return True

    def columns(self) -> Iterator[tuple[ParsedSkeleton, Int64s, tuple[Column, ...]]]:
        """Each predicate, its places among the predicates of all rows, and its literals by slot."""
        codes = np.array(self._codes, np.int64)
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=len(self._known.predicates)))
        strings = np.empty(len(self._strings), object)
        strings[:] = self._strings
        numbers = np.asarray(numbers_column(self._numbers, False) if self._numbers else np.empty(0, np.int64))
        first_string = _starts(codes, [predicate.strings for predicate in self._known.predicates])
        first_number = _starts(codes, [len(predicate.negative) for predicate in self._known.predicates])
        begin = 0
        for predicate, end in zip(self._known.predicates, ends.tolist(), strict=True):
            places = order[begin:end]
            begin = end
            columns: list[Column] = [strings[first_string[places] + slot].tolist() for slot in range(predicate.strings)]
            for slot, negative in enumerate(predicate.negative):
                columns.append(_signed(numbers[first_number[places] + slot], negative))
            if len(places):
                yield predicate, places, tuple(columns)


def _has_odd(numbers: Sequence[str]) -> bool:
    """Whether some number may not be exact as an int64 or a binary64, which all of a column are."""
    if not numbers:
        return False
    together = "".join(numbers)
    return len(max(numbers, key=len)) > 15 or not (together.isdigit() or _EXPONENT(together) is None)


def _starts(codes: Int64s, sizes: Sequence[int]) -> Int64s:
    """Where the literals of each predicate start among those of all."""
    counts = np.array(sizes, np.int64)[codes] if len(codes) else codes
    starts: Int64s = np.cumsum(counts) - counts
    return starts


def _signed(column: np.ndarray, negative: bool) -> np.ndarray:
    if column.dtype == np.float64 and (column == np.floor(column)).all():
        column = column.astype(np.int64)
    return 0 - column if negative else column
