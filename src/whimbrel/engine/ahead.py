"""A second process that compiles the kernels of matching while this one compiles those of loading.

Where nothing is compiled yet, that is most of what the first load and the first match take. `Index.add_many` begins it,
as does an index that makes its head a segment; the first call of `match` waits for it, and compiles for itself if
nothing comes of it. So that both are done at about the same time, it begins with the kernels of chunks, which come
last in loading. Whatever goes wrong is silent: the only loss is time.

- At most one process per cache directory, by a lock on a file in it: many that start at once do not multiply.
- None where there is one core, in a process of `multiprocessing`, where the cache cannot be written, where compiling
  is switched off, where the interpreter is not a plain Python, or where WHIMBREL_COMPILE_AHEAD is 0.
- It ends when the process that began it ends, and never begins another.
"""

from __future__ import annotations

import atexit
import gc
import multiprocessing
import os
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from typing import Any

import numpy as np
from numba import types

from whimbrel.compiled.cache import CompiledCache
from whimbrel.compiled.cold_start import is_cold, tell_if_cold
from whimbrel.engine.access.bitmap.layout import build_chunks
from whimbrel.engine.access.bitmap.plan import plan_chunks
from whimbrel.engine.access.matching import match
from whimbrel.engine.access.shared.weights import Weights
from whimbrel.ranks.clauses.clauses import Clauses

SWITCH = "WHIMBREL_COMPILE_AHEAD"
"""The environment variable that switches this off: 0."""
PATIENCE = 120
"""Seconds to wait for the other process, at most: more than compiling takes on slow machines."""


MATCH = (types.Array(types.int64, 1, "C"), types.int64, types.int64, types.boolean)
"""What `match` is called with."""

_begun = threading.Lock()  # taken once, never released


def begin() -> None:
    """Begin, unless it was begun before or need not be. Takes some milliseconds where nothing is compiled yet."""
    if not _begun.acquire(blocking=False) or not is_cold(match):
        return
    tell_if_cold(match)
    if not _is_wanted():
        return
    cache = _cache()
    with suppress(Exception):
        process = _start(str(cache.index_path))
        if process is not None:
            atexit.register(_end, process, os.getpid())
            cache.awaited = partial(_wait, process, os.getpid())


def _cache() -> CompiledCache:
    cache = getattr(match, "_cache", None)
    assert isinstance(cache, CompiledCache), "a kernel that is cold has a cache"
    return cache


def _is_wanted() -> bool:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return (
        os.environ.get(SWITCH) != "0"
        and cores > 1
        and multiprocessing.parent_process() is None
        and Path(sys.executable or "").name.startswith("python")
        and not getattr(sys, "frozen", False)
    )


def _start(index: str) -> Popen[bytes] | None:
    """The process, which holds the lock as long as it runs; None if another one has it."""
    import fcntl  # not on every system: then there is no lock, and no process

    lock = os.open(Path(index).with_name("whimbrel-ahead.lock"), os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        command = [sys.executable, "-P", "-c", f"from {__name__} import compile_all; compile_all()", index]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
            SWITCH: "0",
        }
        return Popen(command, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, env=environment, pass_fds=[lock])
    except BlockingIOError:
        return None
    finally:
        os.close(lock)


def _wait(process: Popen[bytes], owner: int) -> None:
    if os.getpid() == owner:  # a fork of it has no claim on its children
        try:
            process.wait(PATIENCE)
        except TimeoutExpired:
            _end(process, owner)


def _end(process: Popen[bytes], owner: int) -> None:
    if os.getpid() == owner:
        if process.stdin is not None:
            process.stdin.close()
        process.kill()
        process.wait()


def compile_all() -> None:
    """What the other process does: compile into the cache, if it is the same one, until its parent is gone."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if _cache().index_path == sys.argv[1]:
        gc.disable()  # it lives for seconds
        with suppress(Exception):
            compile_chunks()
        kernel: Any = match
        kernel.compile(MATCH)
    os._exit(0)


def compile_chunks() -> None:
    """Lay out a chunk of one conjunction, of one item."""
    one, zero = np.ones(1, np.int32), np.zeros(1, np.int64)
    flags, none = np.zeros(1, np.uint8), np.empty(0, np.int32)
    clauses = Clauses(["a"], one, flags, np.arange(2), one - 1, flags, one, one, zero, none, none, none)
    weights = Weights(np.ones(1), zero + 3, np.zeros(2, np.int64), np.empty(0, np.float32))
    shares = np.ones(1, np.float32)
    build_chunks(clauses, weights, plan_chunks(clauses, weights, shares, zero), one, shares)


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)
