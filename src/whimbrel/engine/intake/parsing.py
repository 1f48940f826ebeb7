"""Many texts to parsed rows, on all cores.

Plain SQL texts are scanned in compiled loops by threads, a chunk at a time. `parse_many`, which knows the whole
language and names every error, gets the rest; processes share that work when there is enough of it.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from subprocess import DEVNULL, PIPE, Popen
from threading import Thread
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from whimbrel.language.columnar import Columnar, Int64s, ParsedMany, parse_many
from whimbrel.model import dialects
from whimbrel.ranks.arrow import large_strings

if TYPE_CHECKING:
    import pyarrow as pa

Texts: TypeAlias = "Sequence[str] | pa.Array"

SCANNED_FROM = 4_096
"""Texts from which compiled loops are worth compiling, after an install."""
READY_FROM = 512
"""Texts from which they are worth using, once they are compiled."""
CHUNK = 1 << 16
"""Texts that are scanned at a time: bounds memory, and shows progress."""


PARALLEL = True
"""Whether to use more than one core."""
PARALLEL_FROM = 100_000
"""Texts that are not plain from which a second process pays for its start."""
PARSE_AT_ONCE = 50_000
"""Texts that are parsed at a time, so that progress shows."""


def parse_load(texts: Texts, dialect: str = "sql") -> ParsedMany:
    """What `parse_many` makes of the texts, in this thread.

    >>> parse_load(["a = 1", "a = "]).errors[0][0]
    1
    """
    parsed, left = scan_load(texts, dialect)
    if len(left):
        parsed.take(parse_many(chosen(texts, left), dialect, split=True), left)
    return parsed


def scan_load(
    texts: Texts, dialect: str, workers: int = 1, progress: Callable[[int], None] | None = None
) -> tuple[ParsedMany, Int64s]:
    """What was made of the plain ones of many texts, and the rows of the others; all of them if there are few.

    `progress` is told how many texts are done with.
    """
    parsed = ParsedMany(len(texts))
    language = dialects.get(dialect)
    if not isinstance(language, Columnar) or not _is_worth(len(texts), language):
        return parsed, np.arange(len(texts))
    column = _column(texts)
    if column is None:
        return parsed, np.arange(len(texts))
    size = min(CHUNK, max(SCANNED_FROM, -(-len(texts) // workers)))
    starts = range(0, len(texts), size)
    lefts: list[Int64s] = []
    done = 0
    with ThreadPoolExecutor(workers) as pool:
        chunks = [column.slice(start, size) for start in starts]
        for start, (one, left) in zip(
            starts, (pool.map if workers > 1 else map)(language.scan_columns, chunks), strict=True
        ):
            parsed.take(one, np.arange(start, start + one.count))
            lefts.append(start + left)
            done += one.count - len(left)
            if progress is not None and done:
                progress(done)
    return parsed, np.concatenate(lefts)


def _is_worth(count: int, language: Columnar) -> bool:
    if not READY_FROM <= count < SCANNED_FROM:
        return count >= SCANNED_FROM
    return language.is_scan_compiled()


def chosen(texts: Texts, rows: Int64s) -> list[str]:
    """The texts of some rows."""
    if not isinstance(texts, Sequence):
        found: list[str] = (texts if len(rows) == len(texts) else texts.take(rows)).to_pylist()
        return found
    return list(texts) if len(rows) == len(texts) else [texts[row] for row in rows.tolist()]


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


def parse_in_parallel(
    texts: Texts, dialect: str, progress: Callable[[int], None] | None = None, workers: int | None = None
) -> ParsedMany:
    """Parse many texts; `progress` is told how many are parsed, at last all of them."""
    cores = (workers if workers is not None else os.cpu_count() or 1) if PARALLEL else 1
    parsed, left = scan_load(texts, dialect, cores, progress)
    if not len(left):
        return parsed
    done = len(texts) - len(left)

    def tell(count: int) -> None:
        if progress is not None:
            progress(done + count)

    for first, part in _parse_left(chosen(texts, left), dialect, tell, cores):
        parsed.take(part, left[first : first + part.count])
    return parsed


def _parse_left(
    texts: Sequence[str], dialect: str, progress: Callable[[int], None], cores: int
) -> list[tuple[int, ParsedMany]]:
    """Parse texts, in processes when there are enough: (first row, what became of the rows from there)."""
    waiting = deque(range(0, len(texts), PARSE_AT_ONCE))
    out: dict[int, ParsedMany] = {}
    count = cores - 1 if len(texts) >= PARALLEL_FROM and sys.executable else 0
    helpers = [Thread(target=_parse_elsewhere, args=(texts, dialect, waiting, out), daemon=True) for _ in range(count)]
    for helper in helpers:
        helper.start()
    try:
        while waiting or any(helper.is_alive() for helper in helpers):
            with suppress(IndexError):  # the caller's process parses from the front, the others from the back
                while True:
                    first = waiting.popleft()
                    out[first] = parse_many(texts[first : first + PARSE_AT_ONCE], dialect, split=True)
                    progress(min(len(out) * PARSE_AT_ONCE, len(texts)))
            for helper in helpers:
                helper.join()  # one that fails gives back what it was at
    finally:
        waiting.clear()
    if helpers:
        progress(len(texts))
    return sorted(out.items(), key=lambda part: part[0])


_HELPER = """
import os, pickle, sys
import whimbrel
from whimbrel.language.columnar import parse_many
answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
while True:
    try:
        texts, dialect = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    pickle.dump(parse_many(texts, dialect, split=True), answers, pickle.HIGHEST_PROTOCOL)
    answers.flush()
"""


def _parse_elsewhere(texts: Sequence[str], dialect: str, waiting: deque[int], out: dict[int, ParsedMany]) -> None:
    """Have another process parse what waits; without one, or where it fails, it goes on waiting.

    Not a process of `multiprocessing`: those run the caller's main module once more, which may be a plain script.
    """
    command = [sys.executable, "-P", "-c", _HELPER]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    with suppress(OSError), Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment) as process:
        assert process.stdin is not None and process.stdout is not None
        while waiting:
            try:
                first = waiting.pop()
            except IndexError:
                return
            try:
                load = texts[first : first + PARSE_AT_ONCE], dialect
                pickle.dump(load, process.stdin, pickle.HIGHEST_PROTOCOL)
                process.stdin.flush()
                out[first] = pickle.load(process.stdout)
            except (OSError, EOFError, pickle.PickleError):
                waiting.append(first)
                return
