"""Bulk loads without a Python object per text: compiled loops cut predicates and literals out of the bytes.

Each different predicate is given to the parser once, and the literals of its uses become columns. Texts with a
predicate or a literal that has no columnar form are left to the caller.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from whimbrel.language.columnar.terms import (
    Column,
    Conjunctions,
    DictionaryStrings,
    Int64s,
    Kind,
    ParsedMany,
    TermGroup,
    large_texts,
)
from whimbrel.language.sql.leaves import Leaf, read_leaf
from whimbrel.language.sql.numbering_kernels import SkeletonPool, number_strings
from whimbrel.language.sql.scan_kernels import ScannedTexts, TextBytes, scan_texts
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.limits import LIKE_BYTES, LIKE_WILDCARDS
from whimbrel.model.patterns import Cidr, Regex
from whimbrel.model.values import Timestamp

LONGEST = 1 << 16
"""Bytes of a text, at most; a longer one is left to the parser."""
SKELETONS = 1 << 15
"""Different skeletons of one scan, at most; a text with one more is left to the parser."""
SKELETON_BYTES = 1 << 22
"""Bytes of all of them."""

Mask: TypeAlias = np.ndarray
_DATE_LENGTH = 10
_SHORT = LIKE_BYTES.value // 4
"""Characters of a pattern that is surely short enough."""


def scan_columns(texts: pa.LargeStringArray) -> tuple[ParsedMany, Int64s]:
    """The columnar form of the texts that have one, and the rows of the others. The texts are valid UTF-8, no nulls.

    >>> texts = pa.array(["a = 5 and b<'x'", "b < 'y' OR a = 6", "a = b"], pa.large_string())
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


def _scanned(source: TextBytes) -> tuple[ScannedTexts, list[str], np.ndarray, np.ndarray]:
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
        long_number=np.empty(literals, np.int64),
        long_begin=np.empty(literals, np.int64),
        long_end=np.empty(literals, np.int64),
        string_start=np.empty(literals, np.int64),
        string_bytes=np.empty(size + 8, np.uint8),
    )
    leaf, _, long, string, known, counts, uses = scan_texts(source, LONGEST, pool, out)
    if long:
        place = np.abs(out.long_number[:long]) - 1
        begin, end = out.long_begin[:long], out.long_end[:long]
        values = np.array(
            [float(source.data[b:e].tobytes()) for b, e in zip(begin.tolist(), end.tolist(), strict=True)]
        )
        out.numbers[place] = np.where(out.long_number[:long] < 0, 0.0 - values, values)
    skeletons = [pool.data[pool.starts[c] : pool.starts[c + 1]].tobytes().decode() for c in range(known)]
    cut = out._replace(
        code=out.code[:leaf],
        first_number=out.first_number[:leaf],
        first_string=out.first_string[:leaf],
        length=out.length[:leaf],
        string_start=out.string_start[: string + 1],
    )
    return cut, skeletons, counts, uses


def _groups(scanned: ScannedTexts, skeletons: list[str]) -> Iterator[tuple[TermGroup | None, Int64s]]:
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
        yield from _finished(leaf, _group(leaf, places, lengths, scanned, strings))


def _group(leaf: Leaf, places: Int64s, lengths: Int64s, scanned: ScannedTexts, strings: DictionaryStrings) -> TermGroup:
    """The uses of a leaf with their literals."""
    first_string, first_number = scanned.first_string[places], scanned.first_number[places]
    is_list = leaf.is_list and bool((lengths > 1).any())
    if is_list:
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        first_string, first_number = (np.repeat(first, lengths) + within for first in (first_string, first_number))
    columns: list[Column] = [
        DictionaryStrings(strings.codes[first_string + slot], strings.vocabulary) for slot in range(leaf.strings)
    ]
    for slot, negative in enumerate(leaf.negative):
        columns.append(_narrow(scanned.numbers[first_number + slot], negative))
    return TermGroup(leaf.term, leaf.types, places, tuple(columns), lengths if is_list else None)


def _narrow(column: np.ndarray, negative: bool) -> np.ndarray:
    """Numbers, which are all below 2^53, as int64 if all of them are integers."""
    integers = column.astype(np.int64)
    column = integers if (integers == column).all() else column
    return 0 - column if negative else column


