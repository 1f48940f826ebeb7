"""The columnar form of many filters, in any dialect: terms with their literals in columns. Bulk loads are made of it.

A filter is an OR of conjunctions of terms. A term is a predicate of one attribute whose literals are slots. Filters
that have a predicate in common but for its literals share the term, and each slot has a column with the literals of all
of them. No filter objects are made. A filter with a predicate for which there is no term stays a filter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, overload, runtime_checkable

import numpy as np
import numpy.typing as npt

from whimbrel.compiled.array_types import Int64s
from whimbrel.model import dialects
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.expression import Comparison
from whimbrel.model.filter import Filter

if TYPE_CHECKING:
    import pyarrow as pa

SlotType: TypeAlias = Literal["number", "string", "timestamp"]
Kind: TypeAlias = Literal[
    "range", "outside", "points", "excluded", "all", "any", "none", "null", "not null", "missing", "present",
    "prefix", "suffix", "substring", "network", "like", "ilike", "regex", "link", "always", "never",
]  # fmt: skip
Texts: TypeAlias = "Sequence[str] | pa.Array"
Column: TypeAlias = "Int64s | npt.NDArray[np.float64] | npt.NDArray[np.object_] | DictionaryStrings"

SCANNED_FROM = 4_096
"""From so many texts on, compiled loops are worth compiling."""
READY_FROM = 64
"""From so many texts on, loops that are compiled already are worth using."""
CHUNK = 1 << 16
"""Texts that are scanned at a time: this bounds memory and gives progress."""
PARSED_AT_ONCE = 4_096
"""Texts that are parsed one by one between two messages of progress."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A literal of a term: the number of its slot, or TRUE, FALSE or NULL, which are part of the term."""

    slot: int | None
    value: bool | None = None


@dataclass(frozen=True, slots=True)
class Term:
    """A predicate of one attribute.

    - `range`: between `lower` and `upper`, within the type of their slots. `outside`: of that type, not in the range.
    - `points`: one of the operands. `excluded`: any other value.
    - `all`, `any`, `none`: all, at least one or none of the operands are values of the attribute.
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
    """A term and its uses: use i is number `places[i]` of all uses, and `columns[slot][i]` is its literal in a slot.

    With `lengths` the term has one slot, a member of a list, and use i has the next `lengths[i]` cells of the column. A
    column of numbers is int64, or float64 if all integers among them are below 2^53, or else has Python objects;
    strings are dictionary-encoded; timestamps are nanoseconds, int64 or Python objects.
    """

    term: Term
    types: tuple[SlotType, ...]
    places: Int64s
    columns: tuple[Column, ...]
    lengths: Int64s | None = None

    def only(self, mask: npt.NDArray[np.bool_]) -> TermGroup | None:
        """The group with some of its uses; None if there are none."""
        if mask.all():
            return self
        if not mask.any():
            return None
        cells = mask if self.lengths is None else np.repeat(mask, self.lengths)
        lengths = None if self.lengths is None else self.lengths[mask]
        columns: tuple[Column, ...] = tuple(column[cells] for column in self.columns)
        return TermGroup(self.term, self.types, self.places[mask], columns, lengths)


@dataclass(frozen=True, slots=True)
class Conjunctions:
    """Conjunctions of terms: conjunction i belongs to row `rows[i]` and has the next `counts[i]` of all `uses`.

    The conjunctions of a row are adjacent; several of them may have the same use, which is given by its place.
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


@dataclass(slots=True)
class ParsedMany:
    """The result of parsing `count` texts: every row has conjunctions, a filter or an error."""

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


def parse_many(
    texts: Texts, dialect: str = "sql", workers: int = 1, progress: Callable[[int], None] | None = None
) -> ParsedMany:
    """Parse many filters; `progress` is told how many are done, and finally all of them.

    >>> parsed = parse_many(["a = 1", "a = 2", "a ="])
    >>> len(parsed.filters), [row for row, _ in parsed.errors]
    (2, [2])
    """
    parsed, left = scan_many(texts, dialect, workers, progress)
    parse = dialects.get(dialect).parse
    rest = chosen(texts, left)
    for number, (row, text) in enumerate(zip(left.tolist(), rest, strict=True), 1):
        try:
            parsed.filters[row] = parse(text)
        except WhimbrelError as error:
            parsed.errors.append((row, error.with_traceback(None)))  # which would hold the parser, text by text
        if progress is not None and (number % PARSED_AT_ONCE == 0 or number == len(rest)):
            progress(len(texts) - len(rest) + number)
    return parsed


def scan_many(
    texts: Texts, dialect: str, workers: int = 1, progress: Callable[[int], None] | None = None
) -> tuple[ParsedMany, Int64s]:
    """Parse the texts that compiled loops understand; return them and the rows of the others, which are all if few."""
    parsed = ParsedMany(len(texts))
    language = dialects.get(dialect)
    column = _column(texts) if isinstance(language, Columnar) and _is_worth(len(texts), language) else None
    if column is None:
        return parsed, np.arange(len(texts))
    assert isinstance(language, Columnar)
    size = min(CHUNK, max(SCANNED_FROM, -(-len(texts) // workers)))
    starts = range(0, len(texts), size)
    lefts: list[Int64s] = []
    done = 0
    with ThreadPoolExecutor(workers) as pool:
        chunks = [column.slice(start, size) for start in starts]
        scanned = (pool.map if workers > 1 else map)(language.scan_columns, chunks)
        for start, (one, left) in zip(starts, scanned, strict=True):
            parsed.take(one, np.arange(start, start + one.count))
            lefts.append(start + left)
            done += one.count - len(left)
            if progress is not None and done:
                progress(done)
    return parsed, np.concatenate(lefts)


def _is_worth(count: int, language: Columnar) -> bool:
    return count >= SCANNED_FROM or (count >= READY_FROM and language.is_scan_compiled())


def chosen(texts: Texts, rows: Int64s) -> list[str]:
    """The texts of some rows."""
    if not isinstance(texts, Sequence):
        some = texts if len(rows) == len(texts) else [texts[row] for row in rows.tolist()]  # `take` imports pandas
        return [text.as_py() for text in some]
    return list(texts) if len(rows) == len(texts) else [texts[row] for row in rows.tolist()]


def _column(texts: Texts) -> pa.LargeStringArray | None:
    """The texts as Arrow strings; None if some are not text: the parser reports these."""
    import pyarrow as pa

    if isinstance(texts, Sequence):
        try:
            return large_texts(texts)
        except (TypeError, UnicodeEncodeError):  # no text, or lone surrogates
            return None
    if texts.null_count or not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        return None
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:  # not UTF-8
        return None
    return texts.cast(pa.large_string())


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
