"""A disk that no longer syncs: from one moment on, fsync and fdatasync of this process fail with EIO."""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
import threading
import time
from pathlib import Path

_CALLS = {"x86_64": (74, 75, 317), "aarch64": (82, 83, 277)}  # fsync, fdatasync, seccomp
_NO_NEW_PRIVILEGES, _SET_FILTER, _ALL_THREADS = 38, 1, 1
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def can_break() -> bool:
    """Whether this machine's system calls can be made to fail."""
    return platform.system() == "Linux" and platform.machine() in _CALLS


def break_syncs() -> None:
    """Let every later fsync and fdatasync of this process fail, in all threads, for good (a seccomp filter)."""
    fsync, fdatasync, seccomp = _CALLS[platform.machine()]
    steps = [
        (0x20, 0, 0, 0),  # load the number of the system call
        (0x15, 1, 0, fsync),  # equal: skip one step
        (0x15, 0, 1, fdatasync),  # not equal: skip one step
        (0x06, 0, 0, _ERRNO | errno.EIO),
        (0x06, 0, 0, _ALLOW),
    ]
    program = _Program(len(steps), b"".join(struct.pack("<HBBI", *step) for step in steps))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
    assert libc.syscall(seccomp, _SET_FILTER, _ALL_THREADS, ctypes.byref(program)) == 0, ctypes.get_errno()


def break_when(path: Path) -> None:
    """Break the syncs of this process as soon as a file appears; another file beside it says that it is done."""

    def watch() -> None:
        while not path.exists():
            time.sleep(0.005)
        break_syncs()
        path.with_suffix(".done").touch()

    threading.Thread(target=watch, daemon=True).start()
