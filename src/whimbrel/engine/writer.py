"""Building segments: the head into a segment, small segments into larger ones, text in bulk on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

from whimbrel.engine.bulk import bulk_sources
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
    parsed = parse_many([str(entry.filter.text) for entry in texts])
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
    sources: list[Source] = [*bulk]
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
    bounds = list(range(0, len(texts), PARSE_AT_ONCE))
    workers = workers if workers is not None else os.cpu_count() or 1
    out: list[tuple[int, ParsedMany]] = []
    if workers < 2 or len(texts) < PARALLEL_FROM:
        for first in bounds:
            out.append((first, parse_many(texts[first : first + PARSE_AT_ONCE], dialect)))
            if progress is not None:
                progress(min(first + PARSE_AT_ONCE, len(texts)))
        return out
    with ProcessPoolExecutor(workers - 1, mp_context=get_context("spawn")) as pool:
        # The caller's process parses from the front, the others from the back, until they meet.
        left, right = 0, len(bounds)
        running: dict[int, object] = {}
        while left < right or running:
            while right > left and len(running) < workers:
                right -= 1
                first = bounds[right]
                running[right] = pool.submit(parse_many, texts[first : first + PARSE_AT_ONCE], dialect)
            if left < right:
                first = bounds[left]
                out.append((first, parse_many(texts[first : first + PARSE_AT_ONCE], dialect)))
                left += 1
                done = [at for at, future in running.items() if future.done()]  # type: ignore[attr-defined]
            else:
                done = list(running)
            for at in done:
                out.append((bounds[at], running.pop(at).result()))  # type: ignore[attr-defined]
            if progress is not None:
                progress(min(len(out) * PARSE_AT_ONCE, len(texts)))
    return sorted(out, key=lambda part: part[0])
