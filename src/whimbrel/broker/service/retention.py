"""Retention: the log is truncated by age and by bytes, and all that follows from it goes with it.

Upkeep calls `step` every second. A step deletes at most STEP_ENTRIES, so that appends never wait long. It never passes
the stamp of a fold; the folds of this module's own (store, lists, ids) are written to disk first where they are behind.
A cursor does not hold the log: its reader is told what it missed.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, time_ns

import numpy as np

from whimbrel.broker.requests import entries
from whimbrel.broker.requests.entries import FORWARDED_EVENTS, TENANT_EVENTS, Change, ForwardedEvents, TenantEvents
from whimbrel.broker.requests.envelope import BATCH_EVENTS
from whimbrel.broker.requests.settings import Settings
from whimbrel.broker.sequencing.request_group import Decide, IgnoredResult
from whimbrel.broker.service.opening import OpenedDirectory
from whimbrel.log import LogReader

ROUND_SECONDS = 1.0
"""How often retention looks at the log."""
STEP_ENTRIES = 1 << 16
"""Entries that one step deletes, at most."""
LETTER_SECONDS = 60.0
"""How often old dead letters and versions are deleted."""
_SPARE_KEYS = 100_000  # keys of ended versions that may be kept among the lost ones


class Retention:
    """Truncates the log of a broker. Used by the thread of upkeep only."""

    def __init__(self, opened: OpenedDirectory, settings: Settings, submit: Callable[[Decide], None]) -> None:
        self.truncated = 0
        """Entries deleted since the start."""
        self._opened = opened
        self._settings = settings
        self.stamps = opened.stamps
        self._submit = submit
        self._next = self._next_letters = 0.0
        self.stamps.join("store", lambda: opened.store.synced)
        self.stamps.join("matches", lambda: opened.lists.sealed)
        self.stamps.join("ids", lambda: opened.ids.filed)

    def step(self, end: int, index_stamp: int) -> None:
        """Truncate what is too old or too much, a step of it.

        Entries below `end` are folded; the saved index has seen all ends of versions below `index_stamp`.
        """
        if monotonic() < self._next:
            return
        self._next = monotonic() + ROUND_SECONDS
        opened, floor = self._opened, self._opened.writer.floor
        wanted = min(self._wanted(floor, end), floor + STEP_ENTRIES)
        before = 0
        if wanted > floor:
            self._bring_forward(wanted, end)
            before = boundary(opened.reader, min(wanted, self.stamps.lowest()))
        if before > floor:
            self.truncated += opened.writer.truncate(before).result()
            opened.lists.truncate(before)
            opened.ids.truncate(before)
            opened.history.truncate(before)
        if monotonic() >= self._next_letters:
            self._next_letters = monotonic() + LETTER_SECONDS
            self._prune(min(before or floor, index_stamp))
        if before < wanted or wanted == floor + STEP_ENTRIES:  # held up, or only a step
            self._next = 0.0

    def _wanted(self, floor: int, end: int) -> int:
        """The floor that the settings ask for."""
        wanted = floor
        if self._settings.retention_seconds > 0 and floor < end:
            oldest = time_ns() // 1000 - int(self._settings.retention_seconds * 1_000_000)
            wanted = self._opened.reader.first_since(oldest, min(end, floor + STEP_ENTRIES))
        used, _ = self._opened.reader.sizes
        limit = self._settings.retention_bytes
        if 0 < limit < used:  # entries are of about the same size; the next round looks again
            wanted = max(wanted, floor + -(-(end - floor) * (used - limit) // used))
        return min(wanted, end)

    def _bring_forward(self, wanted: int, end: int) -> None:
        """Write the store, the lists and the ids to disk where they would hold up the truncation."""
        opened = self._opened
        if opened.store.synced < wanted:
            opened.store.sync(end)
        if opened.lists.sealed < wanted:
            opened.lists.flush()
        if opened.ids.filed < wanted:

            def put_aside(offset: int) -> tuple[list[Change], object]:
                opened.ids.put_aside(offset)
                return [], None

            if opened.ids.sealed < wanted:
                self._submit(Decide(put_aside, IgnoredResult()))  # the next round finds it sealed
            opened.ids.flush()

    def _prune(self, floor: int) -> None:
        """Delete versions and letters whose time is over, and what is known of keys that nobody asks for."""
        opened = self._opened
        seconds = self._settings.retention_seconds
        opened.store.prune(floor, time_ns() // 1000 - int(seconds * 1_000_000) if seconds > 0 else 0)
        if len(opened.lists.lost.keys) > 2 * len(opened.index) + _SPARE_KEYS:
            opened.lists.forget_lost(np.array(opened.store.numbers(), np.int64))


def boundary(log: LogReader, before: int) -> int:
    """The highest offset, from the floor to `before`, at which a reader may begin.

    It knows the tenant and the origin of every event then: no event is separated from the entries that name them. The
    offset may lie a batch of events below `before`.
    """
    floor, end = log.bounds
    before = min(max(before, floor), end)
    lowest = before
    for kind in (TENANT_EVENTS, FORWARDED_EVENTS) if before > floor else ():
        found = log.last_of_kind(kind, max(floor, before - BATCH_EVENTS - 2), before)
        if found is not None:
            offset, payload = found
            entry = entries.decode(kind, payload)
            assert isinstance(entry, TenantEvents | ForwardedEvents)
            # Between a ForwardedEvents and its events a TenantEvents may stand.
            last = entry.events if isinstance(entry, TenantEvents) else len(entry.offsets) + 1
            lowest = min(lowest, before if offset + 1 + last <= before else offset)
    return lowest
