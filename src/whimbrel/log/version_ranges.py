"""The rule of ranges: a version of a subscription sees an event iff version.from < event.offset < version.until.

A range [a, b) of the log is matched with an index of all versions that overlap it, and then pairs are left out whose
event lies outside of the version's range. So whoever matches a range later finds what was valid at each offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from whimbrel.engine.index import Index
from whimbrel.log.match_list import encode_all
from whimbrel.log.matched_numbers import MatchedNumbers, apply_rules, match_events, rows_of_pairs, sort_pairs
from whimbrel.model.token_rules import Rules


class SubscriptionVersion(msgspec.Struct, frozen=True, rename={"start": "from"}):
    """One version: its number is the offset of its entry, where it starts; `until` is None while it has not ended.

    `rules` are those of its owner's token, which an event must satisfy beyond the filter.
    """

    number: int
    filter: str
    dialect: str
    start: int
    until: int | None = None
    rules: dict[str, str | int | float | bool] = {}


def add_versions(index: Index, versions: Iterable[SubscriptionVersion]) -> None:
    """Add versions to an index, by their numbers."""
    add_filters(index, ((version.number, version.filter, version.dialect) for version in versions))


def add_filters(index: Index, filters: Iterable[tuple[int, str, str]]) -> None:
    """Add filters, given as number, text and dialect, to an index, in one call for each dialect."""
    by_dialect: dict[str, list[tuple[int, str]]] = {}
    for number, text, dialect in filters:
        by_dialect.setdefault(dialect, []).append((number, text))
    for dialect, pairs in by_dialect.items():
        index.add_many(pairs, dialect)


class VersionRanges:
    """Matches events, and drops pairs whose event lies outside of the version's range or breaks its owner's rules."""

    def __init__(self, ends: Mapping[int, int], constrained: Mapping[int, Rules]) -> None:
        self._numbers = np.array(sorted(ends), np.int64)
        self._ends = np.array([ends[number] for number in self._numbers.tolist()], np.int64)
        self._constrained = constrained

    def match(
        self, indexes: Sequence[Index], offsets: Sequence[int], events: Sequence[bytes]
    ) -> tuple[NDArray[np.int64], list[bytes]]:
        """Match the events at these offsets. Gives the offsets of those that match, and the coded list of each.

        A version is in one of the indexes. An event that an index refuses matches none of its versions.
        """
        places = np.array(offsets, np.int64)
        rows, numbers = _pairs(indexes, list(events))
        kept = self._in_range(numbers, places[rows])
        rows, numbers = sort_pairs(rows[kept], numbers[kept])
        bounds = np.searchsorted(rows, np.arange(len(places) + 1)).astype(np.int64)
        timestamps = indexes[0].timestamps if indexes else ()
        matched = apply_rules(MatchedNumbers(bounds, numbers, {}), self._constrained, events, timestamps)
        hits = np.flatnonzero(np.diff(matched.offsets))
        coded = encode_all(matched.offsets, matched.numbers)
        return places[hits], [coded[hit] for hit in hits.tolist()]

    def _in_range(self, numbers: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
        kept: NDArray[np.bool_] = numbers < offsets
        if len(self._numbers):
            at = np.minimum(np.searchsorted(self._numbers, numbers), len(self._numbers) - 1)
            kept &= (self._numbers[at] != numbers) | (offsets < self._ends[at])
        return kept


def _pairs(indexes: Sequence[Index], events: list[bytes]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The (event, number) pairs of all indexes."""
    rows, numbers = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for index in indexes:
        if len(index):
            matched = match_events(index, events)
            rows.append(rows_of_pairs(matched))
            numbers.append(matched.numbers)
    return np.concatenate(rows), np.concatenate(numbers)
