"""Groups texts by their predicates: conjunctions of plain predicates, of which few have the same skeleton."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from whimbrel.language.columnar import EXACT_INTEGERS, Conjunctions, Numbers, exact
from whimbrel.language.sql.lexer import number_value
from whimbrel.language.sql.skeletons import (
    MOST_PREDICATES,
    ParsedSkeleton,
    group_by_predicate,
    read_predicate,
    split_skeleton,
)
from whimbrel.model.values import canonical_number

_EXPONENT = re.compile("[eE]").search


class _Known(dict[str, int]):
    """The number of each predicate by its skeleton, or -1 if it is not plain. The first lookup parses it."""

    def __init__(self) -> None:
        self.predicates: list[ParsedSkeleton] = []
        self.attributes: list[str] = []

    def __missing__(self, skeleton: str) -> int:
        predicate = read_predicate(skeleton)
        code = -1 if predicate is None else len(self.predicates)
        if predicate is not None:
            self.predicates.append(predicate)
            self.attributes.append(predicate.shape.conjunctions[0][0].attribute)
        self[skeleton] = code
        return code


class SplitRows:
    """Collects rows whose texts are conjunctions of plain predicates.

    >>> gathered = SplitRows()
    >>> gathered.add("a = ' AND b < '", [7], [], ["1", "2"]), gathered.add("a = ' OR b < '", [8], [], ["1", "2"])
    (True, False)
    >>> found = gathered.conjunctions()
    >>> found.rows, found.counts, [group.columns for group in found.groups]
    (array([7]), array([2]), [(array([1]),), (array([2]),)])
    """

    def __init__(self) -> None:
        self.rows: list[int] = []
        self._counts: list[int] = []
        self._known = _Known()
        self._codes: list[int] = []
        self._strings: list[str] = []
        self._numbers: list[str] = []

    def add(self, skeleton: str, rows: Sequence[int], strings: Sequence[str], numbers: Sequence[str]) -> bool:
        """Add rows of one skeleton; False, and nothing changes, if they are not conjunctions of plain predicates."""
        known = self._known
        codes = [known[part] for part in split_skeleton(skeleton)]
        if -1 in codes or len(codes) > MOST_PREDICATES or _has_odd(numbers):
            return False
        if len({known.attributes[code] for code in codes}) < len(codes):
            return False  # two constraints on one attribute become one, which the parser does
        self.rows += rows
        self._counts += [len(codes)] * len(rows)
        self._codes += codes * len(rows)
        self._strings += strings
        self._numbers += numbers
        return True

    def conjunctions(self) -> Conjunctions:
        """The rows, grouped by predicate."""
        strings = np.empty(len(self._strings), object)
        strings[:] = self._strings
        numbers = np.asarray(numbers_column(self._numbers, False) if self._numbers else np.empty(0, np.int64))
        codes = np.array(self._codes, np.int64)
        groups = group_by_predicate(self._known.predicates, codes, numbers, lambda places: strings[places].tolist())
        return Conjunctions(np.array(self.rows, np.int64), np.array(self._counts, np.int64), tuple(groups))


def _has_odd(numbers: Sequence[str]) -> bool:
    """Whether some number may need more than int64 or binary64, so that its column would be neither."""
    if not numbers:
        return False
    together = "".join(numbers)
    return len(max(numbers, key=len)) > 15 or not (together.isdigit() or _EXPONENT(together) is None)


def numbers_column(raws: Sequence[str], negative: bool) -> Numbers:
    """The numbers, read in the fastest way that is exact; LimitExceeded if one is too long."""
    line = " ".join(raws)
    if line.replace(" ", "").isdigit():
        integers = np.fromstring(line, dtype=np.int64, sep=" ")
        if integers.max() < (1 << 63) - 1:  # where a number too large ends up
            return -integers if negative else integers
    floats = np.fromstring(line, dtype=np.float64, sep=" ")
    if (np.abs(floats) < EXACT_INTEGERS).all():
        floats = 0.0 - floats if negative else floats
        return floats.astype(np.int64) if (floats == np.floor(floats)).all() else floats
    values = [number_value(raw) for raw in raws]
    return exact([canonical_number(-value) for value in values] if negative else values)
