"""Parsing many texts on all cores: plain ones by threads in compiled loops, enough others by processes."""

from __future__ import annotations

import os
import pickle
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from subprocess import DEVNULL, PIPE, Popen
from threading import Thread

from whimbrel.engine.intake.loads import Texts, chosen, scan_load
from whimbrel.language.sql.columnar import ParsedMany, parse_many

PARALLEL = True
"""Whether to use more than one core."""
PARALLEL_FROM = 100_000
"""Texts that are not plain from which a second process pays for its start."""
PARSE_AT_ONCE = 50_000
"""Texts that are parsed at a time, so that progress shows."""


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
                    out[first] = parse_many(texts[first : first + PARSE_AT_ONCE], dialect, pieces=True)
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
from whimbrel.language.sql.columnar import parse_many
answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
while True:
    try:
        texts, dialect = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    pickle.dump(parse_many(texts, dialect, pieces=True), answers, pickle.HIGHEST_PROTOCOL)
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
