"""Append to a log: one writer, with group commit.

Callers put entries into a queue and get a future. One thread takes all waiting entries, writes them in one transaction,
and completes the futures when SQLite has synced it to disk. While a sync runs the next group gathers, so the rate of
appends does not depend on the rate of syncs.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from time import time_ns
from typing import Any, Self, TypeAlias

from whimbrel.log import file
from whimbrel.log.checkpointer import Checkpointer
from whimbrel.log.errors import BeyondEnd, LogClosed, LogFailed, LogLocked
from whimbrel.log.match_list import encode
from whimbrel.log.reader import state
from whimbrel.model.limits import LOG_ENTRY_BYTES
from whimbrel.storage.atomic import sync
from whimbrel.storage.errors import Locked
from whimbrel.storage.lock import OwnerLock

Matches: TypeAlias = Iterable[int] | None
LOCK_NAME = "writer.lock"

_Row: TypeAlias = tuple[int, int, int, bytes, bytes | None, int]
"""Offset, time, kind, event, match list, checksum: the columns of the table `entry`."""
_Encoded: TypeAlias = tuple[int, int, bytes, bytes | None, int]
"""A row without its offset, and a checksum without it."""
_DELETED_AT_ONCE = 4_096
"""Entries that a truncation deletes at once; an append waits for one such chunk at most."""
_DELETED_BYTES = 512
"""Bytes that deleting an entry writes to the write-ahead log, about."""


def lock_for_writing(directory: Path) -> OwnerLock:
    """The lock that the one writer of a log holds; LogLocked if another has it."""
    try:
        return OwnerLock(directory / LOCK_NAME)
    except Locked as locked:
        raise LogLocked(directory, locked.owner) from None


@dataclass(frozen=True, slots=True)
class _Request:
    """Entries that become durable together, and the future that then gets their offset or range of offsets."""

    rows: list[_Row]
    future: Future[Any]
    result: int | range
    size: int


class LogWriter:
    """The one writer of the log in `directory`, which is created if it is missing.

    An entry is acknowledged when its future is done: then it is on disk and every reader sees it. Offsets follow the
    order of the calls, without gaps. One transaction takes at most `group_rows` entries; those of one call stay
    together. While `pending_bytes` are waiting, further calls block. When a write fails (disk full, failed sync) the
    writer stops for good: entries that were not acknowledged, and all later calls, get LogFailed.

    All methods may be called from any thread. Callbacks of futures run in the writing thread: keep them short.
    """

    def __init__(self, directory: str | Path, *, group_rows: int = 4_096, pending_bytes: int = 64 << 20) -> None:
        self.directory = Path(directory)
        self._group_rows = group_rows
        self._pending_limit = pending_bytes
        self.directory.mkdir(parents=True, exist_ok=True)
        self._lock = lock_for_writing(self.directory)
        try:
            self._connection = file.open_for_writing(self.directory)
            self._floor, self._end, self.id = state(self._connection)
            self._connection.execute("PRAGMA wal_autocheckpoint = 0")
            sync(self.directory)
            sync(self.directory.absolute().parent)
            self._checkpointer = Checkpointer(self.directory, self._checkpoint_failed)
        except BaseException:
            self._lock.release()
            raise
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._queue: deque[_Request] = deque()
        self._waiting_bytes = 0
        self._truncations: deque[tuple[int, Future[int]]] = deque()
        self._closing = False
        self._failure: str | None = None
        self._broken: Exception | None = None  # the error of a checkpoint
        # Only the writing thread uses these.
        self._group: list[_Request] = []
        self._durable = self._end
        self._deleting: tuple[int, Future[int]] | None = None
        self._deleted = 0
        self._thread = threading.Thread(target=self._run, name="whimbrel-log", daemon=True)
        self._thread.start()

    @property
    def floor(self) -> int:
        """The lowest offset that can be read."""
        return self._floor

    @property
    def end(self) -> int:
        """The offset that the next entry will get. Entries below it may not be on disk yet."""
        return self._end

    @property
    def waiting_bytes(self) -> int:
        """The approximate bytes of entries that are not on disk yet."""
        return self._waiting_bytes

    def append(self, event: bytes, matches: Matches = None, *, kind: int = file.EVENT) -> Future[int]:
        """Append one entry. The future gives its offset once it is on disk.

        `matches` are the numbers of the subscriptions that it matched; None if it was not matched yet.
        """
        return self._submit([_encoded(event, matches, kind)], single=True)

    def append_many(self, entries: Iterable[tuple[bytes, Matches]], *, kind: int = file.EVENT) -> Future[range]:
        """Append (event, matches) pairs that become durable together. The future gives their offsets."""
        rows = [_encoded(event, matches, kind) for event, matches in entries]
        return self._submit(rows, single=False)

    def append_rows(self, rows: Sequence[tuple[int, bytes, bytes | None]]) -> Future[range]:
        """Append (kind, event, coded match list) rows that become durable together; see `match_list.encode_all`.

        Costs less per entry than `append_many`: all get the same time.
        """
        now, checksum = time_ns() // 1000, file.checksum
        encoded = [(now, kind, event, coded, checksum(event, coded)) for kind, event, coded in rows]
        for kind in {kind for kind, _, _ in rows}:
            _check_kind(kind)
        LOG_ENTRY_BYTES.check(max((len(event) + len(coded or b"") for _, event, coded in rows), default=0))
        return self._submit(encoded, single=False)

    def truncate(self, before: int) -> Future[int]:
        """Delete all entries below `before`, which becomes the floor. The future gives the number of deleted entries.

        The floor is on disk before the first entry is deleted. Entries are deleted in chunks, between appends; if that
        is interrupted, the next writer finishes it. The floor never falls: truncating below it does nothing.
        """
        future: Future[int] = Future()
        self._check_process()
        with self._changed:
            self._check()
            if before > self._end:
                raise BeyondEnd(self.directory, before, self._end)
            self._truncations.append((before, future))
            self._changed.notify_all()
        return future

    def close(self) -> None:
        """Write all waiting entries, then release the log; a second call does nothing."""
        if os.getpid() != self._process:
            return
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self) -> None:
        if self._failure is not None:
            raise LogFailed(self.directory, self._failure)
        if self._closing:
            raise LogClosed(self.directory)

    def _check_process(self) -> None:
        if os.getpid() != self._process:  # checked before any lock is taken, as a fork copies locks in their state
            raise LogClosed(self.directory)

    def _submit(self, encoded: list[_Encoded], single: bool) -> Future[Any]:
        future: Future[Any] = Future()
        size = sum(len(event) + len(coded or b"") + 64 for _, _, event, coded, _ in encoded)
        self._check_process()
        with self._changed:
            self._check()
            while self._waiting_bytes and self._waiting_bytes + size > self._pending_limit:
                self._changed.wait()
                self._check()
            first = self._end
            rows = [
                (first + place, time, kind, event, coded, file.placed(first + place, checksum))
                for place, (time, kind, event, coded, checksum) in enumerate(encoded)
            ]
            self._end += len(rows)
            if not rows:
                future.set_result(range(first, first))
                return future
            self._queue.append(_Request(rows, future, first if single else range(first, self._end), size))
            self._waiting_bytes += size
            self._changed.notify_all()
        return future

    def _run(self) -> None:
        """The writing thread: write groups of appends, and between them delete chunks of truncated entries."""
        self._deleting = (self._floor, Future())  # finish an interrupted truncation
        try:
            while self._next_group():
                if self._group:
                    self._write()
                self._truncate()
        except Exception as error:
            self._fail(error)
        finally:
            self._checkpointer.close()
            self._connection.close()
            self._lock.release()

    def _next_group(self) -> bool:
        """Wait for work and take a group from the queue; False when the writer closes and no work is left."""
        with self._changed:
            while not (self._queue or self._deleting or self._truncations or self._closing or self._broken):
                self._changed.wait()
            if self._broken is not None:
                raise self._broken
            rows = 0
            while self._queue and (not self._group or rows + len(self._queue[0].rows) <= self._group_rows):
                request = self._queue.popleft()
                rows += len(request.rows)
                self._group.append(request)
            return bool(self._group or self._deleting or self._truncations or not self._closing)

    def _write(self) -> None:
        group = self._group
        rows = [row for request in group for row in request.rows]
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?)", rows)
        self._connection.execute("COMMIT")
        self._durable = rows[-1][0] + 1
        size = sum(request.size for request in group)
        with self._changed:
            self._waiting_bytes -= size
            self._changed.notify_all()
        self._group = []
        for request in group:
            _settle(request.future, request.result)
        self._checkpointer.committed(size, self._connection)

    def _truncate(self) -> None:
        """Delete one chunk for the oldest truncation, which starts when all entries below its floor are written."""
        if self._deleting is None and self._truncations and self._truncations[0][0] <= self._durable:
            self._deleting, self._deleted = self._truncations.popleft(), 0
            before = self._deleting[0]
            if before > self._floor:
                self._connection.execute("UPDATE log SET floor = ? WHERE floor < ?", (before, before))
                self._floor = before
        if self._deleting is not None:
            gone = self._delete(self._deleting[0])
            self._deleted += gone
            if gone == 0:
                _settle(self._deleting[1], self._deleted)
                self._deleting = None

    def _delete(self, before: int) -> int:
        lowest = self._connection.execute("SELECT min(offset) FROM entry").fetchone()[0]
        if lowest is None or lowest >= before:
            return 0
        upper = min(before, lowest + _DELETED_AT_ONCE)
        gone = self._connection.execute("DELETE FROM entry WHERE offset < ?", (upper,)).rowcount
        self._checkpointer.committed(gone * _DELETED_BYTES, self._connection)
        return gone

    def _checkpoint_failed(self, error: Exception) -> None:
        """Let the writing thread fail, as if an append had failed. Called in the thread of checkpoints."""
        with self._changed:
            self._broken = error
            self._changed.notify_all()

    def _fail(self, error: Exception) -> None:
        problem = f"{error} ({getattr(error, 'sqlite_errorname', type(error).__name__)})"
        with self._changed:
            self._failure = problem
            futures = [request.future for request in (*self._group, *self._queue)]
            futures += [future for _, future in self._truncations]
            futures += [self._deleting[1]] if self._deleting else []
            self._changed.notify_all()
        for future in futures:
            _settle(future, LogFailed(self.directory, problem))


def _encoded(event: bytes, matches: Matches, kind: int) -> _Encoded:
    """An entry without its offset: the work that needs no lock."""
    if not isinstance(event, bytes):
        raise TypeError(f"Expected the bytes of an event, but got {type(event).__name__}")
    _check_kind(kind)
    coded = None if matches is None else encode(matches)
    LOG_ENTRY_BYTES.check(len(event) + len(coded or b""))
    return time_ns() // 1000, kind, event, coded, file.checksum(event, coded)


def _check_kind(kind: int) -> None:
    if isinstance(kind, bool) or not isinstance(kind, int) or not 0 <= kind < 256:
        raise ValueError(f"Expected a kind from 0 to 255, but got {kind!r}")


def _settle(future: Future[Any], result: object) -> None:
    """Complete a future with a result or with the error LogFailed."""
    if future.set_running_or_notify_cancel():
        if isinstance(result, LogFailed):
            future.set_exception(result)
        else:
            future.set_result(result)
