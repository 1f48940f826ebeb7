"""Many texts to their columnar form: compiled loops scan them by threads, and the rest is parsed one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from whimbrel.language.columnar.terms import Columnar, Int64s, ParsedMany, large_texts
from whimbrel.model import dialects
from whimbrel.model.errors import WhimbrelError

if TYPE_CHECKING:
    import pyarrow as pa

Texts: TypeAlias = "Sequence[str] | pa.Array"

SCANNED_FROM = 4_096
"""Texts from which compiled loops are worth compiling, after an install."""
READY_FROM = 64
"""Texts from which they are worth using, once they are compiled."""
CHUNK = 1 << 16
"""Texts that are scanned at a time: bounds memory, and shows progress."""
PARSED_AT_ONCE = 4_096
"""Texts that are parsed one by one between two messages of progress."""


def parse_many(
    texts: Texts, dialect: str = "sql", workers: int = 1, progress: Callable[[int], None] | None = None
) -> ParsedMany:
    """Parse many filters; `progress` is told how many are done, at last all of them.

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
            parsed.errors.append((row, error))
        if progress is not None and (number % PARSED_AT_ONCE == 0 or number == len(rest)):
            progress(len(texts) - len(rest) + number)
    return parsed


def scan_many(
    texts: Texts, dialect: str, workers: int = 1, progress: Callable[[int], None] | None = None
) -> tuple[ParsedMany, Int64s]:
    """What compiled loops make of many texts, and the rows of those that they leave; all of them if there are few."""
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
    """The texts as Arrow strings; None if some of them are not text, which the parser is to say."""
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
