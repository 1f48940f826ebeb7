"""The segment set of an index, and how it changes: additions go to the head, a full head becomes a segment, and a
background thread merges segments as `merge_policy` says.

Who writes: whoever holds `lock`. What is swapped: `snapshot`, whole, by every change. Readers take the snapshot that
they find and never wait.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from whimbrel.engine.access.segment import Segment
from whimbrel.engine.access.warm_up import WARM_UP
from whimbrel.engine.live.check_table import grown
from whimbrel.engine.live.head import Head, HeadEntry
from whimbrel.engine.live.merge_policy import deaths_to_count, like_sized, merge_cost, mostly_dead, paid_for
from whimbrel.engine.live.snapshot import Snapshot
from whimbrel.model.event import Event

if TYPE_CHECKING:
    import pyarrow as pa

    from whimbrel.model.filter import Filter

HEAD_SIZE = 1_024
"""Subscriptions that the head holds before it becomes a segment."""
HEAD_NS = 10_000_000
"""Nanoseconds that searches may spend on the head, beyond what a segment would cost them, before it becomes one."""
COLD_NS = 2_000_000_000
"""The same while another process compiles the kernels that a segment needs: a small index does not wait for them."""
FANOUT = 4
"""Segments of like size that are merged into one."""
SEGMENT_NS, ENTRY_NS = 5_000, 7
"""What one more segment costs a single event, and an entry of the head any event, about."""
SPENT_AT_ONCE = 2_000_000
"""Nanoseconds that searches spend on several segments before merging is thought of again."""


class SegmentSet:
    """The current snapshot of an index, and the changes that replace it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.lock = threading.RLock()
        self.sample: pa.Table | list[Event] | None = None
        self._merger: threading.Thread | None = None
        self._deaths = 0  # since the dead of each segment were last counted
        self._count_at: int | None = None  # how many of these are needed to count again; None: `HEAD_SIZE`
        # Nanoseconds that searches have spent; of several threads, some may not be counted.
        self._spent = 0  # on all that could be merged
        self._due = SPENT_AT_ONCE  # when merging is thought of
        # A segment has cost searches `_on_each - _before[id(segment)]` since it was installed.
        self._on_each = 0
        self._before = {id(segment): 0 for segment in snapshot.segments}

    def ready(self) -> Snapshot:
        """A snapshot to match one event against; the caller searches its head too.

        Once searching has cost as much as a segment, the head becomes one, unless another thread holds the lock.
        """
        snapshot = self.snapshot
        if len(snapshot.segments) > 1 or snapshot.head_size:
            self._spend(snapshot, 1, SEGMENT_NS)
            return self._ready(snapshot)
        return snapshot

    def _ready(self, snapshot: Snapshot) -> Snapshot:
        if not snapshot.head_size or snapshot.head.spent <= HEAD_NS or is_evaluated(snapshot):
            return snapshot
        return self._flushed() or snapshot

    def ready_for_batch(self) -> Snapshot:
        """A snapshot for many events. If it has a head it has segments too, in whose ranks the head is searched.

        Where kernels are being compiled it may have a head alone, as long as `is_evaluated` says so.
        """
        snapshot = self._ready(self.snapshot)
        return snapshot if snapshot.segments or is_evaluated(snapshot) else self.compiled()

    def searched(self, snapshot: Snapshot, events: int, segment_ns: int) -> None:
        """Count that some events of a batch were matched, each of which one more segment costs `segment_ns`."""
        if len(snapshot.segments) > 1 or snapshot.head_size:
            head = snapshot.head
            head.spent = max(0, head.spent + events * (snapshot.head_size * ENTRY_NS - segment_ns))
            self._spend(snapshot, events, segment_ns)

    def _spend(self, snapshot: Snapshot, events: int, segment_ns: int) -> None:
        """Count what events have spent beyond one segment. Without segments there is nothing to merge."""
        if not snapshot.segments:
            return
        on_head = events * (segment_ns // 3 + snapshot.head_size * ENTRY_NS) if snapshot.head_size else 0
        snapshot.head.searched += on_head
        self._on_each += events * segment_ns
        self._spent += events * (len(snapshot.segments) - 1) * segment_ns + on_head
        if self._spent >= self._due and self.lock.acquire(blocking=False):
            try:
                self._due = self._spent + SPENT_AT_ONCE
                self._merge_soon()
            finally:
                self.lock.release()

    def compiled(self) -> Snapshot:
        """A snapshot without a head. While another thread holds the lock, the head is compiled for this caller only."""
        snapshot = self.snapshot
        if not snapshot.head_size:
            return snapshot
        flushed = self._flushed()
        if flushed is not None:
            return flushed
        segments = (*snapshot.segments, snapshot.head_segment(self.sample))
        return replace(snapshot, segments=segments, head=Head(), head_size=0)

    def _flushed(self) -> Snapshot | None:
        """Flush and return the snapshot; None while another thread holds the lock."""
        if not self.lock.acquire(blocking=False):
            return None
        try:
            self.flush()
            return self.snapshot
        finally:
            self.lock.release()

    def append(self, row: int, filter: Filter, died: int | None = None) -> None:
        """Put a filter into the head as the newest row. If it replaces row `died`, that dies in the same step."""
        old, rows = self.snapshot, row + 1
        if died is not None:
            old = self._with_death(_with_place(old, row, died), died, rows)
        entries = old.head.entries
        entries.append(HeadEntry(row, filter))
        self.snapshot = Snapshot(  # not `replace`, which takes twice as long
            old.segments, old.head, len(entries), rows, old.version, _grown(old.died, rows), _grown(old.moved, rows)
        )
        if len(entries) >= HEAD_SIZE:
            self.flush()
        elif died is not None and self._is_time_to_count():
            self._merge_soon()

    def append_many(self, first: int, filters: Sequence[Filter]) -> None:
        """Put filters into the head as the newest rows, from `first` on."""
        old, rows = self.snapshot, first + len(filters)
        old.head.entries.extend(map(HeadEntry, range(first, rows), filters))
        died, moved = _grown(old.died, rows), _grown(old.moved, rows)
        self.snapshot = replace(old, head_size=len(old.head.entries), rows=rows, died=died, moved=moved)

    def can_wait(self, more: int) -> bool:
        """Whether so many more subscriptions may stay in the head because the kernels are being compiled."""
        size = self.snapshot.head_size + more
        return not self.snapshot.segments and size < HEAD_SIZE and WARM_UP.is_compiling()

    def install(self, segment: Segment, rows: int) -> None:
        """Make the segment of a bulk load visible; the index then has `rows` rows."""
        old = self.snapshot
        died, moved = _grown(old.died, rows), _grown(old.moved, rows)
        self._before[id(segment)] = self._on_each
        self.snapshot = replace(old, segments=(*old.segments, segment), rows=rows, died=died, moved=moved)
        self._merge_soon()

    def kill(self, row: int, rows: int) -> None:
        """Mark a row as dead, in an index of `rows` rows."""
        self.snapshot = self._with_death(self.snapshot, row, rows)
        if self._is_time_to_count():
            self._merge_soon()

    def flush(self) -> None:
        """Make the head a segment."""
        old = self.snapshot
        segments = old.segments
        if any(True for _ in old.head_entries()):
            WARM_UP.begin()
            segments = (*segments, old.head_segment(self.sample))
            self._before[id(segments[-1])] = self._on_each - old.head.searched
        self.snapshot = replace(old, segments=segments, head=Head(), head_size=0)
        self._merge_soon()

    def plan_anew(self, sample: pa.Table | list[Event]) -> None:
        """Rebuild every segment for events like those of the sample."""
        self.sample = sample
        self.flush()
        old = self.snapshot
        segments = tuple(Segment.merged([segment], old.dead, self.sample) for segment in old.segments)
        self.snapshot = replace(old, segments=segments, died=None)

    def merge(self) -> None:
        """Merge everything into one segment now."""
        self.flush()
        old = self.snapshot
        if len(old.segments) > 1 or (old.segments and old.died is not None):
            merged = Segment.merged(old.segments, old.dead, self.sample)
            self.snapshot = replace(old, segments=(merged,), died=None)

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
        """Start the background merge if there are segments of like size, many deaths, or a merge is paid for."""
        if self._merger is None and (
            self._is_time_to_count() or like_sized(self._sizes(), HEAD_SIZE, FANOUT) or self._paid_for()
        ):
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

    def _sizes(self) -> list[int]:
        return [len(segment.rows) for segment in self.snapshot.segments]

    def _paid_for(self) -> list[int]:
        """The segments whose merge searches have paid for, by place; that of the head is behind the last one."""
        segments, head, sizes = self.snapshot.segments, self.snapshot.head, self._sizes()
        if not segments:
            return []
        self._before = {id(segment): self._before.get(id(segment), self._on_each) for segment in segments}
        largest = max(range(len(sizes)), key=lambda place: (sizes[place], place))
        self._before[id(segments[largest])] = self._on_each  # not charged: an index needs one segment anyway
        spent = [self._on_each - self._before[id(segment)] for segment in segments]
        if self.snapshot.head_size:
            sizes, spent = [*sizes, self.snapshot.head_size], [*spent, head.searched]
        return paid_for(sizes, spent)

    def _take_paid_for(self) -> list[int]:
        """The segments whose merge is paid for, by place. If the head's is, the head becomes a segment first."""
        places = self._paid_for()
        if len(self.snapshot.segments) in places:
            self.flush()
        places = [place for place in places if place < len(self.snapshot.segments)]
        return places if len(places) > 1 else []

    def _is_time_to_count(self) -> bool:
        return self._deaths >= (HEAD_SIZE if self._count_at is None else self._count_at)

    def _mostly_dead(self) -> list[int]:
        """The segments that are mostly dead, and smaller ones and the head with them, if it is time to count."""
        if not self._is_time_to_count():
            return []
        sizes = self._sizes()
        masks = [self.snapshot.dead(segment.rows) for segment in self.snapshot.segments]
        dead = [0 if mask is None else int(np.count_nonzero(mask)) for mask in masks]
        places = mostly_dead(sizes, dead)
        self._deaths, self._count_at = 0, None if places else deaths_to_count(sizes, dead, HEAD_SIZE)
        if places:
            self.flush()
        return [*places, len(sizes)] if places and len(self.snapshot.segments) > len(sizes) else places

    def _merge_some(self) -> bool:
        """Make one merge, and return whether there was one to make. The lock is not held while segments are merged."""
        with self.lock:
            places = self._mostly_dead() or like_sized(self._sizes(), HEAD_SIZE, FANOUT) or self._take_paid_for()
            snapshot = self.snapshot
            chosen = [snapshot.segments[place] for place in places]
            if not chosen:
                self._merger = None
                return False
        merged = Segment.merged(chosen, snapshot.dead, self.sample)
        merged.open()  # here, and not while an event waits
        with self.lock:
            now = self.snapshot
            if set(map(id, chosen)) <= set(map(id, now.segments)):  # unless `merge` or `plan_anew` replaced them
                kept = [segment for segment in now.segments if not any(segment is one for one in chosen)]
                spent = sum(self._on_each - self._before.get(id(one), self._on_each) for one in chosen)
                left = max(0, spent - merge_cost(sum(len(one.rows) for one in chosen)))
                self._before[id(merged)] = self._on_each - left
                self.snapshot = _without_deaths(replace(now, segments=(*kept, merged)))
        return True


def is_evaluated(snapshot: Snapshot) -> bool:
    """Whether the filters of an index without segments are to be evaluated, because its kernels are being compiled."""
    if snapshot.segments or not 0 < snapshot.head_size < HEAD_SIZE or snapshot.head.spent > COLD_NS:
        return False
    WARM_UP.begin()
    return WARM_UP.is_compiling()


def _without_deaths(snapshot: Snapshot) -> Snapshot:
    """The snapshot without its table of deaths, if it is one segment and all dead rows are gone."""
    if snapshot.died is None or len(snapshot.segments) > 1 or snapshot.head_size:
        return snapshot
    dead = snapshot.dead(snapshot.segments[0].rows)
    return snapshot if dead is not None and dead.any() else replace(snapshot, died=None)


def _grown(by_row: np.ndarray | None, rows: int) -> np.ndarray | None:
    return None if by_row is None else grown(by_row, rows)


def _with_place(old: Snapshot, row: int, died: int) -> Snapshot:
    """Give the new row the place of the row that dies."""
    moved = grown(np.zeros(max(1_024, 2 * row), np.int32) if old.moved is None else old.moved, row + 1)
    moved[row] = died + moved[died] - row
    return replace(old, moved=moved)
