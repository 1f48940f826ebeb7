"""Building segments: the head into a segment, small segments into larger ones, text in bulk on all cores."""

from __future__ import annotations

import os
import pickle
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from subprocess import DEVNULL, PIPE, Popen
from threading import Thread

import numpy as np

from whimbrel.engine.bulk import PieceSource, bulk_sources
from whimbrel.engine.compiler import FilterSource, Source, compile_clauses
from whimbrel.engine.decode import SegmentSource
from whimbrel.engine.segment import Segment
from whimbrel.engine.snapshot import HeadEntry
from whimbrel.language.columnar import ParsedMany, parse_many
from whimbrel.model.filter import Filter

PARALLEL_FROM = 100_000
"""Texts from which a second process pays for its start."""
PARSE_AT_ONCE = 50_000
"""Texts that are parsed at a time, so that progress shows."""


def build_from_filters(slots: Sequence[int], filters: Sequence[Filter], sample: object = None) -> Segment:
    """A segment of single filters."""
    source = FilterSource(slots, filters)
    return Segment.build(compile_clauses([source], source.always), sample)


def build_from_head(entries: Sequence[HeadEntry], sample: object = None) -> Segment:
    """A segment of the head's entries: those with SQL text by the bulk path, others one by one."""
    texts = [entry for entry in entries if entry.filter.text is not None and entry.filter.dialect == "sql"]
    others = [entry for entry in entries if entry.filter.text is None or entry.filter.dialect != "sql"]
    parsed = parse_many([str(entry.filter.text) for entry in texts], pieces=True)
    sources, always = parsed_sources(parsed, np.array([entry.slot for entry in texts], np.int32))
    rest = FilterSource([entry.slot for entry in others], [entry.filter for entry in others])
    return Segment.build(compile_clauses([*sources, rest], [*always, *rest.always]), sample)


def build_from_parsed(parsed: Sequence[ParsedMany], slots: Sequence[np.ndarray], sample: object = None) -> Segment:
    """A segment of parsed texts; row r of parsed[i] is subscription slots[i][r]."""
    sources: list[Source] = []
    always: list[int] = []
    for part, its_slots in zip(parsed, slots, strict=True):
        its_sources, its_always = parsed_sources(part, its_slots)
        sources += its_sources
        always += its_always
    return Segment.build(compile_clauses(sources, always), sample)


def merge(
    segments: Sequence[Segment], is_dead: Callable[[np.ndarray], np.ndarray | None], sample: object = None
) -> Segment:
    """One segment of several, without dead slots."""
    sources = [SegmentSource(segment, is_dead) for segment in segments]
    always = np.concatenate([source.always for source in sources])
    return Segment.build(compile_clauses(sources, always), sample)


def parsed_sources(parsed: ParsedMany, slots: np.ndarray) -> tuple[list[Source], list[int]]:
    """The sources of parsed texts, and the always-true slots."""
    bulk, always = bulk_sources(parsed.groups, slots)
    sources: list[Source] = [*bulk, *(PieceSource(one, slots) for one in parsed.conjunctions)]
    for one in bulk:
        if isinstance(one, FilterSource):
            always = always + one.always
    if parsed.filters:
        rest = FilterSource([int(slots[row]) for row in parsed.filters], list(parsed.filters.values()))
        sources.append(rest)
        always = always + rest.always
    return sources, always


def parse_in_parallel(
    texts: Sequence[str], dialect: str, progress: Callable[[int], None] | None, workers: int | None = None
) -> list[tuple[int, ParsedMany]]:
    """Parse many texts, in processes when there are enough: (first row, what became of the rows from there)."""
    waiting = deque(range(0, len(texts), PARSE_AT_ONCE))
    out: dict[int, ParsedMany] = {}
    workers = workers if workers is not None else os.cpu_count() or 1
    count = workers - 1 if len(texts) >= PARALLEL_FROM and sys.executable else 0
    helpers = [Thread(target=_parse_elsewhere, args=(texts, dialect, waiting, out), daemon=True) for _ in range(count)]
    for helper in helpers:
        helper.start()
    try:
        while waiting or any(helper.is_alive() for helper in helpers):
            with suppress(IndexError):  # the caller's process parses from the front, the others from the back
                while True:
                    first = waiting.popleft()
                    out[first] = parse_many(texts[first : first + PARSE_AT_ONCE], dialect, pieces=True)
                    if progress is not None:
                        progress(min(len(out) * PARSE_AT_ONCE, len(texts)))
            for helper in helpers:
                helper.join()  # one that fails gives back what it was at
    finally:
        waiting.clear()
    if progress is not None and helpers:
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
