"""Texts that are unlike as wholes, but alike in their predicates: cut at AND, and grouped predicate by predicate.

Where every filter picks some of a hundred attributes, nearly every text is a shape of its own, but there are only a few
hundred different predicates. A text `P AND Q` whose parts are plain predicates by themselves means just that: the only
AND that is not one between predicates stands in BETWEEN, next to two literals. There it is written in small letters
first, which means the same, so that it is not cut. Every part is given to the real parser once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from whimbrel.language.sql.columnar_shapes import Shape, columnar_shape
from whimbrel.language.sql.columns import Column, Int64s, numbers_column
from whimbrel.language.sql.parser import parse_template
from whimbrel.language.sql.template import FIRST_NUMBER
from whimbrel.model.errors import WhimbrelError

MOST = 256
"""Predicates of a text, beyond which it is read as a whole; far below every limit."""
KNOWN = 1 << 14
"""Predicates that are remembered from call to call, a few hundred bytes each."""

_marks = re.compile("''?")
_exponent = re.compile("[eE]").search


@dataclass(frozen=True, slots=True)
class Piece:
    """A shape, of one term where it is a plain predicate: how many strings it has, and which numbers have a minus."""

    shape: Shape
    strings: int
    negative: tuple[bool, ...]


def pieces_of(rest: str) -> list[str]:
    """The parts between ANDs of what is left of a text without its literals.

    >>> pieces_of("a = ' AND b BETWEEN ' AND ' AND c < ''")
    ["a = '", "b BETWEEN ' and '", "c < ''"]
    """
    return rest.replace("' AND '", "' and '").split(" AND ")


@lru_cache(KNOWN)
def read_piece(part: str) -> Piece | None:
    """The predicate that a part is, if it is a plain one: one term, of numbers, strings and booleans."""
    piece = read_whole(part)
    if piece is None or len(piece.shape.conjunctions) != 1 or len(piece.shape.conjunctions[0]) != 1:
        return None
    term = piece.shape.conjunctions[0][0]
    return None if term.kind == "prefix" or (term.kind == "required" and len(term.operands) > 1) else piece


def read_whole(rest: str) -> Piece | None:
    """What a text without its literals is, if it has a columnar form whose literals are numbers and strings."""
    if "'''" in rest:
        return None
    try:
        template = parse_template(_marks.sub(lambda mark: mark[0] if len(mark[0]) == 2 else "5", rest))
    except WhimbrelError:
        return None
    shape = columnar_shape(template)
    if shape is None or "timestamp" in shape.slot_types:
        return None
    negative = tuple(FIRST_NUMBER - slot in template.negatives for slot in range(template.numbers))
    return Piece(shape, len(template.strings), negative)


class _Known(dict[str, int]):
    """The number of each part among `pieces`, or -1 if it is not plain; read when it is first asked for."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.attributes: list[str] = []

    def __missing__(self, part: str) -> int:
        piece = read_piece(part)
        code = -1 if piece is None else len(self.pieces)
        if piece is not None:
            self.pieces.append(piece)
            self.attributes.append(piece.shape.conjunctions[0][0].attribute)
        self[part] = code
        return code


class PieceRows:
    """Rows whose texts are conjunctions of plain predicates, one after the other, as long as they are being gathered.

    >>> gathered = PieceRows()
    >>> gathered.add("a = ' AND b < '", [7], [], ["1", "2"]), gathered.add("a = ' OR b < '", [8], [], ["1", "2"])
    (True, False)
    >>> [
    ...     (piece.shape.conjunctions[0][0].attribute, places.tolist(), columns)
    ...     for piece, places, columns in gathered.columns()
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
        codes = [known[part] for part in pieces_of(rest)]
        if -1 in codes or len(codes) > MOST or _has_odd(numbers):
            return False
        if len({known.attributes[code] for code in codes}) < len(codes):
            return False  # two constraints on one attribute become one, which is not a matter of parts
        self.rows += rows
        self.counts += [len(codes)] * len(rows)
        self._codes += codes * len(rows)
        self._strings += strings
        self._numbers += numbers
        return True

    def columns(self) -> Iterator[tuple[Piece, Int64s, tuple[Column, ...]]]:
        """Each predicate, its places among the predicates of all rows, and its literals by slot."""
        codes = np.array(self._codes, np.int64)
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=len(self._known.pieces)))
        strings = np.empty(len(self._strings), object)
        strings[:] = self._strings
        numbers = np.asarray(numbers_column(self._numbers, False) if self._numbers else np.empty(0, np.int64))
        first_string = _starts(codes, [piece.strings for piece in self._known.pieces])
        first_number = _starts(codes, [len(piece.negative) for piece in self._known.pieces])
        begin = 0
        for piece, end in zip(self._known.pieces, ends.tolist(), strict=True):
            places = order[begin:end]
            begin = end
            columns: list[Column] = [strings[first_string[places] + slot].tolist() for slot in range(piece.strings)]
            for slot, negative in enumerate(piece.negative):
                columns.append(_signed(numbers[first_number[places] + slot], negative))
            if len(places):
                yield piece, places, tuple(columns)


def _has_odd(numbers: Sequence[str]) -> bool:
    """Whether some number may not be exact as an int64 or a binary64, which all of a column are."""
    if not numbers:
        return False
    together = "".join(numbers)
    return len(max(numbers, key=len)) > 15 or not (together.isdigit() or _exponent(together) is None)


def _starts(codes: Int64s, sizes: Sequence[int]) -> Int64s:
    """Where the literals of each predicate start among those of all."""
    counts = np.array(sizes, np.int64)[codes] if len(codes) else codes
    starts: Int64s = np.cumsum(counts) - counts
    return starts


def _signed(column: np.ndarray, negative: bool) -> np.ndarray:
    if column.dtype == np.float64 and (column == np.floor(column)).all():
        column = column.astype(np.int64)
    return 0 - column if negative else column
