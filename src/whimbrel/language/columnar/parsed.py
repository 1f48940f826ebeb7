"""What many texts become: groups of rows of one shape, conjunctions of shared predicates, filters and errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from whimbrel.language.columnar.columns import Column, Int64s
from whimbrel.language.columnar.shapes import ColumnarShape
from whimbrel.model import dialects
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.expression import And, Expression
from whimbrel.model.filter import Filter
from whimbrel.model.values import Timestamp, Value, canonical_number

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ShapeGroup:
    """The rows of one shape: text `rows[i]` has `columns[slot][i]` as the literal of each slot.

    A column of numbers is int64 if all are such integers, else float64 if every number is exactly one, else a list;
    a column of strings is a list or `DictionaryStrings`; a column of timestamps is int64 nanoseconds, or a list if they
    do not fit.
    """

    shape: ColumnarShape
    rows: Int64s
    columns: tuple[Column, ...]

    def filter(self, index: int) -> Filter:
        """The filter of row `rows[index]`, for callers that need an object."""
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
    """Rows of different shapes that are one conjunction each: row `rows[i]` has the next `counts[i]` of all terms.

    The terms are grouped by predicate: a group has one term, and its `rows` are places among all terms. No conjunction
    has two terms on one attribute.
    """

    rows: Int64s
    counts: Int64s
    groups: tuple[ShapeGroup, ...]

    def filters(self) -> dict[int, Filter]:
        """The filters by row, for callers that need objects."""
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
    """What `count` texts became: every row is in a group, in a conjunction, a filter or an error."""

    count: int
    groups: list[ShapeGroup] = field(default_factory=list)
    conjunctions: list[Conjunctions] = field(default_factory=list)
    filters: dict[int, Filter] = field(default_factory=dict)
    errors: list[tuple[int, WhimbrelError]] = field(default_factory=list)

    def take(self, part: ParsedMany, rows: Int64s) -> None:
        """Add the results of some of the texts: row r of the part is row `rows[r]` here."""
        self.groups += [replace(group, rows=rows[group.rows]) for group in part.groups]
        self.conjunctions += [replace(one, rows=rows[one.rows]) for one in part.conjunctions]
        self.filters |= {int(rows[row]): filter for row, filter in part.filters.items()}
        self.errors += [(int(rows[row]), error) for row, error in part.errors]
        self.errors.sort(key=itemgetter(0))


@runtime_checkable
class Columnar(Protocol):
    """A dialect that turns many texts into columns at once. Bulk loads of other dialects parse text by text."""

    def parse_columns(self, texts: Sequence[str], split: bool = False) -> ParsedMany:
        """Parse every text, and name every error. With `split`, rare shapes may come as `Conjunctions`."""

    def scan_columns(self, texts: pa.LargeStringArray) -> tuple[ParsedMany, Int64s]:
        """Parse the texts that compiled loops understand; return them and the rows of the other texts.

        The texts are valid UTF-8 without nulls. The call releases the GIL, so that several threads may scan.
        """

    def is_scan_compiled(self) -> bool:
        """Whether the compiled loops are ready, so that a scan of a few hundred texts pays."""


def parse_many(texts: Iterable[str], dialect: str = "sql", split: bool = False) -> ParsedMany:
    """Parse many filters at once; with `split`, rare shapes that are conjunctions may come as `Conjunctions`.

    >>> parsed = parse_many(["a = 1", "a = 2", "a = b", "a ="])
    >>> parsed.groups[0].rows, parsed.groups[0].columns
    (array([0, 1]), (array([1, 2]),))
    >>> parsed.filters, [row for row, _ in parsed.errors]
    ({2: Filter.parse('a = b')}, [3])
    """
    listed = texts if isinstance(texts, Sequence) else list(texts)
    language = dialects.get(dialect)
    if isinstance(language, Columnar):
        return language.parse_columns(listed, split)
    parsed = ParsedMany(len(listed))
    for row, text in enumerate(listed):
        try:
            parsed.filters[row] = language.parse(text)
        except WhimbrelError as error:
            parsed.errors.append((row, error))
    return parsed
