"""The columnar form of many filters: terms with their literals in columns.

A filter is an OR of conjunctions of terms. A term is a predicate of one attribute whose literals are slots. Filters
that have a predicate in common but for its literals share the term, and each slot has a column with the literals of all
of them. No filter objects are made. A filter with a predicate for which there is no term stays a filter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, overload, runtime_checkable

import numpy as np
import numpy.typing as npt

from whimbrel.model.errors import WhimbrelError
from whimbrel.model.expression import (
    And,
    Compare,
    CompareAttributes,
    Comparison,
    Constant,
    Contains,
    EndsWith,
    Expression,
    ILike,
    In,
    InCidr,
    IsMissing,
    IsNull,
    Like,
    Not,
    Or,
    RLike,
    StartsWith,
)
from whimbrel.model.filter import Filter
from whimbrel.model.patterns import plain_like
from whimbrel.model.values import Timestamp, Value, canonical_number

if TYPE_CHECKING:
    import pyarrow as pa

SlotType: TypeAlias = Literal["number", "string", "timestamp"]
Kind: TypeAlias = Literal[
    "range", "outside", "points", "excluded", "all", "any", "none", "null", "not null", "missing", "present",
    "prefix", "suffix", "substring", "network", "like", "ilike", "regex", "link", "always", "never",
]  # fmt: skip
Int64s: TypeAlias = npt.NDArray[np.int64]
Column: TypeAlias = "Int64s | npt.NDArray[np.float64] | DictionaryStrings"


@dataclass(frozen=True, slots=True)
class Operand:
    """A literal of a term: the number of its slot, or the value of TRUE and FALSE, which are part of the term."""

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
    """A predicate of one attribute.

    - `range`: between `lower` and `upper`, within the type of their slots. `outside`: of that type, not in the range.
    - `points`: one of the operands. `excluded`: any other value.
    - `all`, `any`, `none`: all, some or none of the operands are values of the attribute.
    - `null`, `not null`, `missing`, `present`: IS NULL, IS NOT NULL, IS MISSING, IS NOT MISSING.
    - `prefix`, `suffix`, `substring`, `network`, `like`, `ilike`, `regex`: a string with the operand in that place, an
      address of the network, a string that matches the pattern, or one of a list of patterns; any other value if
      `negated`.
    - `link`: it compares with the attribute `other` as `op` says.
    - `always` and `never`: TRUE, and FALSE or NULL.
    """

    attribute: str
    kind: Kind
    operands: tuple[Operand, ...] = ()
    lower: Operand | None = None
    lower_inclusive: bool = False
    upper: Operand | None = None
    upper_inclusive: bool = False
    negated: bool = False
    other: str = ""
    op: Comparison = "="

    def expression(self, values: Sequence[Value]) -> Expression:
        """The term as an expression, given the values of the slots, or of all members if it has a list."""
        name, kind = self.attribute, self.kind
        if kind in ("range", "outside"):
            return self._range(values)
        if kind in ("always", "never"):
            return Constant(kind == "always")
        if kind in ("null", "not null", "missing", "present"):
            state = IsNull(name) if "null" in kind else IsMissing(name)
            return Not(state) if kind in ("not null", "present") else state
        if kind == "link":
            return CompareAttributes(name, self.op, self.other)
        literals = tuple(operand.of(values) for operand in self.operands)
        if len(self.operands) == 1 and self.operands[0].slot is not None:
            literals = tuple(values)
        if kind in ("points", "excluded"):
            return Not(In(name, literals)) if kind == "excluded" else In(name, literals)
        if kind == "all":
            return Contains(name, "ALL", literals)
        if kind in ("any", "none"):
            return Contains(name, "ANY" if kind == "any" else "NONE", literals)
        tests = tuple(_TESTS[kind](name, str(text)) for text in literals)
        test = tests[0] if len(tests) == 1 else Or(tests)
        return Not(test) if self.negated else test

    def _range(self, values: Sequence[Value]) -> Expression:
        bounds: list[Expression] = []
        if self.lower is not None:
            bounds.append(Compare(self.attribute, ">=" if self.lower_inclusive else ">", self.lower.of(values)))
        if self.upper is not None:
            bounds.append(Compare(self.attribute, "<=" if self.upper_inclusive else "<", self.upper.of(values)))
        return Not(And(tuple(bounds))) if self.kind == "outside" else And(tuple(bounds))


_TESTS: dict[str, Callable[[str, str], Expression]] = {
    "prefix": StartsWith,
    "suffix": EndsWith,
    "substring": lambda name, text: Like(name, f"%{plain_like(text)}%"),
    "network": InCidr,
    "like": Like,
    "ilike": ILike,
    "regex": RLike,
}


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
    def __getitem__(self, index: slice | npt.NDArray[np.bool_]) -> DictionaryStrings: ...
    def __getitem__(self, index: int | slice | npt.NDArray[np.bool_]) -> str | DictionaryStrings:
        if isinstance(index, slice | np.ndarray):
            return DictionaryStrings(self.codes[index], self.vocabulary)
        text: str = self.vocabulary[int(self.codes[index])].as_py()
        return text

    def __iter__(self) -> Iterator[str]:
        known = self.vocabulary.to_pylist()
        return (known[code] for code in self.codes.tolist())

    def distinct(self) -> tuple[list[str], npt.NDArray[np.int32]]:
        """The different strings, and for each string its place among them."""
        used, places = np.unique(self.codes, return_inverse=True)
        return self.vocabulary.take(used).to_pylist(), places.astype(np.int32)


@dataclass(frozen=True, slots=True)
class TermGroup:
    """A term and its uses: use i is number `places[i]` of all uses, and `columns[slot][i]` is the literal of each slot.

    With `lengths` the term has one slot, a member of a list, and use i has the next `lengths[i]` cells of its column. A
    column of numbers is int64 if all of them are integers, else float64, and then all are below 2^53; strings are
    dictionary-encoded; timestamps are int64 nanoseconds.
    """

    term: Term
    types: tuple[SlotType, ...]
    places: Int64s
    columns: tuple[Column, ...]
    lengths: Int64s | None = None

    def only(self, mask: npt.NDArray[np.bool_]) -> TermGroup | None:
        """Some of the uses, or None if there are none."""
        if mask.all():
            return self
        if not mask.any():
            return None
        cells = mask if self.lengths is None else np.repeat(mask, self.lengths)
        lengths = None if self.lengths is None else self.lengths[mask]
        columns: tuple[Column, ...] = tuple(column[cells] for column in self.columns)
        return TermGroup(self.term, self.types, self.places[mask], columns, lengths)

    def expressions(self) -> Iterator[Expression]:
        """The expression of each use."""
        columns = [self._values(column, kind) for column, kind in zip(self.columns, self.types, strict=True)]
        at = 0
        for use in range(len(self.places)):
            if self.lengths is None:
                yield self.term.expression([column[use] for column in columns])
            else:
                yield self.term.expression(columns[0][at : at + int(self.lengths[use])])
                at += int(self.lengths[use])

    def _values(self, column: Column, kind: SlotType) -> list[Value]:
        if isinstance(column, DictionaryStrings):
            return list(column)
        if kind == "timestamp":
            return [Timestamp(nanoseconds) for nanoseconds in column.tolist()]
        return [canonical_number(number) for number in column.tolist()]


@dataclass(frozen=True, slots=True)
class Conjunctions:
    """Conjunctions of terms: conjunction i belongs to row `rows[i]` and has the next `counts[i]` of all `uses`.

    A row may have several conjunctions, which follow one another; a use, given by its place, may be in several of them.
    """

    rows: Int64s
    counts: npt.NDArray[np.int32]
    uses: npt.NDArray[np.int32]
    size: int
    """Places of uses; some may be in no group and in no conjunction."""
    groups: tuple[TermGroup, ...]

    def only(self, is_kept: npt.NDArray[np.bool_]) -> Conjunctions:
        """The conjunctions of some rows, given as a mask, and the uses that they have."""
        kept = is_kept[self.rows]
        if kept.all():
            return self
        uses = self.uses[np.repeat(kept, self.counts)]
        is_used = np.zeros(self.size, np.bool_)
        is_used[uses] = True
        groups = [part for group in self.groups if (part := group.only(is_used[group.places])) is not None]
        return Conjunctions(self.rows[kept], self.counts[kept], uses, self.size, tuple(groups))

    def filters(self) -> dict[int, Filter]:
        """The filters by row, for callers that need objects."""
        terms: dict[int, Expression] = {}
        for group in self.groups:
            terms.update(zip(group.places.tolist(), group.expressions(), strict=True))
        found: dict[int, list[Expression]] = {}
        at = 0
        for row, count in zip(self.rows.tolist(), self.counts.tolist(), strict=True):
            found.setdefault(row, []).append(And(tuple(terms[use] for use in self.uses[at : at + count].tolist())))
            at += count
        return {row: Filter(Or(tuple(conjunctions))) for row, conjunctions in found.items()}


@dataclass(slots=True)
class ParsedMany:
    """What `count` texts became: every row is in conjunctions, a filter or an error."""

    count: int
    conjunctions: list[Conjunctions] = field(default_factory=list)
    filters: dict[int, Filter] = field(default_factory=dict)
    errors: list[tuple[int, WhimbrelError]] = field(default_factory=list)

    def take(self, part: ParsedMany, rows: Int64s) -> None:
        """Add the results of some of the texts: row r of the part is row `rows[r]` here."""
        self.conjunctions += [replace(one, rows=rows[one.rows]) for one in part.conjunctions]
        self.filters |= {int(rows[row]): filter for row, filter in part.filters.items()}
        self.errors += [(int(rows[row]), error) for row, error in part.errors]
        self.errors.sort(key=itemgetter(0))


@runtime_checkable
class Columnar(Protocol):
    """A dialect that turns many texts into columns at once. Bulk loads of other dialects parse text by text."""

    def scan_columns(self, texts: pa.LargeStringArray) -> tuple[ParsedMany, Int64s]:
        """Parse the texts that compiled loops understand; return them and the rows of the other texts.

        The texts are valid UTF-8 without nulls. The call releases the GIL, so that several threads may scan.
        """

    def is_scan_compiled(self) -> bool:
        """Whether the compiled loops are ready, so that a scan of a few hundred texts pays."""


def large_texts(texts: Sequence[str]) -> pa.LargeStringArray:
    """Texts as an array; TypeError or UnicodeEncodeError if one is no text. `pyarrow.array` would import pandas."""
    import pyarrow as pa

    data = "".join(texts).encode()
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    if len(data) != lengths.sum():  # not all of them are ASCII
        lengths = np.fromiter((len(text.encode()) for text in texts), np.int64, len(texts))
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return pa.LargeStringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(data))
