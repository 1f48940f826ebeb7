"""Building segments: of the head, of parsed texts, and of smaller segments."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from whimbrel.engine.access.decoding import SegmentSource
from whimbrel.engine.access.segment import Segment
from whimbrel.engine.live.head import HeadEntry
from whimbrel.language.columnar.parsing import scan_many
from whimbrel.language.columnar.terms import ParsedMany
from whimbrel.ranks.clauses.column_source import ColumnSource
from whimbrel.ranks.clauses.compiler import FilterSource, Source, compile_clauses


def build_from_head(entries: Sequence[HeadEntry], sample: object = None) -> Segment:
    """A segment of the head's entries. Compiled loops scan their texts again: a microsecond for each."""
    parsed = ParsedMany(len(entries))
    by_dialect: dict[str, list[int]] = {}
    for number, entry in enumerate(entries):
        if entry.filter.schema is None and entry.filter.text is not None:
            by_dialect.setdefault(entry.filter.dialect, []).append(number)
        else:
            parsed.filters[number] = entry.filter
    for dialect, numbers in by_dialect.items():
        scanned, left = scan_many([str(entries[number].filter.text) for number in numbers], dialect)
        places = np.array(numbers)
        parsed.take(scanned, places)
        parsed.filters |= {number: entries[number].filter for number in places[left].tolist()}
    return build_from_parsed(parsed, np.array([entry.row for entry in entries], np.int32), sample)


def build_from_parsed(parsed: ParsedMany, rows: np.ndarray, sample: object = None) -> Segment:
    """A segment of parsed texts; text number n is row rows[n]. `parsed` is empty afterwards, to free memory early."""
    sources: list[Source] = []
    if parsed.conjunctions:
        sources.append(ColumnSource(parsed.conjunctions, rows))
    if parsed.filters:
        sources.append(FilterSource([int(rows[number]) for number in parsed.filters], list(parsed.filters.values())))
    parsed.conjunctions = []  # so that literals are freed as they are ranked
    return Segment.build(compile_clauses(sources), sample)


def merge(
    segments: Sequence[Segment], is_dead: Callable[[np.ndarray], np.ndarray | None], sample: object = None
) -> Segment:
    """One segment of several, without their dead rows; `is_dead` masks an array of rows."""
    return Segment.build(compile_clauses([SegmentSource(segment, is_dead) for segment in segments]), sample)
