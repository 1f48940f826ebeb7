"""Large loads of SQL texts: scanned in compiled loops as far as they are plain, several chunks at a time.

What is left of them goes to `parse_many`, which knows the whole language and names every error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from whimbrel.compiled.cold_start import is_cold
from whimbrel.language.sql.columnar import Conjunctions, ParsedMany, ShapeGroup, parse_many
from whimbrel.language.sql.columns import Int64s
from whimbrel.language.sql.dialect import SQL
from whimbrel.model import dialects
from whimbrel.ranks.arrow import large_strings

if TYPE_CHECKING:
    import pyarrow as pa

    from whimbrel.language.sql.scan import Scanned

Texts: TypeAlias = "Sequence[str] | pa.Array"

SCANNED_FROM = 4_096
"""Texts from which compiled loops are worth compiling, after an install."""
READY_FROM = 512
"""Texts from which they are worth using, once they are compiled."""
CHUNK = 1 << 16
"""Texts that are scanned at a time: bounds memory, and shows progress."""


def parse_load(texts: Texts, dialect: str = "sql") -> ParsedMany:
    """What `parse_many` makes of the texts, pieces included, in this thread.

    >>> parse_load(["a = 1", "a = "]).errors[0][0]
    1
    """
    parsed, left = scan_load(texts, dialect)
    if len(left):
        parsed.take(parse_many(chosen(texts, left), dialect, pieces=True), left)
    return parsed


def scan_load(
    texts: Texts, dialect: str, workers: int = 1, progress: Callable[[int], None] | None = None
) -> tuple[ParsedMany, Int64s]:
    """What was made of the plain ones of many texts, and the rows of the others; all of them if there are few.

    `progress` is told how many texts are done with.
    """
    parsed = ParsedMany(len(texts))
    column = _column(texts) if _is_worth(len(texts)) and dialects.get(dialect) is SQL else None
    if column is None:
        return parsed, np.arange(len(texts))
    size = min(CHUNK, max(SCANNED_FROM, -(-len(texts) // workers)))
    starts = range(0, len(texts), size)
    lefts: list[Int64s] = []
    done = 0
    with ThreadPoolExecutor(workers) as pool:
        chunks = [column.slice(start, size) for start in starts]
        for start, (one, left) in zip(starts, (pool.map if workers > 1 else map)(_scan, chunks), strict=True):
            parsed.take(one, np.arange(start, start + one.count))
            lefts.append(start + left)
            done += one.count - len(left)
            if progress is not None and done:
                progress(done)
    return parsed, np.concatenate(lefts)


def _is_worth(count: int) -> bool:
    if not READY_FROM <= count < SCANNED_FROM:
        return count >= SCANNED_FROM
    from whimbrel.language.sql.scan_kernels import cut_texts

    return bool(getattr(cut_texts, "signatures", ())) or not is_cold(cut_texts)


def chosen(texts: Texts, rows: Int64s) -> list[str]:
    """The texts of some rows."""
    if not isinstance(texts, Sequence):
        found: list[str] = (texts if len(rows) == len(texts) else texts.take(rows)).to_pylist()
        return found
    return list(texts) if len(rows) == len(texts) else [texts[row] for row in rows.tolist()]


def _scan(texts: pa.LargeStringArray) -> tuple[ParsedMany, Int64s]:
    """What was made of a chunk, and the rows that are left."""
    from whimbrel.language.sql.scan import scan

    parsed = ParsedMany(len(texts))
    cut = scan(texts)
    if len(cut.rows):
        parsed.conjunctions.append(Conjunctions(cut.rows, cut.counts, tuple(_groups(cut))))
    if not len(cut.left):
        return parsed, cut.left
    wholes = scan(texts.take(cut.left), whole=True)
    parsed.groups += [
        ShapeGroup(group.shape, cut.left[wholes.rows[group.rows]], group.columns) for group in _groups(wholes)
    ]
    return parsed, cut.left[wholes.left]


def _groups(scanned: Scanned) -> list[ShapeGroup]:
    return [ShapeGroup(piece.shape, places, columns) for piece, places, columns in scanned.groups]


def _column(texts: Texts) -> pa.LargeStringArray | None:
    """The texts as Arrow strings; None if some of them are not text, which the parser is to say."""
    import pyarrow as pa

    if isinstance(texts, Sequence):
        if set(map(type, texts)) != {str}:
            return None
        try:
            return large_strings(texts)
        except (UnicodeEncodeError, pa.ArrowInvalid):  # lone surrogates
            return None
    if texts.null_count or not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        return None
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:  # not UTF-8
        return None
    return texts.cast(pa.large_string())
