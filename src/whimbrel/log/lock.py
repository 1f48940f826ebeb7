"""One writer per log: a lock on `writer.lock` that the system takes back when the process ends, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import weakref
from pathlib import Path

from whimbrel.log.errors import LogLocked

FILE_NAME = "writer.lock"


class WriterLock:
    """The right to write to a log, held from creation to `release`.

    The file also names the process that holds it, for the message that others get. A forked child does not share the
    lock: it closes its copy at once, so that the lock ends with the process that took it.
    """

    def __init__(self, directory: Path) -> None:
        descriptor = os.open(directory / FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, 32, 0)
            os.close(descriptor)
            raise LogLocked(directory, int(owner) if owner.isdigit() else None) from None
        self._descriptor: int | None = descriptor
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        _held.add(self)

    def release(self) -> None:
        """Let another writer in; a second call does nothing."""
        _held.discard(self)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


_held: weakref.WeakSet[WriterLock] = weakref.WeakSet()


def _release_in_child() -> None:
    for lock in list(_held):
        with contextlib.suppress(OSError):
            lock.release()


os.register_at_fork(after_in_child=_release_in_child)
