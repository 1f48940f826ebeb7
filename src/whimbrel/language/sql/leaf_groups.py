"""Turns the leaves of scanned texts into groups of terms: each leaf with its uses, whose literals become columns.

Each distinct pattern and each distinct timestamp is read once. Uses without a term are left to the parser.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.compiled.jit import kernel
from whimbrel.language.columnar.terms import Column, DictionaryStrings, Operand, Term, TermGroup, large_texts
from whimbrel.language.sql.expansion_kernels import UseAlternatives
from whimbrel.language.sql.leaves import Leaf, LeafAlternatives, read_leaf
from whimbrel.language.sql.pattern_texts import PatternReader
from whimbrel.language.sql.template import fold
from whimbrel.language.sql.token_kernels import NO_INTEGER
from whimbrel.model.expression import Comparison
from whimbrel.model.values import Timestamp, Value, canonical_number

EXACT_FLOAT = 1 << 53
"""Binary64 holds every integer up to this one."""
BIG_INTEGER = np.int64(NO_INTEGER + 1)
"""Stands for an integer beyond 64 bits, which is in `CutTexts.exact`."""

Mask: TypeAlias = np.ndarray
_COMPARED: dict[Comparison, np.ufunc] = {
    "=": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
_DATE_LENGTH = 10
_FLOATS, _INTEGERS, _OBJECTS = range(3)
"""The kinds of column that hold the numbers of a use exactly."""


class CutTexts(NamedTuple):
    """The result of `scan_texts`, without unused space. `exact` has the integers beyond 64 bits by their places.

    `has_wide`: some integer is beyond 2^53.
    """

    leaves: np.ndarray
    conjunctions: np.ndarray
    code: np.ndarray
    first_number: np.ndarray
    first_string: np.ndarray
    length: np.ndarray
    numbers: np.ndarray
    integers: np.ndarray
    exact: dict[int, int | float]
    has_wide: bool
    strings: DictionaryStrings


class LeafGroups:
    """The groups of all leaves, the places of uses that are left to the parser, and the alternatives of other uses.

    Alternatives get new places, behind those of the texts; there are `size` places.
    """

    def __init__(self, scanned: CutTexts, skeletons: Sequence[str]) -> None:
        self._scanned = scanned
        self.size = len(scanned.code)
        self.groups: list[TermGroup] = []
        self.for_parser: list[Int64s] = []
        self.folded_lists: list[tuple[Int64s, Int64s]] = []  # uses of lower(a) IN (...), and how many members each has
        self._expanded: list[tuple[Int64s, Int64s]] = []  # the ones that the parser turns into an OR
        self._replaced: list[tuple[Int64s, Int64s]] = []  # uses, and how many alternatives each has
        self._lengths: list[Int64s] = []  # uses of each alternative
        self._single = None if scanned.length.max(initial=1) > 1 else np.ones(self.size, np.int64)
        counts = np.bincount(scanned.code)
        begin = np.cumsum(counts) - counts
        places = np.empty(self.size, np.int64)
        starts = begin.tolist()
        sort_uses(scanned.code, begin, places)
        for code in np.flatnonzero(counts).tolist():
            self._add(read_leaf(skeletons[code >> 1], bool(code & 1)), places[starts[code] : begin[code]])

    def _add(self, leaf: Leaf | LeafAlternatives | None, places: Int64s) -> None:
        """Add the uses of one leaf."""
        if leaf is None:
            self.for_parser.append(places)
            return
        lengths = self._lengths_of(places)
        if isinstance(leaf, LeafAlternatives) or not (leaf.is_list or leaf.is_each):
            is_list = lengths > 1
            if is_list.any():
                self.for_parser.append(places[is_list])
                places, lengths = places[~is_list], lengths[~is_list]
        if isinstance(leaf, LeafAlternatives):
            self._add_alternatives(leaf, places)
        elif leaf.is_each and (lengths > 1).any():
            self._add_members(leaf, places, lengths)
        else:
            if leaf.reader is not None and leaf.is_list and (lengths > 1).any():
                self.folded_lists.append((places, lengths))
                if not leaf.term.negated:
                    self._expanded.append((places, lengths))
            self.groups += self._made(leaf, places, lengths)

    def _lengths_of(self, places: Int64s) -> Int64s:
        """How many members the list of each use has; 1 for a use without a list."""
        return self._scanned.length[places].astype(np.int64) if self._single is None else self._single[: len(places)]

    def _add_alternatives(self, leaf: LeafAlternatives, places: Int64s) -> None:
        count, first = len(places), self.size
        terms = [one for several in leaf.alternatives for one in several]
        for number, one in enumerate(terms):
            for group in self._made(one, places, np.ones(count, np.int64)):
                of_use = np.searchsorted(places, group.places)
                self.groups.append(replace(group, places=first + of_use * len(terms) + number))
        self.size += count * len(terms)
        self._replaced.append((places, np.full(count, len(leaf.alternatives))))
        self._lengths.append(np.tile([len(several) for several in leaf.alternatives], count))

    def _add_members(self, leaf: Leaf, places: Int64s, lengths: Int64s) -> None:
        """Add a list as alternatives: one for each of its members."""
        cells, first = int(lengths.sum()), self.size
        for group in self._made(replace(leaf, is_list=True), places, lengths):
            own = np.flatnonzero(np.repeat(np.isin(places, group.places), lengths))
            self.groups.append(replace(group, places=first + own, lengths=None))
        self.size += cells
        self._replaced.append((places, lengths))
        self._lengths.append(np.ones(cells, np.int64))

    def conjunctions(self) -> Int64s | None:
        """How many conjunctions the parser makes of each use; None if it makes one of each."""
        several = [*self._replaced, *self._expanded]
        if not several:
            return None
        numbers = np.ones(self.size, np.int64)
        for uses, number in several:
            numbers[uses] = number
        return numbers

    def alternatives(self) -> UseAlternatives | None:
        """The alternatives that replace uses; None if there are none."""
        if not self._replaced:
            return None
        uses, numbers = (np.concatenate(parts) for parts in zip(*self._replaced, strict=True))
        first, number = np.zeros(self.size, np.int64), np.zeros(self.size, np.int64)
        number[uses], first[uses] = numbers, np.cumsum(numbers) - numbers
        start = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(self._lengths))])
        return UseAlternatives(first, number, start, np.arange(self.size - start[-1], self.size))

    def _made(self, leaf: Leaf, places: Int64s, lengths: Int64s) -> list[TermGroup]:
        """Make the groups of some uses of a leaf; add the uses for the parser to `for_parser`."""
        made: list[TermGroup] = []
        widths = _widths(leaf, places, lengths, self._scanned)
        for width in range(_OBJECTS + 1) if widths is not None else (_FLOATS,):
            own = slice(None) if widths is None else widths == width
            if len(places[own]):
                group = _group(leaf, places[own], lengths[own], self._scanned, width)
                for finished, left in _finished(leaf, group):
                    self.for_parser += [left] if len(left) else []
                    made += [finished] if finished is not None else []
        return made


@kernel
def sort_uses(code: Int32s, begin: Int64s, places: Int64s) -> None:
    """Write the places of the uses of each code one after the other, from `begin[code]` on, which becomes their end."""
    for i in range(code.size):
        places[begin[code[i]]] = i
        begin[code[i]] += 1


def _widths(leaf: Leaf, places: Int64s, lengths: Int64s, scanned: CutTexts) -> np.ndarray | None:
    """The kind of column that holds the numbers of each use exactly; None if floats hold all of them."""
    if not leaf.negative or not scanned.has_wide:
        return None
    is_wide, is_other, is_exact = np.zeros((3, len(places)), bool)
    use = np.repeat(np.arange(len(places)), lengths)
    first = _cells(scanned.first_number[places], lengths)
    for slot in range(len(leaf.negative)):
        integers = scanned.integers[first + slot]
        is_wide[use[(np.abs(integers) > EXACT_FLOAT) & (integers != NO_INTEGER)]] = True
        is_other[use[integers == NO_INTEGER]] = True
        is_exact[use[integers == BIG_INTEGER]] = True
    widths: np.ndarray = np.where(is_exact | (is_wide & is_other), _OBJECTS, np.where(is_wide, _INTEGERS, _FLOATS))
    return widths


def _cells(first: Int64s, lengths: Int64s) -> Int64s:
    """The places of the members of lists, one list after the other; `first` are those of the first members."""
    ends = np.cumsum(lengths)
    cells: Int64s = np.arange(ends[-1]) + np.repeat(first - (ends - lengths), lengths)
    return cells


@kernel
def has_wide(integers: Int64s) -> bool:
    """Whether binary64 may not hold some integer exactly."""
    found = False
    for integer in integers:
        found |= integer != NO_INTEGER and (integer > EXACT_FLOAT or integer < -EXACT_FLOAT)
    return found


def _group(leaf: Leaf, places: Int64s, lengths: Int64s, scanned: CutTexts, width: int) -> TermGroup:
    """The uses of a leaf with their literals."""
    is_list = leaf.is_list and bool(leaf.types) and bool(lengths.max() > 1)
    columns: list[Column] = []
    if leaf.strings:
        first, strings = scanned.first_string[places], scanned.strings
        first = _cells(first, lengths) if is_list else first
        columns += [DictionaryStrings(strings.codes[first + slot], strings.vocabulary) for slot in range(leaf.strings)]
    if leaf.negative:
        first = scanned.first_number[places]
        first = _cells(first, lengths) if is_list else first
        for slot, negative in enumerate(leaf.negative):
            column = _numbers(first + slot, scanned, width)
            columns.append(0 - column if negative else column)
    return TermGroup(leaf.term, leaf.types, places, tuple(columns), lengths if is_list else None)


def _numbers(at: Int64s, scanned: CutTexts, width: int) -> np.ndarray:
    """The numbers of some places, as a column that holds them exactly."""
    floats: np.ndarray = scanned.numbers
    if width == _FLOATS and scanned.integers[at[0]] == NO_INTEGER:
        return floats[at]
    integers: np.ndarray = scanned.integers[at]
    if width == _OBJECTS:
        column = np.empty(len(at), object)
        column[:] = [
            canonical_number(number) if integer == NO_INTEGER else scanned.exact.get(place, integer)
            for place, integer, number in zip(at.tolist(), integers.tolist(), scanned.numbers[at].tolist(), strict=True)
        ]  # fmt: skip
        return column
    if width == _FLOATS and (integers == NO_INTEGER).any():
        return floats[at]
    return integers


def _finished(leaf: Leaf, group: TermGroup) -> Iterator[tuple[TermGroup | None, Int64s]]:
    """Read the timestamps and patterns of a group, each distinct one once; yield groups and the places of bad ones."""
    if "timestamp" in leaf.types:
        columns, bad = list(group.columns), np.zeros(len(group.places), bool)
        for slot, kind in enumerate(leaf.types):
            column = columns[slot]
            if kind == "timestamp":
                assert isinstance(column, DictionaryStrings)
                columns[slot], is_bad = _timestamps(column, slot in leaf.dates)
                bad |= is_bad
        yield replace(group, columns=tuple(columns)).only(~bad), group.places[bad]
    elif leaf.folded is not None:
        holds = _folded(group, *leaf.folded)
        yield TermGroup(leaf.term, (), group.places[holds], ()), group.places[:0]
        yield TermGroup(Term("", "never"), (), group.places[~holds], ()), group.places[:0]
    elif leaf.reader is None:
        yield group, group.places[:0]
    elif leaf.has_escape:
        column, escapes = group.columns
        assert isinstance(column, DictionaryStrings) and isinstance(escapes, DictionaryStrings)
        alone = replace(group, types=group.types[:1], columns=(column,))
        known, number = escapes.distinct()
        for one, escape in enumerate(known):
            own = alone.only(number == one)
            if len(escape) > 1:
                yield None, group.places[number == one]
            elif own is not None:
                yield from _read_patterns(own, leaf.reader, escape)
    else:
        yield from _read_patterns(_with_pattern_only(group), leaf.reader)


def _folded(group: TermGroup, left: Operand, op: Comparison, right: Operand) -> Mask:
    """A mask of the uses for which a comparison of two literals holds."""
    slots = [operand.slot for operand in (left, right) if operand.slot is not None]
    if [group.types[slot] for slot in slots] == ["number", "number"]:
        holds: Mask = _COMPARED[op](*(group.columns[slot] for slot in slots))
        return holds
    one, two = (_literals(group, operand) for operand in (left, right))
    return np.array([fold(x, op, y) is True for x, y in zip(one, two, strict=True)], bool)


def _literals(group: TermGroup, operand: Operand) -> list[Value | None]:
    if operand.slot is None:
        return [operand.value] * len(group.places)
    column = group.columns[operand.slot]
    return list(column) if isinstance(column, DictionaryStrings) else list(map(canonical_number, column.tolist()))


def _with_pattern_only(group: TermGroup) -> TermGroup:
    """The group without the literals of the predicate that are no part of its pattern, as in lower(a) IN ('x', 1)."""
    slot = group.term.operands[0].slot
    assert slot is not None
    term = replace(group.term, operands=(Operand(0),))
    return replace(group, term=term, types=(group.types[slot],), columns=(group.columns[slot],))


def _read_patterns(
    group: TermGroup, reader: PatternReader, escape: str = "\\"
) -> Iterator[tuple[TermGroup | None, Int64s]]:
    """A group for each kind of pattern, and the places that are left to the parser."""
    (column,) = group.columns
    assert isinstance(column, DictionaryStrings)
    texts, place = column.distinct()
    read = reader.read_all(texts, escape)
    kinds = sorted({kind or "" for kind, _ in read})
    known = replace(group, columns=(DictionaryStrings(place, large_texts([text for _, text in read])),))
    of_cell = np.array([kinds.index(kind or "") for kind, _ in read], np.int8)[place]
    if group.lengths is not None:  # a list has one kind of pattern
        begin = np.cumsum(group.lengths) - group.lengths
        lowest, highest = np.minimum.reduceat(of_cell, begin), np.maximum.reduceat(of_cell, begin)
        folded = kinds.index("ilike") if "ilike" in kinds else -1
        is_odd = (lowest != highest) | ((group.lengths > 1) & (highest != folded))
        yield None, group.places[is_odd]
        of_cell = np.where(is_odd, np.int8(-1), highest)
    for number, kind in enumerate(kinds):
        own = known.only(of_cell == number)
        if own is None:
            continue
        if kind == "":
            yield None, own.places
        elif kind == "never":
            term = Term(group.term.attribute, "excluded") if group.term.negated else Term("", "never")
            yield TermGroup(term, (), own.places, ()), own.places[:0]
        elif kind == "points" and group.term.negated:
            yield replace(own, term=replace(own.term, kind="excluded", negated=False)), own.places[:0]
        else:
            yield replace(own, term=replace(own.term, kind=kind)), own.places[:0]


def _timestamps(column: DictionaryStrings, are_dates: bool) -> tuple[np.ndarray, Mask]:
    """The timestamps of a column in nanoseconds, and a mask of the texts that are none."""
    texts, place = column.distinct()
    found = np.zeros(len(texts), object)
    bad = np.zeros(len(texts), bool)
    for number, text in enumerate(texts):
        try:
            found[number] = Timestamp.parse(text).nanoseconds
        except ValueError:
            bad[number] = True
        bad[number] |= are_dates and len(text) != _DATE_LENGTH
    with suppress(OverflowError):  # before 1677 or after 2262
        found = found.astype(np.int64)
    return found[place], bad[place]
