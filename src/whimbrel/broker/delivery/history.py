"""Finds the early matches of a subscription: events that were stored before it was created, if it starts earlier.

The log is scanned once, in steps, with the filter of the subscription's first version. The offsets found are kept in
memory and, when the scan is through, in a file. Without the file the log is scanned again.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from whimbrel.broker.requests import entries
from whimbrel.broker.requests.entries import SubscriptionPut
from whimbrel.broker.store import StoredSubscription
from whimbrel.engine.index import Index
from whimbrel.log import EVENT, LogReader
from whimbrel.log.matched_numbers import match_events
from whimbrel.model.schema import Schema
from whimbrel.model.token_rules import Rules, allows_text
from whimbrel.storage.array_file import open_file, write_file
from whimbrel.storage.atomic import make_directory
from whimbrel.storage.errors import SavedIndexError

STEP_SECONDS = 2.0
"""How long one read goes on scanning before it answers with what it has."""
_CHUNK = 1_024
_SUFFIX = ".history"

logger = logging.getLogger("whimbrel.broker")


def scan(
    reader: LogReader, index: Index, rules: Rules, start: int, end: int
) -> Iterator[tuple[int, list[tuple[int, bytes]]]]:
    """Match the stored events of [start, end) against an index.

    Yields, chunk by chunk, the offset behind the chunk, and offset and bytes of the events that matched.
    """
    for chunk in reader.chunks(start, end, _CHUNK) if start < end else ():
        events = [(offset, event) for offset, _, kind, event, _ in chunk if kind == EVENT]
        matched = match_events(index, [event for _, event in events])
        hits = np.flatnonzero(np.diff(matched.offsets)).tolist()
        found = [events[hit] for hit in hits]
        if rules:
            found = [one for one in found if allows_text(rules, one[1], index.timestamps)]
        yield chunk[-1][0] + 1, found


@dataclass(eq=False)
class _Scan:
    """The state of one scan."""

    reached: int
    lock: threading.Lock = field(default_factory=threading.Lock)
    found: list[int] = field(default_factory=list)
    index: Index | None = None


@dataclass(eq=False)
class History:
    """The early matches of subscriptions. May be used from any thread; each scan runs in one thread at a time."""

    _directory: Path
    _reader: LogReader
    _timestamps: frozenset[str]
    _schema: Schema | None = None

    def __post_init__(self) -> None:
        make_directory(self._directory)
        self._lock = threading.Lock()
        self._scans: dict[int, _Scan] = {}
        self._done: dict[int, NDArray[np.int64]] = {}

    def find(self, subscription: StoredSubscription, after: int, limit: int) -> tuple[NDArray[np.int64], bool]:
        """At most `limit` early matches above `after`. The flag is False while the scan goes on: more may come."""
        if subscription.start is None or after >= subscription.first - 1:
            return np.zeros(0, np.int64), True
        floor = self._reader.floor
        if subscription.first <= floor:
            return np.zeros(0, np.int64), True
        after = max(after, floor - 1)
        done = self._saved(subscription.first)
        if done is not None:
            place = int(np.searchsorted(done, after, "right"))
            return done[place : place + limit], True
        scan = self._scan(subscription)
        with scan.lock:
            self._go_on(subscription, scan, after, limit)
            place = bisect_right(scan.found, after)
            complete = scan.reached >= subscription.first
            if complete:
                self._save(subscription.first, np.array(scan.found, np.int64))
            return np.array(scan.found[place : place + limit], np.int64), complete

    def has_lost(self, subscription: StoredSubscription, after: int, floor: int) -> bool:
        """Whether truncation deleted early matches above `after`; assumed where the log was not searched for them."""
        start = subscription.start
        if start is None or start >= floor or after >= subscription.first - 1:
            return False
        done = self._saved(subscription.first)
        if done is None:
            scan = self._scans.get(subscription.first)
            if scan is None or scan.reached < floor:
                return True
            done = np.array(scan.found, np.int64)
        behind = done[np.searchsorted(done, after, "right") :]
        return bool(len(behind)) and int(behind[0]) < floor

    def truncate(self, floor: int) -> None:
        """Forget the matches of subscriptions that were created below `floor`, where the log starts now."""
        for path in self._directory.glob(f"*{_SUFFIX}"):
            if path.stem.isdigit() and int(path.stem) <= floor:
                self.forget(int(path.stem))

    def _go_on(self, subscription: StoredSubscription, state: _Scan, after: int, limit: int) -> None:
        """Scan until `limit` matches above `after` are found, the creation is reached, or the time is up."""
        put = entries.decode(*self._reader.pick([subscription.first])[0][2:4])
        assert isinstance(put, SubscriptionPut)
        if state.index is None:
            state.index = Index(self._timestamps, self._schema)
            state.index.add(subscription.first, put.text, put.dialect)
        deadline = monotonic() + STEP_SECONDS
        wanted = limit + bisect_right(state.found, after)
        start = max(state.reached, self._reader.floor)
        for reached, found in scan(self._reader, state.index, put.rules, start, subscription.first):
            state.found += [offset for offset, _ in found]
            state.reached = reached
            if len(state.found) >= wanted or monotonic() > deadline:
                return
        state.reached = subscription.first

    def _scan(self, subscription: StoredSubscription) -> _Scan:
        with self._lock:
            found = self._scans.get(subscription.first)
            if found is None:
                found = self._scans[subscription.first] = _Scan(subscription.start or 0)
            return found

    def _saved(self, number: int) -> NDArray[np.int64] | None:
        done = self._done.get(number)
        if done is None and self._path(number).exists():
            try:
                done = self._done[number] = open_file(self._path(number), thing="early matches")[0]["offsets"]
            except (SavedIndexError, KeyError):
                return None
        return done

    def _save(self, number: int, offsets: NDArray[np.int64]) -> None:
        self._done[number] = offsets
        try:
            write_file(self._path(number), {"offsets": offsets}, {"number": number})
        except OSError as error:  # a full disk: they are in memory, and the log is searched again after a restart
            logger.warning("early matches could not be stored: %s", error)
        with self._lock:
            self._scans.pop(number, None)

    def forget(self, number: int) -> None:
        """Delete what is known of a subscription, by its first number."""
        with self._lock:
            self._scans.pop(number, None)
        self._done.pop(number, None)
        self._path(number).unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:020d}{_SUFFIX}"
