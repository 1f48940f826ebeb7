"""Many SQL texts to a columnar normal form: shapes and columns of literals, with no filter objects.

Texts are grouped by what is left of them without their literals, in one pass; each shape is parsed once, and each
slot's literals are converted in bulk. What has no columnar form comes back as filters, what is bad as errors:
every row is in exactly one of the three. Who can take conjunctions apart may ask for pieces too: then rows whose
shape is rare come as predicates that many of them share.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from whimbrel.language.sql.columnar_shapes import Operand, Shape, Term, columnar_shape
from whimbrel.language.sql.columns import Column, Int64s, joined, numbers_column, strings_column, timestamps_column
from whimbrel.language.sql.dialect import SQL
from whimbrel.language.sql.lexer import check_text
from whimbrel.language.sql.pieces import PieceRows
from whimbrel.language.sql.shapes import cut
from whimbrel.language.sql.template import FIRST_NUMBER, Template
from whimbrel.model import dialects
from whimbrel.model.errors import LimitExceeded, WhimbrelError
from whimbrel.model.expression import And, Expression
from whimbrel.model.filter import Filter
from whimbrel.model.values import Timestamp, Value, canonical_number

__all__ = ["Conjunctions", "Operand", "ParsedMany", "Shape", "ShapeGroup", "Term", "parse_many"]

CHUNK = 1 << 16
"""Rows whose literals are held as text at one time: enough for long columns, little enough for memory."""
RARE = 8
"""Rows of a chunk below which a shape is taken apart into predicates, if that is asked for."""


@dataclass(frozen=True, slots=True)
class ShapeGroup:
    """The rows of one shape: text `rows[i]` has `columns[slot][i]` as the literal of each slot.

    A column of numbers is int64 if all are such integers, else float64 if every number is exactly one, else a list;
    a column of strings is a list or `Words`; a column of timestamps is int64 nanoseconds, or a list if they do not fit.
    """

    shape: Shape
    rows: Int64s
    columns: tuple[Column, ...]

    def filter(self, index: int) -> Filter:
        """The filter of row `rows[index]`, for whoever needs one after all."""
        values: list[Value] = []
        for column, kind in zip(self.columns, self.shape.slot_types, strict=True):
            cell = column[index]
            value: Value = cell.item() if isinstance(cell, np.generic) else cell
            if isinstance(value, int | float):
                value = Timestamp(int(value)) if kind == "timestamp" else canonical_number(value)
            values.append(value)
        return Filter(self.shape.expression(values))


@dataclass(frozen=True, slots=True)
class Conjunctions:
    """Rows that are one conjunction each, of different shapes: row `rows[i]` has the next `counts[i]` of all terms.

    The terms come grouped by predicate: a group has one term, and its `rows` are places among all terms. No
    conjunction has two terms on one attribute.
    """

    rows: Int64s
    counts: Int64s
    groups: tuple[ShapeGroup, ...]

    def filters(self) -> dict[int, Filter]:
        """The filters by row, for whoever needs them after all."""
        terms: dict[int, Expression] = {}
        for group in self.groups:
            terms |= {place: group.filter(index).expression for index, place in enumerate(group.rows.tolist())}
        ends = np.cumsum(self.counts).tolist()
        starts = [0, *ends[:-1]]
        return {
            row: Filter(And(tuple(terms[place] for place in range(start, end))))
            for row, start, end in zip(self.rows.tolist(), starts, ends, strict=True)
        }


@dataclass(slots=True)
class ParsedMany:
    """What became of `count` texts: groups of rows by shape, conjunctions if asked for, filters and errors by row."""

    count: int
    groups: list[ShapeGroup] = field(default_factory=list)
    conjunctions: list[Conjunctions] = field(default_factory=list)
    filters: dict[int, Filter] = field(default_factory=dict)
    errors: list[tuple[int, WhimbrelError]] = field(default_factory=list)

    def take(self, part: ParsedMany, rows: Int64s) -> None:
        """Take in what became of some of the texts: row r of the part is rows[r]."""
        self.groups += [replace(group, rows=rows[group.rows]) for group in part.groups]
        self.conjunctions += [replace(one, rows=rows[one.rows]) for one in part.conjunctions]
        self.filters |= {int(rows[row]): filter for row, filter in part.filters.items()}
        self.errors = sorted([*self.errors, *((int(rows[row]), error) for row, error in part.errors)], key=_row)


def _row(error: tuple[int, WhimbrelError]) -> int:
    return error[0]


def parse_many(texts: Iterable[str], dialect: str = "sql", pieces: bool = False) -> ParsedMany:
    """Parse many filters at once; with `pieces`, rare shapes that are conjunctions come as `Conjunctions`.

    >>> parsed = parse_many(["a = 1", "a = 2", "a = b", "a ="])
    >>> parsed.groups[0].rows, parsed.groups[0].columns
    (array([0, 1]), (array([1, 2]),))
    >>> parsed.filters, [row for row, _ in parsed.errors]
    ({2: Filter.parse('a = b')}, [3])
    """
    collector = _Collector(texts if isinstance(texts, Sequence) else list(texts))
    if dialects.get(dialect) is not SQL:
        collector.parse_each(range(len(collector.texts)), dialect)
    else:
        for start in range(0, len(collector.texts), CHUNK):
            collector.take_chunk(start, pieces)
    return collector.result()


@dataclass(slots=True)
class _Rows:
    """Row numbers, and the strings and numbers of their texts one after the other."""

    rows: list[int]
    strings: list[str]
    numbers: list[str]

    def each(self) -> Iterator[tuple[int, list[str], list[str]]]:
        """Row by row."""
        strings, numbers = len(self.strings) // len(self.rows), len(self.numbers) // len(self.rows)
        for index, row in enumerate(self.rows):
            start, first = index * strings, index * numbers
            yield row, self.strings[start : start + strings], self.numbers[first : first + numbers]


class _Collector:
    """What has been parsed so far."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self.shared: dict[str, str] = {}
        self.parsed = ParsedMany(len(texts))
        self.pending: dict[Shape, list[tuple[Int64s, tuple[Column, ...]]]] = {}

    def take_chunk(self, start: int, pieces: bool) -> None:
        """Files the rows of a chunk."""
        gathered = PieceRows()
        for rest, rows in self.by_shape(start).items():
            rare = pieces and isinstance(rest, str) and len(rows.rows) < RARE
            if not (rare and gathered.add(rest, rows.rows, rows.strings, rows.numbers)):  # type: ignore[arg-type]
                self.take(rows)
        if gathered.rows:
            groups = tuple(ShapeGroup(piece.shape, places, columns) for piece, places, columns in gathered.columns())
            rows_of, counts = np.array(gathered.rows, np.int64), np.array(gathered.counts, np.int64)
            self.parsed.conjunctions.append(Conjunctions(rows_of, counts, groups))

    def by_shape(self, start: int) -> dict[Hashable, _Rows]:
        """The rows of a chunk, together where the texts differ in literals only."""
        found: dict[Hashable, _Rows] = {}
        for row, text in enumerate(self.texts[start : start + CHUNK], start):
            try:
                check_text(text)
            except WhimbrelError as error:
                self.parsed.errors.append((row, error))
                continue
            rest, strings, numbers = cut(text)
            same = found.get(rest)
            if same is None:
                found[rest] = _Rows([row], strings, numbers)
            else:
                same.rows.append(row)
                same.strings += strings
                same.numbers += numbers
        return found

    def take(self, found: _Rows) -> None:
        """Files rows whose texts differ in literals only."""
        try:
            template, _ = SQL.shapes.template(self.texts[found.rows[0]])
        except WhimbrelError:
            self.parse_each(found.rows, "sql")
            return
        shape = columnar_shape(template)
        if shape is None or not self._file(template, shape, found):
            self._bind_each(template, shape, found)

    def _file(self, template: Template, shape: Shape, found: _Rows) -> bool:
        """Makes columns of the literals, unless one of them is bad."""
        columns: list[Column] = []
        try:
            for slot, kind in enumerate(template.strings):
                strings = found.strings[slot :: len(template.strings)]
                columns.append(
                    timestamps_column(strings) if kind == "timestamp" else strings_column(strings, self.shared)
                )
            for slot in range(template.numbers):
                numbers = found.numbers[slot :: template.numbers]
                columns.append(numbers_column(numbers, FIRST_NUMBER - slot in template.negatives))
        except (LimitExceeded, ValueError):
            return False
        self.pending.setdefault(shape, []).append((np.array(found.rows, dtype=np.int64), tuple(columns)))
        return True

    def _bind_each(self, template: Template, shape: Shape | None, found: _Rows) -> None:
        """Binds row by row: all that have no columnar form, and where a literal is bad those with good ones."""
        good = _Rows([], [], [])
        for row, strings, numbers in found.each():
            try:
                expression = template.bind(strings, numbers, self.texts[row])
            except WhimbrelError as error:
                self.parsed.errors.append((row, error))
                continue
            if shape is None:
                self.parsed.filters[row] = Filter(expression, self.texts[row], "sql")
            else:
                good.rows.append(row)
                good.strings += strings
                good.numbers += numbers
        if shape is not None and good.rows:
            self._file(template, shape, good)

    def parse_each(self, rows: Iterable[int], dialect: str) -> None:
        """Parses rows one by one."""
        for row in rows:
            try:
                self.parsed.filters[row] = Filter.parse(self.texts[row], dialect)
            except WhimbrelError as error:
                self.parsed.errors.append((row, error))

    def result(self) -> ParsedMany:
        """Everything, with the parts of each column joined."""
        for shape, parts in self.pending.items():
            columns = zip(*(columns for _, columns in parts), strict=True)
            rows = np.concatenate([rows for rows, _ in parts])
            self.parsed.groups.append(ShapeGroup(shape, rows, tuple(map(joined, columns))))
        self.parsed.errors.sort(key=_row)
        return self.parsed
