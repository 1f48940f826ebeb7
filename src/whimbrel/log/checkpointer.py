"""Checkpoints of the log's file: a thread beside the writer copies SQLite's write-ahead log into the database.

A commit appends to the write-ahead log and syncs it; that is all an acknowledgement needs. If the writer also copied
the pages to the database and synced that, some commits would take many times as long as others. So a thread with a
connection of its own does it. While entries keep coming it never quite reaches the end, and only at the end can the
write-ahead log start over: when it has grown long, the writer copies the last few pages itself.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

from whimbrel.log import file

PASS_BYTES = 4 << 20
"""Bytes that are written before the next pass copies them."""
LONG_PAGES = 8_192
"""Pages (of 4 KiB) from which on the write-ahead log is to start over."""
_COMMIT_BYTES = 8 << 10  # pages that a commit writes again, whatever its size
_PASSIVE = (
    "PRAGMA wal_checkpoint(PASSIVE)"  # waits for nobody; returns a busy flag, pages at its start, and pages copied
)


class Checkpointer:
    """Copies what the writer has committed. `on_failure` is called in its thread if the disk refuses."""

    def __init__(self, directory: Path, on_failure: Callable[[Exception], None]) -> None:
        self._connection = file.open_for_writing(directory)
        self._on_failure = on_failure
        self._wake = threading.Condition()
        self._written = 0
        self._closing = False
        self._is_long = False
        self._thread = threading.Thread(target=self._run, name="whimbrel-checkpoint", daemon=True)
        self._thread.start()

    def committed(self, size: int, writer: sqlite3.Connection) -> None:
        """Count a committed transaction of `size` bytes. The thread of `writer` calls it between two transactions."""
        if self._is_long:
            writer.execute(_PASSIVE).fetchone()
        with self._wake:
            self._is_long = False
            self._written += size + _COMMIT_BYTES
            if self._written >= PASS_BYTES:
                self._wake.notify()

    def close(self) -> None:
        """End the thread and its connection; a second call does nothing."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._next():
                _, pages, _ = self._connection.execute(_PASSIVE).fetchone()
                self._is_long = pages >= LONG_PAGES
        except sqlite3.Error as error:
            self._on_failure(error)
        finally:
            self._connection.close()

    def _next(self) -> bool:
        """Wait until there is enough to copy and the writer has copied its part; False if it closes."""
        with self._wake:
            while (self._written < PASS_BYTES or self._is_long) and not self._closing:
                self._wake.wait()
            self._written = 0
            return not self._closing
