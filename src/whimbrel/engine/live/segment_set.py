"""The parts of an index, and how they change: additions go to the head, full heads become segments, and a background
thread merges segments of like size.

Whoever changes them holds the lock. Readers take the snapshot that they find, and never wait.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from whimbrel.engine import ahead
from whimbrel.engine.access.segment import Segment
from whimbrel.engine.live import segment_builder
from whimbrel.engine.live.snapshot import HeadEntry, Snapshot
from whimbrel.model.event import Event

if TYPE_CHECKING:
    import pyarrow as pa

    from whimbrel.model.filter import Filter

HEAD = 1_024
"""Subscriptions that the head holds before it becomes a segment."""
HEAD_CHECKED = 1_024
"""Entries of the head that matches check one by one, all together, before it is made a segment: that costs as much."""
FANOUT = 4
"""Segments of like size that are merged into one."""


class SegmentSet:
    """The snapshot of an index, which every change replaces."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.lock = threading.RLock()
        self.sample: pa.Table | list[Event] | None = None
        self._merger: threading.Thread | None = None
        self._checked = 0
        self._deaths = 0

    def ready(self) -> Snapshot:
        """A snapshot whose head is to be checked entry by entry.

        Once that has cost as much as a segment, the head becomes one, unless another thread is changing it.
        """
        snapshot = self.snapshot
        if not snapshot.head_size:
            return snapshot
        self._checked += snapshot.head_size
        return snapshot if self._checked <= HEAD_CHECKED else self._flushed() or snapshot

    def compiled(self) -> Snapshot:
        """A snapshot without a head; while another thread holds the lock, it is made for this caller only."""
        snapshot = self.snapshot
        if not snapshot.head_size:
            return snapshot
        flushed = self._flushed()
        if flushed is not None:
            return flushed
        own = segment_builder.build_from_head(list(snapshot.head_entries()), self.sample)
        return replace(snapshot, segments=(*snapshot.segments, own), head=[], head_size=0)

    def _flushed(self) -> Snapshot | None:
        """The snapshot after the head was made a segment; None while another thread holds the lock."""
        if not self.lock.acquire(blocking=False):
            return None
        try:
            self.flush()
            return self.snapshot
        finally:
            self.lock.release()

    def append(self, row: int, filter: Filter, died: int | None = None) -> None:
        """Put a filter into the head with the newest row, and kill the row that it replaces, in one step."""
        old, rows = self.snapshot, row + 1
        if died is not None:
            old = self._with_death(_with_place(old, row, died), died, rows)
        old.head.append(HeadEntry(row, filter))
        self.snapshot = Snapshot(  # not `replace`, which takes twice as long
            old.segments, old.head, len(old.head), rows, old.version, _roomy(old.died, rows), _roomy(old.moved, rows)
        )
        if len(old.head) >= HEAD:
            self.flush()

    def install(self, segment: Segment, rows: int) -> None:
        """Make the segment of a bulk load visible, after which there are so many rows."""
        old = self.snapshot
        died, moved = _roomy(old.died, rows), _roomy(old.moved, rows)
        self.snapshot = replace(old, segments=(*old.segments, segment), rows=rows, died=died, moved=moved)
        self._merge_soon()

    def kill(self, row: int, rows: int) -> None:
        """Let one of so many rows be dead from now on."""
        self.snapshot = self._with_death(self.snapshot, row, rows)
        if self._many_died():
            self._merge_soon()

    def flush(self) -> None:
        """Make the head a segment."""
        old = self.snapshot
        entries = list(old.head_entries())
        segments = old.segments
        if entries:
            ahead.begin()
            segments = (*segments, segment_builder.build_from_head(entries, self.sample))
        self.snapshot = replace(old, segments=segments, head=[], head_size=0)
        self._checked = 0
        self._merge_soon()

    def plan_anew(self, sample: pa.Table | list[Event]) -> None:
        """Make every segment again, for events like those of the sample."""
        self.sample = sample
        self.flush()
        old = self.snapshot
        segments = tuple(segment_builder.merge([segment], old.dead, self.sample) for segment in old.segments)
        self.snapshot = replace(old, segments=segments, died=None)

    def merge(self) -> None:
        """Merge everything into one segment now."""
        self.flush()
        old = self.snapshot
        if len(old.segments) > 1 or (old.segments and old.died is not None):
            self.snapshot = replace(
                old, segments=(segment_builder.merge(old.segments, old.dead, self.sample),), died=None
            )

    @property
    def merging(self) -> bool:
        """Whether segments are being merged in the background."""
        return self._merger is not None

    def _with_death(self, old: Snapshot, row: int, rows: int) -> Snapshot:
        self._deaths += 1
        died = np.zeros(max(1_024, 2 * rows), np.int32) if old.died is None else old.died
        died[row] = old.version + 1
        return replace(old, died=died, version=old.version + 1)

    def _merge_soon(self) -> None:
        """Start the background merge if there are segments of like size, or many deaths."""
        if self._merger is None and (self._many_died() or _mergeable(self.snapshot.segments)):
            self._merger = threading.Thread(target=self._merge_in_background, name="whimbrel-merge", daemon=True)
            self._merger.start()

    def _merge_in_background(self) -> None:
        try:
            while self._merge_some():
                pass
        except BaseException:
            with self.lock:
                self._merger = None  # the next full head tries again
            raise

    def _many_died(self) -> bool:
        """Whether a third of all that segments hold may have died since that was last looked at."""
        return self._deaths >= HEAD and self._deaths >= sum(map(_size, self.snapshot.segments)) / 3

    def _mostly_dead(self) -> list[Segment]:
        """Segments that would be half as large without their dead, if it is time to look for them."""
        if not self._many_died():
            return []
        self._deaths, snapshot = 0, self.snapshot
        found = []
        for segment in snapshot.segments:
            dead = snapshot.dead(segment.slots)
            if dead is not None and len(dead) and dead.mean() >= 0.5:
                found.append(segment)
        return found

    def _merge_some(self) -> bool:
        """Merge the segments of one size, or those that are mostly dead; whether there were any."""
        with self.lock:
            snapshot = self.snapshot
            chosen = self._mostly_dead() or _mergeable(snapshot.segments)
            if not chosen:
                self._merger = None
                return False
        merged = segment_builder.merge(chosen, snapshot.dead, self.sample)
        with self.lock:
            now = self.snapshot
            if set(map(id, chosen)) <= set(map(id, now.segments)):  # unless `merge` or `plan_anew` replaced them
                kept = [segment for segment in now.segments if not any(segment is one for one in chosen)]
                self.snapshot = replace(now, segments=(*kept, merged))
        return True


def _roomy(by_row: np.ndarray | None, rows: int) -> np.ndarray | None:
    """An array with a number for every row, if there is one, with room for so many."""
    if by_row is None or len(by_row) >= rows:
        return by_row
    larger = np.zeros(2 * rows, np.int32)
    larger[: len(by_row)] = by_row
    return larger


def _with_place(old: Snapshot, row: int, died: int) -> Snapshot:
    """The new row gets the place of the one that dies."""
    empty = np.zeros(max(1_024, 2 * row), np.int32) if old.moved is None else old.moved
    moved = cast("np.ndarray", _roomy(empty, row + 1))
    moved[row] = died + moved[died] - row
    return replace(old, moved=moved)


def _size(segment: Segment) -> int:
    return cast("int", segment.meta["subscriptions"])


def _mergeable(segments: Sequence[Segment]) -> list[Segment]:
    """Segments of like size that should be one, or none."""
    tiers: dict[int, list[Segment]] = {}
    for segment in segments:
        tier = max(0, (_size(segment) // HEAD).bit_length() // 2)
        tiers.setdefault(tier, []).append(segment)
    for tier in sorted(tiers):
        if len(tiers[tier]) >= FANOUT:
            return tiers[tier]
    return []
