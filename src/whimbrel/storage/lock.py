"""Locks between processes: `flock` on a file, which the system releases when the process ends, however it ends.

    with locked(path): ...                  wait, then be the only one
    with locked(path, shared=True): ...     wait, then be one of several that read
    lock = OwnerLock(path)                  be the only one now, or get the error Locked with the owner's process id

The file must outlive its lock: deleting it would let a second owner lock a new file of the same name.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import weakref
from collections.abc import Iterator
from pathlib import Path

from whimbrel.storage.errors import Locked


@contextlib.contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock on `path`, a file (created if missing) or a directory. Wait as long as others exclude it."""
    flags = os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class OwnerLock:
    """The exclusive lock on a file, held from creation to `release`. `Locked` if another object or process has it.

    The file holds the process id of the owner, for the message that others get. A forked child does not share the
    lock: it closes its copy at once, so that the lock ends with the process that took it.
    """

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, 32, 0)
            os.close(descriptor)
            raise Locked(path, int(owner) if owner.isdigit() else None) from None
        self._descriptor: int | None = descriptor
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        _held.add(self)

    @property
    def is_held(self) -> bool:
        """Whether the lock was not released."""
        return self._descriptor is not None

    @property
    def descriptor(self) -> int:
        """The open file, for a child process that inherits it: it keeps the lock until it ends."""
        if self._descriptor is None:
            raise ValueError("Expected a lock that is held, but it was released")
        return self._descriptor

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        _held.discard(self)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


_held: weakref.WeakSet[OwnerLock] = weakref.WeakSet()


def _release_in_child() -> None:
    for lock in list(_held):
        with contextlib.suppress(OSError):
            lock.release()


os.register_at_fork(after_in_child=_release_in_child)
