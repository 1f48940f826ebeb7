"""Bulk loads without a Python object per text: compiled loops cut predicates and literals out of the bytes.

Each different predicate is given to the parser once, and the literals of its uses become columns. Texts with a
predicate or a literal that has no columnar form are left to the caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from whimbrel.compiled.helpers import hash_of_bytes, shared
from whimbrel.compiled.jit import kernel
from whimbrel.language.columnar.terms import (
    Column,
    Conjunctions,
    DictionaryStrings,
    Int64s,
    ParsedMany,
    Term,
    TermGroup,
    large_texts,
)
from whimbrel.language.sql.leaves import Leaf, read_leaf
from whimbrel.language.sql.pattern_texts import PatternReader
from whimbrel.language.sql.scan_kernels import ScannedTexts, TextBytes, scan_texts
from whimbrel.language.sql.token_kernels import NO_INTEGER, SkeletonPool
from whimbrel.model.expression import Comparison
from whimbrel.model.values import Timestamp

LONGEST = 1 << 16
"""Bytes of a text, at most; a longer one is left to the parser."""
SKELETONS = 1 << 15
"""Different skeletons of one scan, at most; a text with one more is left to the parser."""
SKELETON_BYTES = 1 << 22
"""Bytes of all of them."""

Mask: TypeAlias = np.ndarray
_COMPARED: dict[Comparison, np.ufunc] = {
    "=": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
_DATE_LENGTH = 10
_EXACT = 1 << 53
"""Integers up to which binary64 holds all of them."""


def scan_columns(texts: pa.LargeStringArray) -> tuple[ParsedMany, Int64s]:
    """The columnar form of the texts that have one, and the rows of the others. The texts are valid UTF-8, no nulls.

    >>> texts = pa.array(["a = 5 and b<'x'", "b < 'y' OR a = 6", "a ="], pa.large_string())
    >>> parsed, left = scan_columns(texts)
    >>> parsed.conjunctions[0].rows, left
    (array([0, 1, 1]), array([2]))
    >>> [(group.places, list(map(str, group.columns[0]))) for group in parsed.conjunctions[0].groups]
    [(array([0, 3]), ['5', '6']), (array([1, 2]), ['x', 'y'])]
    """
    parsed = ParsedMany(len(texts))
    source = _bytes_of(texts)
    scanned, skeletons, counts, uses = _scanned(source)
    row_of = np.repeat(np.arange(len(texts)), scanned.leaves)
    is_left = scanned.leaves == 0
    groups: list[TermGroup] = []
    for group, places in _groups(scanned, skeletons):
        is_left[row_of[places]] = True
        if group is not None:
            groups.append(group)
    rows = np.repeat(np.arange(len(texts)), scanned.conjunctions)
    found = Conjunctions(rows, counts, uses, len(row_of), tuple(groups)).only(~is_left)
    if len(found.rows):
        parsed.conjunctions.append(found)
    return parsed, np.flatnonzero(is_left)


class CutTexts(NamedTuple):
    """What the loops found, without unused space. `has_wide`: some integer is beyond 2^53."""

    leaves: np.ndarray
    conjunctions: np.ndarray
    code: np.ndarray
    first_number: np.ndarray
    first_string: np.ndarray
    length: np.ndarray
    numbers: np.ndarray
    integers: np.ndarray
    has_wide: bool
    string_start: np.ndarray
    string_bytes: np.ndarray


def _scanned(source: TextBytes) -> tuple[CutTexts, list[str], np.ndarray, np.ndarray]:
    """What the loops found, cut to size: the skeletons, the leaves of each conjunction, and those of all."""
    rows = source.offsets.size - 1
    size = int(source.offsets[-1] - source.offsets[0])
    leaves, literals = size // 4 + rows + 1, size // 2 + rows + 2
    pool = SkeletonPool(
        np.empty(SKELETON_BYTES, np.uint8), np.zeros(SKELETONS + 1, np.int64), np.zeros(4 * SKELETONS, np.int32)
    )
    out = ScannedTexts(
        leaves=np.empty(rows, np.int32),
        conjunctions=np.empty(rows, np.int32),
        code=np.empty(leaves, np.int32),
        first_number=np.empty(leaves, np.int32),
        first_string=np.empty(leaves, np.int32),
        length=np.empty(leaves, np.int32),
        numbers=np.empty(literals),
        integers=np.empty(literals, np.int64),
        long_number=np.empty(literals, np.int64),
        long_begin=np.empty(literals, np.int64),
        long_end=np.empty(literals, np.int64),
        string_start=np.empty(literals, np.int64),
        string_bytes=np.empty(size + 8, np.uint8),
    )
    leaf, number, long, string, known, counts, uses = scan_texts(source, LONGEST, pool, out)
    if long:
        place = np.abs(out.long_number[:long]) - 1
        begin, end = out.long_begin[:long], out.long_end[:long]
        values = np.array(
            [float(source.data[b:e].tobytes()) for b, e in zip(begin.tolist(), end.tolist(), strict=True)]
        )
        values = np.where(out.long_number[:long] < 0, 0.0 - values, values)
        out.numbers[place] = values
        is_whole = (np.abs(values) < _EXACT) & (np.floor(values) == values)
        out.integers[place] = np.where(is_whole, values, 0.0).astype(np.int64)
        out.integers[place[~is_whole]] = NO_INTEGER
    skeletons = [pool.data[pool.starts[c] : pool.starts[c + 1]].tobytes().decode() for c in range(known)]
    cut = CutTexts(
        leaves=out.leaves,
        conjunctions=out.conjunctions,
        code=out.code[:leaf],
        first_number=out.first_number[:leaf],
        first_string=out.first_string[:leaf],
        length=out.length[:leaf],
        numbers=out.numbers,
        integers=out.integers,
        has_wide=bool(_are_wide(out.integers[:number]).any()),
        string_start=out.string_start[: string + 1],
        string_bytes=out.string_bytes,
    )
    return cut, skeletons, counts, uses


def _groups(scanned: CutTexts, skeletons: list[str]) -> Iterator[tuple[TermGroup | None, Int64s]]:
    """Each leaf with its uses, and the places of uses that must be left to the parser."""
    strings = _numbered(scanned.string_start, scanned.string_bytes)
    order = np.argsort(scanned.code, kind="stable")
    ends = np.cumsum(np.bincount(scanned.code, minlength=2 * len(skeletons))).tolist()
    for code, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        if begin == end:
            continue
        places = order[begin:end]
        leaf = read_leaf(skeletons[code >> 1], bool(code & 1))
        if leaf is None:
            yield None, places
            continue
        lengths = scanned.length[places].astype(np.int64)
        if not leaf.is_list and (lengths > 1).any():
            yield None, places[lengths > 1]
            places, lengths = places[lengths == 1], lengths[lengths == 1]
        is_wide, is_left = _wide_uses(leaf, places, lengths, scanned)
        for own in (~is_wide, is_wide & ~is_left):
            if own.any():
                yield from _finished(leaf, _group(leaf, places[own], lengths[own], scanned, strings))
        yield None, places[is_wide & is_left]


def _wide_uses(leaf: Leaf, places: Int64s, lengths: Int64s, scanned: CutTexts) -> tuple[Mask, Mask]:
    """Which uses have integers that binary64 may not hold, and which have numbers that are no integers."""
    is_wide, is_other = np.zeros((2, len(places)), bool)
    if scanned.has_wide and leaf.negative:
        use = np.repeat(np.arange(len(places)), lengths)
        within = np.arange(len(use)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        for slot in range(len(leaf.negative)):
            integers = scanned.integers[scanned.first_number[places][use] + within + slot]
            is_wide[use[_are_wide(integers)]] = True
            is_other[use[integers == NO_INTEGER]] = True
    return is_wide, is_other


def _are_wide(integers: Int64s) -> Mask:
    mask: Mask = (integers > _EXACT) | ((integers < -_EXACT) & (integers != NO_INTEGER))
    return mask


def _group(leaf: Leaf, places: Int64s, lengths: Int64s, scanned: CutTexts, strings: DictionaryStrings) -> TermGroup:
    """The uses of a leaf with their literals."""
    first_string, first_number = scanned.first_string[places], scanned.first_number[places]
    is_list = leaf.is_list and bool(leaf.types) and bool((lengths > 1).any())
    if is_list:
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        first_string, first_number = (np.repeat(first, lengths) + within for first in (first_string, first_number))
    columns: list[Column] = [
        DictionaryStrings(strings.codes[first_string + slot], strings.vocabulary) for slot in range(leaf.strings)
    ]
    for slot, negative in enumerate(leaf.negative):
        column = scanned.integers[first_number + slot]
        if (column == NO_INTEGER).any():
            column = scanned.numbers[first_number + slot]
        columns.append(0 - column if negative else column)
    return TermGroup(leaf.term, leaf.types, places, tuple(columns), lengths if is_list else None)


def _finished(leaf: Leaf, group: TermGroup) -> Iterator[tuple[TermGroup | None, Int64s]]:
    """The group with its timestamps and patterns read, each different one once; and the places of bad ones."""
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
        holds: Mask = _COMPARED[leaf.folded](*group.columns)
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
        yield from _read_patterns(group, leaf.reader)


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


def _timestamps(column: DictionaryStrings, are_dates: bool) -> tuple[Int64s, Mask]:
    """The instants of a column in nanoseconds, and which of the texts are none, or none that fits."""
    texts, place = column.distinct()
    found = np.zeros(len(texts), np.int64)
    bad = np.zeros(len(texts), bool)
    for number, text in enumerate(texts):
        try:
            found[number] = Timestamp.parse(text).nanoseconds
        except (ValueError, OverflowError):
            bad[number] = True
        bad[number] |= are_dates and len(text) != _DATE_LENGTH
    return found[place], bad[place]


def _numbered(start: np.ndarray, data: np.ndarray) -> DictionaryStrings:
    """Strings, dictionary-encoded."""
    count = len(start) - 1
    codes, first = np.empty(count, np.int32), np.empty(count, np.int64)
    table = np.zeros(1 << max(4, (2 * count).bit_length()), np.int32)
    first = first[: _number_strings(start, data, table, codes, first)]
    every = pa.LargeStringArray.from_buffers(count, pa.py_buffer(start), pa.py_buffer(data))
    return DictionaryStrings(
        codes, every.take(pa.Array.from_buffers(pa.int64(), len(first), [None, pa.py_buffer(first)]))
    )


@kernel
def _number_strings(
    start: np.ndarray, data: np.ndarray, table: np.ndarray, codes: np.ndarray, first: np.ndarray
) -> int:  # pragma: no cover
    """Number strings, equal ones alike, and return how many different ones there are.

    Writes the number of each string to `codes`, and the first string of each number to `first`. The table is all zeros
    and at least twice as large as the number of strings.
    """
    mask = table.size - 1
    known = 0
    for i in range(start.size - 1):
        begin, size = start[i], start[i + 1] - start[i]
        slot = hash_of_bytes(data, begin, begin + size) & mask
        code = np.int64(-1)
        while table[slot] != 0:
            other = first[table[slot] - 1]
            if start[other + 1] - start[other] == size and shared(data, start[other], data, begin, size) == size:
                code = np.int64(table[slot] - 1)
                break
            slot = (slot + 1) & mask
        if code < 0:
            first[known] = i
            code = np.int64(known)
            known += 1
            table[slot] = known
        codes[i] = code
    return known


def _bytes_of(texts: pa.LargeStringArray) -> TextBytes:
    """The buffers of texts; both arrays are read-only, as the loops are compiled for."""
    _, offsets, data = texts.buffers()
    if not len(texts):
        return TextBytes(np.frombuffer(bytes(8), np.int64), np.frombuffer(b"", np.uint8))
    cuts = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return TextBytes(cuts, np.frombuffer(data or b"", np.uint8))
