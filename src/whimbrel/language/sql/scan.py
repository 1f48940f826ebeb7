"""Bulk loads without a Python object per text: predicates and literals are cut out of the bytes by compiled loops.

What `pieces` says of texts that are conjunctions of plain predicates holds here too: each different predicate is given
to the real parser once. Other texts are grouped whole, by what they are without their literals. Those without a
columnar form, and those with something unusual in them, are left for who asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from whimbrel.language.columnar import Conjunctions, ParsedMany, ShapeGroup
from whimbrel.language.columns import Column, DictionaryStrings, Int64s
from whimbrel.language.sql.scan_kernels import copy_spans, cut_texts, keep_plain, number_strings
from whimbrel.language.sql.skeletons import MOST_PREDICATES, ParsedSkeleton, read_predicate, read_skeleton

LONGEST = 1 << 16
"""Bytes of a text that is scanned; a longer one is left."""
PREDICATES = 1 << 15
"""Different predicates, or different wholes, of one scan; a text with one more is left."""
PREDICATE_BYTES = 1 << 22
"""Bytes of all of them."""

RARE = 8
"""Texts below which a whole is left: the parser, which reads again what has no columnar form, reads it once then."""

Group = tuple[ParsedSkeleton, Int64s, tuple[Column, ...]]
"""A predicate, its places among the predicates of all rows, and its literals by slot."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """The rows that have a columnar form, how many predicates each has, those grouped, and the rows that are left.

    If the texts were not cut, a whole text counts as one predicate.
    """

    rows: Int64s
    counts: Int64s
    groups: list[Group]
    left: Int64s


def scan(texts: pa.LargeStringArray, whole: bool = False) -> Scanned:
    """Cut texts, none of them null and all of them UTF-8, at AND, or only their literals out of the `whole`.

    >>> texts = pa.array(["a = 5 AND b < 'x'", "a = 1 OR b = 2", "a = 6"], pa.large_string())
    >>> scanned = scan(texts)
    >>> scanned.rows, scanned.counts, scanned.left
    (array([0, 2]), array([2, 1]), array([1]))
    >>> [(places, columns[0]) for _, places, columns in scanned.groups][0]
    (array([0, 2]), array([5, 6]))
    >>> len(scan(pa.array(["a = 1 OR b = 2"] * 9, pa.large_string()), whole=True).rows)
    9
    """
    offsets, data = _buffers(texts)
    size, rows = int(offsets[-1] - offsets[0]), len(texts)
    pool, pool_start = np.empty(PREDICATE_BYTES, np.uint8), np.zeros(PREDICATES + 1, np.int64)
    counts = np.empty(rows, np.int64)
    codes = np.empty(size // 5 + rows + 1, np.uint16)
    numbers = np.empty(size // 2 + rows + 1)
    longs, long_begin, long_end = (np.empty(size // 2 + rows + 1, np.int64) for _ in range(3))
    begin, end = (np.empty(size // 2 + rows + 1, np.int64) for _ in range(2))
    pieces, number, long, string, known = cut_texts(
        offsets, data, whole, LONGEST, MOST_PREDICATES, pool, pool_start, np.zeros(4 * PREDICATES, np.int32),
        counts, codes, numbers, longs, long_begin, long_end, begin, end,
    )  # fmt: skip
    numbers[longs[:long]] = _strings(data, long_begin[:long], long_end[:long]).cast(pa.float64()).to_numpy()
    found = _Predicates(
        pool, pool_start[: known + 1], codes[:pieces], read_skeleton if whole else read_predicate, whole
    )
    pieces, number, string = keep_plain(
        counts, codes[:pieces], numbers, begin, end, found.attribute, found.numbers, found.strings, known
    )
    groups = list(found.groups(codes[:pieces], numbers[:number], _words(data, begin[:string], end[:string])))
    kept = np.flatnonzero(counts)
    return Scanned(kept, counts[kept], groups, np.flatnonzero(counts == 0))


def scan_columns(texts: pa.LargeStringArray) -> tuple[ParsedMany, Int64s]:
    """The columnar form of the plain texts, and the rows of the others.

    Conjunctions of plain predicates are split at AND; other texts are grouped whole.
    """
    parsed = ParsedMany(len(texts))
    split = scan(texts)
    if len(split.rows):
        parsed.conjunctions.append(Conjunctions(split.rows, split.counts, tuple(_shape_groups(split))))
    if not len(split.left):
        return parsed, split.left
    wholes = scan(texts.take(split.left), whole=True)
    for group in _shape_groups(wholes):
        rows = split.left[wholes.rows[group.rows]]
        parsed.groups.append(ShapeGroup(group.shape, rows, group.columns))
    return parsed, split.left[wholes.left]


def _shape_groups(scanned: Scanned) -> list[ShapeGroup]:
    return [ShapeGroup(skeleton.shape, places, columns) for skeleton, places, columns in scanned.groups]


class _Predicates:
    """The different predicates of a scan, as far as texts use them: what each is, and how many literals it has."""

    def __init__(
        self,
        pool: np.ndarray,
        starts: np.ndarray,
        codes: np.ndarray,
        read: Callable[[str], ParsedSkeleton | None],
        whole: bool,
    ) -> None:
        self.pieces: list[ParsedSkeleton | None] = []
        count = len(starts) - 1
        self.attribute = np.full(count, -1, np.int64)
        self.strings, self.numbers = np.zeros(count, np.int64), np.zeros(count, np.int64)
        names: dict[str, int] = {}
        used = np.bincount(codes, minlength=count)
        for code in range(count):
            part = pool[starts[code] : starts[code + 1]].tobytes().decode()
            self.strings[code] = part.count("''")
            self.numbers[code] = part.count("'") - 2 * self.strings[code]
            piece = read(part) if used[code] >= (RARE if whole else 1) else None
            self.pieces.append(piece)
            if piece is not None:
                name = str(code) if whole else piece.shape.conjunctions[0][0].attribute
                self.attribute[code] = names.setdefault(name, len(names))

    def groups(self, codes: np.ndarray, numbers: np.ndarray, strings: DictionaryStrings) -> Iterator[Group]:
        """The predicates that rows have, with their places and literals."""
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=len(self.pieces)))
        first_string, first_number = (_starts(sizes[codes])[order] for sizes in (self.strings, self.numbers))
        begin = 0
        for piece, end in zip(self.pieces, ends.tolist(), strict=True):
            if end > begin:
                assert piece is not None
                mine = slice(begin, end)
                columns: list[Column] = [
                    DictionaryStrings(strings.codes[first_string[mine] + slot], strings.vocabulary)
                    for slot in range(piece.strings)
                ]
                for slot, negative in enumerate(piece.negative):
                    columns.append(_narrow(numbers[first_number[mine] + slot], negative))
                yield piece, order[mine], tuple(columns)
            begin = end


def _narrow(column: np.ndarray, negative: bool) -> np.ndarray:
    """Numbers, all below 2^53, as int64 if all are whole."""
    integers = column.astype(np.int64)
    column = integers if (integers == column).all() else column
    return 0 - column if negative else column


def _starts(counts: np.ndarray) -> np.ndarray:
    starts: np.ndarray = np.cumsum(counts) - counts
    return starts


def _words(data: np.ndarray, begin: np.ndarray, end: np.ndarray) -> DictionaryStrings:
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


def _buffers(texts: pa.LargeStringArray) -> tuple[np.ndarray, np.ndarray]:
    """The offsets of texts and the bytes that they cut; both read-only, as the loops are compiled for."""
    _, offsets, data = texts.buffers()
    if not len(texts):
        return np.frombuffer(bytes(8), np.int64), np.frombuffer(b"", np.uint8)
    cuts = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return cuts, np.frombuffer(data or b"", np.uint8)
