"""A snapshot: what the index is at one moment. Readers take one and never block; the writer replaces it.

A row names one filter of one subscription and is never used again: replacing a filter kills its row and takes a new
one. Segments are immutable. Deaths are written in place with the version at which they happen (`died`), so a
snapshot sees exactly those up to its own version. The head only grows; a snapshot knows how much of it is its own. A
row that replaced another takes its place in results: `moved` has the distance, which never changes once the row is
visible.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from whimbrel.engine.access.segment import Segment
from whimbrel.engine.access.shared.packing import FEW, leave_out_dead, sort_by_place
from whimbrel.engine.live.check_table import CheckTable
from whimbrel.engine.live.head import BuiltHead, Head, HeadEntry
from whimbrel.model.event import AnyEvent


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Segments, the first `head_size` entries of the head, and the deaths up to `version`."""

    segments: tuple[Segment, ...] = ()
    head: Head = field(default_factory=Head)
    head_size: int = 0
    rows: int = 0  # all rows are below this number
    version: int = 0
    died: np.ndarray | None = None  # int32 by row: the version of its death, 0 while it lives; None: no deaths
    moved: np.ndarray | None = None  # int32 by row: its place in results minus the row; None: all are in place

    def is_dead(self, row: int) -> bool:
        """Whether the row was dead at this moment."""
        return self.died is not None and 0 < int(self.died[row]) <= self.version

    def dead(self, rows: np.ndarray) -> np.ndarray | None:
        """Which of the rows were dead at this moment; None if there were no deaths at all."""
        if self.died is None:
            return None
        died = self.died[rows]
        dead: np.ndarray = (died > 0) & (died <= self.version)
        return dead

    def living(self, offsets: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The rows (with flags) of several events without the dead ones; changes both arrays in place."""
        if self.died is None:
            return rows
        return rows[: leave_out_dead(offsets, rows, self.died, self.version)]

    def places(self, rows: np.ndarray) -> np.ndarray:
        """The places of rows in results: a row that replaced another takes its place."""
        return rows if self.moved is None else rows + self.moved[rows]

    def in_order(self, rows: np.ndarray) -> np.ndarray:
        """The rows in order of addition; may sort them in place."""
        if self.moved is None:
            rows.sort()
            return rows
        if len(rows) <= FEW:
            sort_by_place(rows, self.moved)
            return rows
        both = (self.places(rows).astype(np.int64) << 32) | rows  # a fourth of the time of argsort
        both.sort()
        ordered: np.ndarray = (both & 0xFFFFFFFF).astype(np.int32)
        return ordered

    def attributes(self) -> frozenset[str]:
        """The attributes that some filter mentions."""
        names = {name for segment in self.segments for name in segment.attributes}
        return frozenset(names.union(*(entry.filter.attributes for entry in self.head_entries())))

    def tables(self) -> Mapping[int, CheckTable]:
        """The tables of checks of the head, by `id()` of the segment in whose ranks they are."""
        return self.head.tables(self.segments, self.head_size) if self.head_size and self.segments else {}

    def head_segment(self, sample: object = None) -> Segment:
        """The head as a segment, which is kept with it. It lacks the rows that were dead when it was made."""
        built = self.head.built
        if built is None or built.size != self.head_size or built.version > self.version:
            entries = list(self.head_entries())
            segment = Segment.of_filters([one.row for one in entries], [one.filter for one in entries], sample)
            segment.open()
            built = self.head.built = BuiltHead(self.head_size, self.version, segment)
        return built.segment

    def search_head(self, event: AnyEvent, timestamps: Collection[str]) -> np.ndarray:
        """The living rows of the head that match an event; evaluates all filters."""
        found = self.head.search(self.head_size, event, timestamps)
        return np.array([row for row in found if not self.is_dead(row)], np.int32)

    def head_entries(self) -> Iterator[HeadEntry]:
        """The living entries of the head."""
        for place in range(self.head_size):
            entry = self.head.entries[place]
            if not self.is_dead(entry.row):
                yield entry
