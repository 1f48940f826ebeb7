"""Scans many texts without a Python object for each: compiled loops cut predicates and literals out of the bytes.

The parser reads each distinct predicate once, and the literals of its uses become columns. Texts with a predicate or a
literal that has no columnar form are left to the caller.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from whimbrel.compiled.array_types import Bytes, Int32s, Int64s
from whimbrel.compiled.helpers import hash_of_bytes, shared
from whimbrel.compiled.jit import kernel
from whimbrel.compiled.views import read_only
from whimbrel.language.columnar.terms import Conjunctions, DictionaryStrings, ParsedMany
from whimbrel.language.sql.expansion_kernels import CONJUNCTIONS, replace_uses
from whimbrel.language.sql.leaf_groups import BIG_INTEGER, EXACT_FLOAT, CutTexts, LeafGroups, has_wide
from whimbrel.language.sql.lexer import is_too_long, number_value
from whimbrel.language.sql.scan_kernels import ScannedTexts, TextBytes, scan_texts
from whimbrel.language.sql.token_kernels import FIRST_WIDE, NO_INTEGER, SkeletonPool, with_plain_spaces
from whimbrel.model.limits import FILTER_CONJUNCTIONS, FILTER_CONSTRAINTS, FILTER_PREDICATES, FILTER_VALUES
from whimbrel.model.values import canonical_number

LONGEST = 1 << 16
"""Bytes of a text, at most; a longer one is left to the parser."""
SKELETONS = 1 << 15
"""Distinct skeletons of one scan, at most; texts with further ones are left to the parser."""
SKELETON_BYTES = 1 << 22
"""Bytes of all skeletons of one scan, at most."""
_FEW_PREDICATES = FILTER_PREDICATES.value // 4
"""Up to so many members of lists after lower(a) IN, each a predicate, no text has too many predicates."""


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
    scanned, skeletons, counts, uses, refused = _scan(source)
    is_left = scanned.leaves == 0
    found = LeafGroups(scanned, skeletons)
    ends = np.cumsum(scanned.leaves)
    for places in (*found.for_parser, refused):
        is_left[_rows_of(places, ends)] = True
    if found.folded_lists:
        folded = ((_rows_of(places, ends), members) for places, members in found.folded_lists)
        predicates = sum(np.bincount(rows, members, len(texts)) for rows, members in folded)
        is_left |= predicates > _FEW_PREDICATES
    rows = np.repeat(np.arange(len(texts)), scanned.conjunctions)
    if int(scanned.length.max(initial=1)) * CONJUNCTIONS > FILTER_VALUES.value:  # long lists, which are repeated
        repeated = np.add.reduceat(scanned.length[uses].astype(np.int64), np.cumsum(counts) - counts)
        is_left |= np.bincount(rows, repeated, len(texts)) > FILTER_VALUES.value
    numbers = found.conjunctions()
    if numbers is not None:
        is_left |= _may_be_too_large(rows, counts, numbers[uses], len(texts))
    alternatives = found.alternatives()
    if alternatives is not None:
        rows, counts, uses = replace_uses(rows, counts, uses, alternatives, is_left)
    kept = Conjunctions(rows, counts, uses, found.size, tuple(found.groups)).only(~is_left)
    if len(kept.rows):
        parsed.conjunctions.append(kept)
    return parsed, np.flatnonzero(is_left)


def _rows_of(places: Int64s, ends: Int64s) -> Int64s:
    """The rows of the texts that some leaves are in, given where the leaves of each text end."""
    return np.searchsorted(ends, places, "right")


def _may_be_too_large(rows: np.ndarray, counts: np.ndarray, numbers: np.ndarray, texts: int) -> np.ndarray:
    """A mask of the texts that may have too large a normal form, given how many conjunctions each use becomes."""
    made = np.multiply.reduceat(numbers.astype(np.float64), np.cumsum(counts) - counts)
    constraints = 2 * made * counts  # an alternative has two uses at most
    is_large: np.ndarray = np.bincount(rows, made, texts) > FILTER_CONJUNCTIONS.value
    is_large |= np.bincount(rows, constraints, texts) > FILTER_CONSTRAINTS.value
    return is_large


class _Scan(NamedTuple):
    """What a scan found."""

    texts: CutTexts
    skeletons: list[str]
    counts: np.ndarray  # the number of leaves of each conjunction
    uses: np.ndarray  # the leaves of all conjunctions
    refused: Int64s  # the leaves with a number that the parser must refuse


def _scan(source: TextBytes) -> _Scan:
    """Scan texts; read the numbers again that the loops cannot read exactly."""
    rows = source.offsets.size - 1
    size = int(source.offsets[-1] - source.offsets[0])
    leaves, literals = size // 4 + rows + 1, size // 2 + rows + 2
    pool = SkeletonPool(
        np.empty(SKELETON_BYTES + 8, np.uint8), np.zeros(SKELETONS + 1, np.int64), np.zeros(4 * SKELETONS, np.int32)
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
    exact, too_long = _read_again(source, out, long)
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
        exact=exact,
        has_wide=has_wide(out.integers[:number]),
        strings=_numbered(out.string_start[: string + 1], out.string_bytes),
    )
    refused = np.searchsorted(cut.first_number, too_long, "right") - 1
    return _Scan(cut, skeletons, counts, uses, refused)


def _read_again(source: TextBytes, out: ScannedTexts, count: int) -> tuple[dict[int, int | float], list[int]]:
    """Read the long numbers in Python. Return the integers beyond 64 bits by their places, and those with too many
    digits, which the parser must refuse."""
    exact: dict[int, int | float] = {}
    too_long: list[int] = []
    numbers = (array[:count].tolist() for array in (out.long_number, out.long_begin, out.long_end))
    for signed, begin, end in zip(*numbers, strict=True):
        place, raw = abs(signed) - 1, source.data[begin:end].tobytes().decode()
        if is_too_long(raw):
            too_long.append(place)
            continue
        value = canonical_number(number_value(raw) * (1 if signed > 0 else -1))
        if isinstance(value, float) or abs(value) <= EXACT_FLOAT:
            out.numbers[place] = value
            out.integers[place] = NO_INTEGER if isinstance(value, float) else value
        elif abs(value) < -int(BIG_INTEGER):
            out.integers[place] = value
        else:
            exact[place], out.integers[place] = value, BIG_INTEGER
    return exact, too_long


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
def _number_strings(start: Int64s, data: Bytes, table: Int32s, codes: Int32s, first: Int64s) -> int:
    """Number strings, equal ones alike; return how many distinct ones there are.

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
    plain = np.frombuffer(data or b"", np.uint8)
    is_wide = plain[cuts[0] : cuts[-1]].max(initial=0) >= FIRST_WIDE
    return TextBytes(cuts, read_only(with_plain_spaces(cuts, plain)) if is_wide else plain)
