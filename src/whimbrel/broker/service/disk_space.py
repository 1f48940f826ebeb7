"""Refuse what would fill the disk, before it is full: then the log would fail, and the broker end.

A part of the disk is kept free. While less is free, events and new subscriptions are refused; acknowledgements, reads
and deletions go on in what was kept. It is looked at for every group of requests, so that nothing has to be told when
space returns.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from whimbrel.broker.requests.errors import NoSpace

LEAST_RESERVE = 64 << 20
"""The default reserve, at least: SQLite's write-ahead log of the log alone takes some 32 MiB."""
RESERVED_PART = 0.01
"""The part of the disk that is reserved by default."""
_WRITTEN = 3  # an event goes to the write-ahead log, to the log, and in part to lists
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class DiskSpace:
    """The space on the disk of a data directory. Any thread may ask; that takes some microseconds.

    `reserve` bytes are kept free, 0 for the default. `reusable` are bytes of the log's file that deleted entries have
    left: they count as free, as long as half of the reserve is free beside them.
    """

    def __init__(self, directory: Path, reserve: int = 0) -> None:
        self._directory = directory
        self._reserve = reserve
        self.reusable = 0
        self.refused = 0
        """Requests refused since the start."""

    @property
    def free(self) -> int:
        """Bytes that this process may still write."""
        found = os.statvfs(self._directory)
        return found.f_bavail * found.f_frsize

    @property
    def reserve(self) -> int:
        """Bytes that are kept free."""
        if self._reserve:
            return self._reserve
        found = os.statvfs(self._directory)
        return max(LEAST_RESERVE, int(found.f_blocks * found.f_frsize * RESERVED_PART))

    def has(self, size: int) -> bool:
        """Whether `size` bytes can be written without using the reserve."""
        free, reserve = self.free, self.reserve
        return free >= reserve + size or (free >= reserve // 2 and self.reusable >= reserve + size)

    def check(self, size: int) -> None:
        """Raise NoSpace if requests of `size` bytes would use the reserve."""
        if not self.has(_WRITTEN * size):
            self.refused += 1
            raise NoSpace(f"Expected {self.reserve >> 20:,} MiB of the disk to stay free, but {self.free >> 20:,} are")


def is_full(error: BaseException) -> bool:
    """Whether the system refused a write because the disk is full."""
    return isinstance(error, OSError) and error.errno in _FULL
