"""Building segments: of single filters, of the head, of parsed texts, and of smaller segments."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from whimbrel.engine.access.merging import SegmentSource
from whimbrel.engine.access.segment import Segment
from whimbrel.engine.intake.parsing import parse_load
from whimbrel.engine.live.snapshot import HeadEntry
from whimbrel.language.columnar import ParsedMany
from whimbrel.model.filter import Filter
from whimbrel.ranks.clauses.column_source import PredicateSource, column_sources
from whimbrel.ranks.clauses.compiler import FilterSource, Source, compile_clauses


def build_from_filters(rows: Sequence[int], filters: Sequence[Filter], sample: object = None) -> Segment:
    """A segment of single filters."""
    source = FilterSource(rows, filters)
    return Segment.build(compile_clauses([source], source.always), sample)


def build_from_head(entries: Sequence[HeadEntry], sample: object = None) -> Segment:
    """A segment of the head's entries: those with SQL text by the bulk path, others one by one."""
    texts = [entry for entry in entries if entry.filter.text is not None and entry.filter.dialect == "sql"]
    others = [entry for entry in entries if entry.filter.text is None or entry.filter.dialect != "sql"]
    parsed = parse_load([str(entry.filter.text) for entry in texts])
    sources, always = parsed_sources(parsed, np.array([entry.row for entry in texts], np.int32))
    rest = FilterSource([entry.row for entry in others], [entry.filter for entry in others])
    return Segment.build(compile_clauses([*sources, rest], [*always, *rest.always]), sample)


def build_from_parsed(parsed: ParsedMany, rows: np.ndarray, sample: object = None) -> Segment:
    """A segment of parsed texts, which are taken apart; row r is subscription rows[r]."""
    sources, always = parsed_sources(parsed, rows)
    parsed.groups, parsed.conjunctions = [], []  # so that literals are let go of as they are ranked
    return Segment.build(compile_clauses(sources, always), sample)


def merge(
    segments: Sequence[Segment], is_dead: Callable[[np.ndarray], np.ndarray | None], sample: object = None
) -> Segment:
    """One segment of several, without dead rows."""
    sources = [SegmentSource(segment, is_dead) for segment in segments]
    always = np.concatenate([source.always for source in sources])
    return Segment.build(compile_clauses(sources, always), sample)


def parsed_sources(parsed: ParsedMany, rows: np.ndarray) -> tuple[list[Source], list[int]]:
    """The sources of parsed texts, and the always-true rows."""
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