def _finished(leaf: Leaf, group: TermGroup) -> Iterator[tuple[TermGroup | None, Int64s]]:
    """The group with its timestamps, patterns and networks read, each different one once; and the bad places."""
    none = group.places[:0]
    if "timestamp" in leaf.types:
        columns, bad = list(group.columns), np.zeros(len(group.places), bool)
        for slot, kind in enumerate(leaf.types):
            column = columns[slot]
            if kind == "timestamp":
                assert isinstance(column, DictionaryStrings)
                columns[slot], is_bad = _timestamps(column, slot in leaf.dates)
                bad |= is_bad
        yield replace(group, columns=tuple(columns)).only(~bad), group.places[bad]
    elif leaf.term.kind in _READERS:
        (column,) = group.columns
        assert isinstance(column, DictionaryStrings)
        texts, place = column.distinct()
        read = [_READERS[leaf.term.kind](text) for text in texts]
        kinds = np.array([_TEXT_KINDS.index(kind) for kind, _ in read], np.int8)[place]
        vocabulary = large_texts([text for _, text in read])
        known = replace(group, columns=(DictionaryStrings(place, vocabulary),))
        for number, text_kind in enumerate(_TEXT_KINDS):
            mask = kinds == number
            if text_kind == "never":
                yield None, group.places[mask]
            elif mask.any():
                term = replace(leaf.term, kind=text_kind)
                if text_kind == "points" and term.negated:
                    term = replace(term, kind="excluded", negated=False)
                yield replace(known, term=term).only(mask), none
    else:
        yield group, none


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


_TEXT_KINDS: tuple[Kind, ...] = ("points", "prefix", "suffix", "substring", "network", "like", "regex", "never")
"""What a text after LIKE, STARTS WITH and so on can be; `never`: something for the parser."""
_WILDCARD = re.compile("[%_]")
_PART = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = re.compile(rf"{_PART}\.{_PART}\.{_PART}\.{_PART}/(3[0-2]|[12]?[0-9])").fullmatch


def _read_like(pattern: str) -> tuple[Kind, str]:
    """The kind and text of a pattern: what it is without wildcards, if those are at its ends only.

    Patterns with an escape, and those that may be beyond a limit or have nothing but wildcards, are for the parser.
    """
    text = pattern.strip("%")
    wildcards = pattern.count("%") + pattern.count("_")
    if not text or "\\" in pattern or len(pattern) > _SHORT or wildcards > LIKE_WILDCARDS.value:
        return "never", ""
    if "%" in text or "_" in text:
        head = _WILDCARD.split(pattern, 1)[0]
        return ("like", pattern) if not head or _read_prefix(head)[0] == "prefix" else ("never", "")
    if pattern[0] == "%":
        return ("substring" if pattern[-1] == "%" else "suffix"), text
    return _read_prefix(text) if pattern[-1] == "%" else ("points", text)


def _read_prefix(text: str) -> tuple[Kind, str]:
    """A prefix; `never` if it ends in the first or last character, or is empty, where its ends are no plain strings."""
    return ("never", "") if not text or text[-1] in "\0\U0010ffff" else ("prefix", text)


def _read_suffix(text: str) -> tuple[Kind, str]:
    return ("suffix", text) if text else ("never", "")


def _read_substring(text: str) -> tuple[Kind, str]:
    return ("substring", text) if text else ("never", "")


def _read_network(text: str) -> tuple[Kind, str]:
    """A network in its canonical form."""
    found = _IPV4(text)
    if found is not None:
        one, two, three, four, length = map(int, found.groups())
        if (one << 24 | two << 16 | three << 8 | four) & (0xFFFFFFFF >> length) == 0:
            return "network", text
    try:
        return "network", Cidr(text).network
    except WhimbrelError:
        return "never", ""


def _read_regex(text: str) -> tuple[Kind, str]:
    try:
        return "regex", Regex(text).regex
    except WhimbrelError:
        return "never", ""


_READERS = {
    "like": _read_like,
    "prefix": _read_prefix,
    "suffix": _read_suffix,
    "substring": _read_substring,
    "network": _read_network,
    "regex": _read_regex,
}


def _numbered(start: np.ndarray, data: np.ndarray) -> DictionaryStrings:
    """Strings, dictionary-encoded."""
    count = len(start) - 1
    codes, first = np.empty(count, np.int32), np.empty(count, np.int64)
    table = np.zeros(1 << max(4, (2 * count).bit_length()), np.int32)
    first = first[: number_strings(start, data, table, codes, first)]
    every = pa.LargeStringArray.from_buffers(count, pa.py_buffer(start), pa.py_buffer(data))
    return DictionaryStrings(
        codes, every.take(pa.Array.from_buffers(pa.int64(), len(first), [None, pa.py_buffer(first)]))
    )


def _bytes_of(texts: pa.LargeStringArray) -> TextBytes:
    """The buffers of texts; both arrays are read-only, as the loops are compiled for."""
    _, offsets, data = texts.buffers()
    if not len(texts):
        return TextBytes(np.frombuffer(bytes(8), np.int64), np.frombuffer(b"", np.uint8))
    cuts = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return TextBytes(cuts, np.frombuffer(data or b"", np.uint8))
