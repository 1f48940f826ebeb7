"""Bulk loads without a Python object per text: compiled loops cut predicates and literals out of the bytes.

Texts that are conjunctions of plain predicates are split at AND, and each different predicate is given to the parser
once. Other texts are grouped whole, by their skeletons. Texts without a columnar form, and texts with something unusual
in them, are left to the caller.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from whimbrel.language.columnar import Conjunctions, DictionaryStrings, Int64s, ParsedMany, ShapeGroup
from whimbrel.language.sql.scan_kernels import (
    PredicateFacts,
    SkeletonPool,
    TextBytes,
    TextCuts,
    copy_spans,
    cut_texts,
    keep_plain,
    number_strings,
)
from whimbrel.language.sql.skeletons import (
    MOST_PREDICATES,
    ParsedSkeleton,
    group_by_predicate,
    read_predicate,
    read_skeleton,
)

LONGEST = 1 << 16
"""Bytes of a text, at most; a longer one is left to the parser."""
SKELETONS = 1 << 15
"""Different skeletons of one scan, at most; a text with one more is left to the parser."""
SKELETON_BYTES = 1 << 22
"""Bytes of all of them."""
RARE = 8
"""Texts below which a whole skeleton is left to the parser: it would be parsed here, and again there if it has no
columnar form."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a scan found: `rows` have a columnar form, `left` have none that the scan sees.

    Row `rows[i]` has the next `counts[i]` of all predicates. A group has one predicate, and its `rows` are places among
    all predicates. If texts were not split, each counts as one predicate.
    """

    rows: Int64s
    counts: Int64s
    groups: list[ShapeGroup]
    left: Int64s


def scan_columns(texts: pa.LargeStringArray) -> tuple[ParsedMany, Int64s]:
    """The columnar form of the plain texts, and the rows of the others.

    Conjunctions of plain predicates are split at AND; other texts are grouped whole.
    """
    parsed = ParsedMany(len(texts))
    split = scan(texts)
    if len(split.rows):
        parsed.conjunctions.append(Conjunctions(split.rows, split.counts, tuple(split.groups)))
    if not len(split.left):
        return parsed, split.left
    wholes = scan(texts.take(split.left), whole=True)
    for group in wholes.groups:
        rows = split.left[wholes.rows[group.rows]]
        parsed.groups.append(ShapeGroup(group.shape, rows, group.columns))
    return parsed, split.left[wholes.left]


def scan(texts: pa.LargeStringArray, whole: bool = False) -> Scanned:
    """Cut the literals out of texts, and split the texts at AND unless they are to stay `whole`.

    The texts are valid UTF-8 without nulls.

    >>> texts = pa.array(["a = 5 AND b < 'x'", "a = 1 OR b = 2", "a = 6"], pa.large_string())
    >>> scanned = scan(texts)
    >>> scanned.rows, scanned.counts, scanned.left
    (array([0, 2]), array([2, 1]), array([1]))
    >>> scanned.groups[0].rows, scanned.groups[0].columns
    (array([0, 2]), (array([5, 6]),))
    >>> len(scan(pa.array(["a = 1 OR b = 2"] * 9, pa.large_string()), whole=True).rows)
    9
    """
    source = _bytes_of(texts)
    pool = SkeletonPool(
        np.empty(SKELETON_BYTES, np.uint8), np.zeros(SKELETONS + 1, np.int64), np.zeros(4 * SKELETONS, np.int32)
    )
    cuts = _empty_cuts(source)
    predicate, number, long, string, known = cut_texts(source, whole, LONGEST, MOST_PREDICATES, pool, cuts)
    again = _strings(source.data, cuts.long_begin[:long], cuts.long_end[:long])
    cuts.numbers[cuts.long_number[:long]] = again.cast(pa.float64()).to_numpy()
    found = _Predicates(pool, known, cuts.codes[:predicate], whole)
    predicate, number, string = keep_plain(cuts, found.facts)
    strings = _numbered(source.data, cuts.string_begin[:string], cuts.string_end[:string])
    groups = group_by_predicate(
        found.parsed,
        cuts.codes[:predicate],
        cuts.numbers[:number],
        lambda places: DictionaryStrings(strings.codes[places], strings.vocabulary),
    )
    kept = np.flatnonzero(cuts.counts)
    return Scanned(kept, cuts.counts[kept], list(groups), np.flatnonzero(cuts.counts == 0))


def _empty_cuts(source: TextBytes) -> TextCuts:
    """Arrays for as many cuts as texts of this size can have."""
    rows = source.offsets.size - 1
    size = int(source.offsets[-1] - source.offsets[0])
    literals = size // 2 + rows + 1
    spans = [np.empty(literals, np.int64) for _ in range(5)]
    return TextCuts(np.empty(rows, np.int64), np.empty(size // 5 + rows + 1, np.uint16), np.empty(literals), *spans)


class _Predicates:
    """The different skeletons of a scan, parsed if enough texts use them."""

    def __init__(self, pool: SkeletonPool, known: int, codes: np.ndarray, whole: bool) -> None:
        self.parsed: list[ParsedSkeleton | None] = []
        self.facts = PredicateFacts(np.full(known, -1, np.int64), np.zeros(known, np.int64), np.zeros(known, np.int64))
        names: dict[str, int] = {}
        uses = np.bincount(codes, minlength=known)
        for code in range(known):
            skeleton = pool.data[pool.starts[code] : pool.starts[code + 1]].tobytes().decode()
            strings = self.facts.strings[code] = skeleton.count("''")
            self.facts.numbers[code] = skeleton.count("'") - 2 * strings
            parsed: ParsedSkeleton | None = None
            if uses[code] >= (RARE if whole else 1):
                parsed = read_skeleton(skeleton) if whole else read_predicate(skeleton)
            self.parsed.append(parsed)
            if parsed is not None:
                name = str(code) if whole else parsed.shape.conjunctions[0][0].attribute
                self.facts.attribute[code] = names.setdefault(name, len(names))


def _numbered(data: np.ndarray, begin: np.ndarray, end: np.ndarray) -> DictionaryStrings:
    """Spans of bytes as dictionary-encoded strings."""
    codes, first = np.empty(len(begin), np.int32), np.empty(len(begin), np.int64)
    table = np.zeros(1 << max(4, (2 * len(begin)).bit_length()), np.int32)
    first = first[: number_strings(data, begin, end, table, codes, first)]
    return DictionaryStrings(codes, _strings(data, begin[first], end[first]))


def _strings(data: np.ndarray, begin: np.ndarray, end: np.ndarray) -> pa.LargeStringArray:
    """Spans of bytes as Arrow strings."""
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(end - begin)])
    out = np.empty(int(offsets[-1]), np.uint8)
    copy_spans(data, begin, end, offsets, out)
    return pa.LargeStringArray.from_buffers(len(begin), pa.py_buffer(offsets), pa.py_buffer(out))


def _bytes_of(texts: pa.LargeStringArray) -> TextBytes:
    """The buffers of texts; both arrays are read-only, as the loops are compiled for."""
    _, offsets, data = texts.buffers()
    if not len(texts):
        return TextBytes(np.frombuffer(bytes(8), np.int64), np.frombuffer(b"", np.uint8))
    cuts = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return TextBytes(cuts, np.frombuffer(data or b"", np.uint8))
