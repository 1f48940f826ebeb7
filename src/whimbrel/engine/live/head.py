"""The head: the newest subscriptions, which no segment holds yet.

An event is encoded for every segment anyway, so the head uses these ranks: each entry goes into a table of checks
(`check_table`) in the ranks of the segment that knows most of its attributes. A change costs one entry. Without
segments, filters are evaluated one by one.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from whimbrel.engine.access.segment import Segment
from whimbrel.engine.live.check_table import CheckTable
from whimbrel.model.event import AnyEvent, Event
from whimbrel.model.filter import Filter

EVALUATE_NS, EVALUATE_IN_BATCH_NS = 10_000, 100_000
"""What it costs to evaluate a filter, about: on a single event, and on one of a batch, which must be read again."""


@dataclass(frozen=True, slots=True)
class HeadEntry:
    """A subscription that no segment holds yet."""

    row: int
    filter: Filter


class BuiltHead(NamedTuple):
    """The first `size` entries as a segment, without those that were dead at a version."""

    size: int
    version: int
    segment: Segment


class Head:
    """Entries in order of addition. One thread at a time appends; any number search, each among the first `size`.

    The first search that needs an entry puts it into a table of checks, so that adding stays cheap.
    """

    def __init__(self) -> None:
        self.entries: list[HeadEntry] = []
        self.spent = 0
        """About the nanoseconds that searches spent on the head beyond what a segment would have cost them."""
        self.searched = 0
        """About the nanoseconds that searches spent on the head altogether."""
        self.built: BuiltHead | None = None
        self._extending = threading.Lock()
        self._tables: _HeadTables | None = None

    def search(self, size: int, event: AnyEvent, timestamps: Collection[str]) -> list[int]:
        """The rows of the first `size` entries that match an event; evaluates all their filters."""
        whole = Event.of(event, timestamps)
        self.spent += size * EVALUATE_NS
        return [
            entry.row
            for entry in islice(self.entries, size)
            if any(conjunction.matches(whole) for conjunction in entry.filter.conjunctions)
        ]

    def must_become_segment(self) -> None:
        """Count the head as one whose searches cost more than a segment, so that it becomes one soon."""
        self.spent = 1 << 60

    def filter(self, row: int) -> Filter | None:
        """The filter of a row; None if it is not in the head."""
        place = bisect_left(self.entries, row, key=lambda entry: entry.row)
        return self.entries[place].filter if place < len(self.entries) and self.entries[place].row == row else None

    def tables(self, segments: tuple[Segment, ...], size: int) -> Mapping[int, CheckTable]:
        """The tables of checks of the first `size` entries, by `id()` of their segment."""
        found = self._tables
        if found is None or found.segments is not segments or found.count < size:
            with self._extending:
                found = self._tables
                if found is None or found.segments is not segments:  # some were merged
                    found = self._tables = _HeadTables(segments)
                found.extend(self.entries, size)
        return found.tables


class _HeadTables:
    """The tables of checks of the entries, in the ranks of some segments."""

    def __init__(self, segments: tuple[Segment, ...]) -> None:
        self.segments = segments
        self.count = 0
        self.tables: dict[int, CheckTable] = {}

    def extend(self, entries: list[HeadEntry], size: int) -> None:
        """Add entries to the tables until they have `size`. Searches may run at the same time."""
        for number in range(self.count, size):
            entry = entries[number]
            best = max(self.segments, key=lambda one: (_known(one, entry.filter), len(one.rows)))
            table = self.tables.get(id(best)) or CheckTable(best.dictionary)
            table.append(number, entry.row, entry.filter.conjunctions)
            if id(best) not in self.tables:
                self.tables = {**self.tables, id(best): table}
            self.count = number + 1


def _known(segment: Segment, filter: Filter) -> int:
    """How many attributes of a filter a segment knows."""
    sources = segment.dictionary.sources
    return sum(name in sources for name in filter.attributes)
