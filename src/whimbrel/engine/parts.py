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

from whimbrel.engine import ahead, writer
from whimbrel.engine.segment import Segment
from whimbrel.engine.snapshot import HeadEntry, Snapshot
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


class Parts:
    """The snapshot of an index, which every change replaces."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.lock = threading.RLock()
        self.sample: pa.Table | list[Event] | None = None
        self._merger: threading.Thread | None = None
        self._places_kept = HEAD
        self._checked = 0

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
        own = writer.build_from_head(list(snapshot.head_entries()), self.sample)
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

    def append(self, slot: int, filter: Filter, died: int | None = None) -> None:
        """Put a filter into the head with the newest slot, and kill the slot that it replaces, in one step."""
        old, slots = self.snapshot, slot + 1
        if died is not None:
            old.places[slot] = old.places.get(died, died)
            old = _with_death(old, died, slots)
        old.head.append(HeadEntry(slot, filter))
        self.snapshot = Snapshot(  # not `replace`, which takes twice as long
            old.segments, old.head, len(old.head), slots, old.version, _roomy(old.died, slots), old.places
        )
        if len(old.head) >= HEAD:
            self.flush()

    def install(self, segment: Segment, slots: int) -> None:
        """Make the segment of a bulk load visible, after which there are so many slots."""
        old = self.snapshot
        self.snapshot = replace(old, segments=(*old.segments, segment), slots=slots, died=_roomy(old.died, slots))
        self._merge_soon()

    def kill(self, slot: int, slots: int) -> None:
        """Let one of so many slots be dead from now on."""
        self.snapshot = _with_death(self.snapshot, slot, slots)

    def flush(self) -> None:
        """Make the head a segment."""
        old = self.snapshot
        entries = list(old.head_entries())
        segments = old.segments
        if entries:
            ahead.begin()
            segments = (*segments, writer.build_from_head(entries, self.sample))
        self.snapshot = replace(old, segments=segments, head=[], head_size=0, places=self._live_places(old))
        self._checked = 0
        self._merge_soon()

    def plan_anew(self, sample: pa.Table | list[Event]) -> None:
        """Make every segment again, for events like those of the sample."""
        self.sample = sample
        self.flush()
        old = self.snapshot
        segments = tuple(writer.merge([segment], old.dead, self.sample) for segment in old.segments)
        self.snapshot = replace(old, segments=segments)

    def merge(self) -> None:
        """Merge everything into one segment now."""
        self.flush()
        old = self.snapshot
        if len(old.segments) > 1 or (old.segments and old.died is not None):
            self.snapshot = replace(old, segments=(writer.merge(old.segments, old.dead, self.sample),))

    @property
    def merging(self) -> bool:
        """Whether segments are being merged in the background."""
        return self._merger is not None

    def _live_places(self, snapshot: Snapshot) -> dict[int, int]:
        """The places, without those of dead slots once these may be most of them."""
        places = snapshot.places
        if len(places) <= self._places_kept:
            return places
        living = {slot: place for slot, place in places.items() if not snapshot.is_dead(slot)}
        self._places_kept = max(HEAD, 2 * len(living))
        return living

    def _merge_soon(self) -> None:
        """Start the background merge if there are segments of like size."""
        if self._merger is None and _mergeable(self.snapshot.segments):
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

    def _merge_some(self) -> bool:
        """Merge the segments of one size; whether there were any."""
        with self.lock:
            snapshot = self.snapshot
            chosen = _mergeable(snapshot.segments)
            if not chosen:
                self._merger = None
                return False
        merged = writer.merge(chosen, snapshot.dead, self.sample)
        with self.lock:
            now = self.snapshot
            if set(map(id, chosen)) <= set(map(id, now.segments)):  # unless `merge` or `plan_anew` replaced them
                kept = [segment for segment in now.segments if not any(segment is one for one in chosen)]
                self.snapshot = replace(now, segments=(*kept, merged))
        return True


def _roomy(died: np.ndarray | None, slots: int) -> np.ndarray | None:
    """The versions of deaths, if there are any, with room for so many slots."""
    if died is None or len(died) >= slots:
        return died
    larger = np.zeros(2 * slots, np.int32)
    larger[: len(died)] = died
    return larger


def _with_death(old: Snapshot, slot: int, slots: int) -> Snapshot:
    died = np.zeros(max(1_024, 2 * slots), np.int32) if old.died is None else old.died
    died[slot] = old.version + 1
    return replace(old, died=died, version=old.version + 1)


def _mergeable(segments: Sequence[Segment]) -> list[Segment]:
    """Segments of like size that should be one, or none."""
    tiers: dict[int, list[Segment]] = {}
    for segment in segments:
        size = cast("int", segment.meta["subscriptions"])
        tier = max(0, (size // HEAD).bit_length() // 2)
        tiers.setdefault(tier, []).append(segment)
    for tier in sorted(tiers):
        if len(tiers[tier]) >= FANOUT:
            return tiers[tier]
    return []
