"""Building segments: of the head, of parsed texts, and of smaller segments."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from whimbrel.engine.access.decoding import SegmentSource
from whimbrel.engine.access.segment import Segment
from whimbrel.engine.intake.filter_columns import filter_columns
from whimbrel.engine.live.head import HeadEntry
from whimbrel.language.columnar import ParsedMany
from whimbrel.ranks.clauses.column_source import PredicateSource, column_sources
from whimbrel.ranks.clauses.compiler import FilterSource, Source, compile_clauses


def build_from_head(entries: Sequence[HeadEntry], sample: object = None) -> Segment:
    """A segment of the head's entries, from their parsed filters; no text is read again."""
    parsed = filter_columns([entry.filter for entry in entries])
    return build_from_parsed(parsed, np.array([entry.row for entry in entries], np.int32), sample)


def build_from_parsed(parsed: ParsedMany, rows: np.ndarray, sample: object = None) -> Segment:
    """A segment of parsed texts; text number n is row rows[n]. `parsed` is empty afterwards, to free memory early."""
    sources, always = _sources(parsed, rows)
    parsed.groups, parsed.conjunctions = [], []  # so that literals are freed as they are ranked
    return Segment.build(compile_clauses(sources, always), sample)


def merge(
    segments: Sequence[Segment], is_dead: Callable[[np.ndarray], np.ndarray | None], sample: object = None
) -> Segment:
    """One segment of several, without their dead rows; `is_dead` masks an array of rows."""
    sources = [SegmentSource(segment, is_dead) for segment in segments]
    always = np.concatenate([source.always for source in sources])
    return Segment.build(compile_clauses(sources, always), sample)


def _sources(parsed: ParsedMany, rows: np.ndarray) -> tuple[list[Source], list[int]]:
    """What the compiler reads parsed texts from, and the rows that every event matches."""
    bulk, always = column_sources(parsed.groups, rows)
    sources: list[Source] = [*bulk]
    if parsed.conjunctions:
        sources.append(PredicateSource(parsed.conjunctions, rows))
    for one in bulk:
        if isinstance(one, FilterSource):
            always = always + one.always
    if parsed.filters:
        rest = FilterSource([int(rows[number]) for number in parsed.filters], list(parsed.filters.values()))
        sources.append(rest)
        always = always + rest.always
    return sources, always
