"""The columnar form of many filters: what bulk loads are made of, in any dialect.

A columnar shape is a filter whose literals are slots: an OR of conjunctions with one set of values per attribute, each
set given by its literals alone. Filters that differ in their literals only share a shape, and each slot has a column
with the literals of all of them. No filter objects are made. A filter that has no such form stays a filter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, overload, runtime_checkable

import numpy as np
import numpy.typing as npt

from whimbrel.model import dialects
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.expression import And, Compare, Contains, Expression, In, Not, Or, StartsWith
from whimbrel.model.filter import Filter
from whimbrel.model.values import Timestamp, Value, canonical_number

if TYPE_CHECKING:
    import pyarrow as pa

SlotType: TypeAlias = Literal["number", "string", "timestamp"]
Kind: TypeAlias = Literal["range", "points", "excluded", "required", "prefix"]
Int64s: TypeAlias = npt.NDArray[np.int64]
Numbers: TypeAlias = Int64s | npt.NDArray[np.float64] | list[int | float]
Column: TypeAlias = "Numbers | list[str] | DictionaryStrings"

EXACT_INTEGERS = 1 << 53
"""Integers up to this size are exact as binary64."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A literal of a term: the number of its slot, or the value of TRUE and FALSE, which are part of the shape."""

    slot: int | None
    value: bool | None = None

    def of(self, values: Sequence[Value]) -> Value:
        """The value of the literal, given the values of all slots."""
        if self.slot is not None:
            return values[self.slot]
        assert self.value is not None
        return self.value


@dataclass(frozen=True, slots=True)
class Term:
    """One attribute's constraint.

    `range`: between `lower` and `upper`, within the type of their slots; a lower above the upper is an empty range.
    `points`: one of the operands. `excluded`: none of them. `required`: the attribute has all of them as values.
    `prefix`: a string that starts with the operand.
    """

    attribute: str
    kind: Kind
    operands: tuple[Operand, ...] = ()
    lower: Operand | None = None
    lower_inclusive: bool = False
    upper: Operand | None = None
    upper_inclusive: bool = False

    def expression(self, values: Sequence[Value]) -> Expression:
        """The term as an expression, given the values of the slots."""
        if self.kind == "range":
            bounds: list[Expression] = []
            if self.lower is not None:
                bounds.append(Compare(self.attribute, ">=" if self.lower_inclusive else ">", self.lower.of(values)))
            if self.upper is not None:
                bounds.append(Compare(self.attribute, "<=" if self.upper_inclusive else "<", self.upper.of(values)))
            return And(tuple(bounds))
        literals = tuple(operand.of(values) for operand in self.operands)
        if self.kind == "required":
            return Contains(self.attribute, "ALL", literals)
        if self.kind == "prefix":
            assert isinstance(literals[0], str)
            return StartsWith(self.attribute, literals[0])
        points = In(self.attribute, literals)
        return Not(points) if self.kind == "excluded" else points


@dataclass(frozen=True, slots=True)
class ColumnarShape:
    """A columnar normal form: an OR of conjunctions, each with at most one term per attribute.

    The slots are the strings in the order of the text, then the numbers.
    """

    conjunctions: tuple[tuple[Term, ...], ...]
    slot_types: tuple[SlotType, ...]

    def expression(self, values: Sequence[Value]) -> Expression:
        """The expression with these literals in the slots."""
        return Or(tuple(And(tuple(term.expression(values) for term in terms)) for terms in self.conjunctions))


class DictionaryStrings(Sequence[str]):
    """A dictionary-encoded column: string i is `vocabulary[codes[i]]`. Columns may share a vocabulary.

    >>> import numpy as np, pyarrow as pa
    >>> list(DictionaryStrings(np.array([1, 0, 1]), pa.array(["toy", "book"])))
    ['book', 'toy', 'book']
    """

    __slots__ = ("codes", "vocabulary")

    def __init__(self, codes: npt.NDArray[np.int32], vocabulary: pa.Array) -> None:
        self.codes, self.vocabulary = codes, vocabulary

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> DictionaryStrings: ...
    def __getitem__(self, index: int | slice) -> str | DictionaryStrings:
        if isinstance(index, slice):
            return DictionaryStrings(self.codes[index], self.vocabulary)
        text: str = self.vocabulary[int(self.codes[index])].as_py()
        return text

    def __iter__(self) -> Iterator[str]:
        known = self.vocabulary.to_pylist()
        return (known[code] for code in self.codes.tolist())


def exact(values: Sequence[int | float]) -> Numbers:
    """Canonical numbers as an int64 array if all fit, else as a float64 array if all are exact, else as a list."""
    if all(isinstance(value, int) and -(1 << 63) <= value < 1 << 63 for value in values):
        return np.array(values, dtype=np.int64)
    if all(isinstance(value, float) or -EXACT_INTEGERS <= value <= EXACT_INTEGERS for value in values):
        return np.array(values, dtype=np.float64)
    return list(values)


def joined(parts: Sequence[Column]) -> Column:
    """One column of several parts."""
    if len(parts) == 1:
        return parts[0]
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    if len(arrays) == len(parts) and len({array.dtype for array in arrays}) == 1:
        column: Int64s = np.concatenate(arrays)
        return column
    items: list[Any] = [item for part in parts for item in (part.tolist() if isinstance(part, np.ndarray) else part)]
    return items if isinstance(items[0], str) else exact([canonical_number(item) for item in items])


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
