"""Compiling ahead of use: a second process that fills the cache, and the line that tells users why they wait.

Where nothing is compiled yet, compiling is most of what the first load and the first match take. A `WarmUp` compiles
kernels in another process. Who can do without kernels for a while does so while that process is compiling. Who cannot
compiles others in this process; the first call of the kernel that is waited for waits until the other process has it,
compiles meanwhile what may be wanted next, and compiles for itself if nothing comes of it. Failures are silent: the
only loss is time.

- At most one process per cache directory, by a lock on a file in it: many that start at once do not multiply.
- None where there is one core, in a process of `multiprocessing`, where the cache cannot be written, where compiling
  is switched off, where the interpreter is not a plain Python, on the plain path, or where WHIMBREL_WARM_UP is 0.
- It ends when the process that began it ends, and never begins another.
"""

from __future__ import annotations

import atexit
import os
import select
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import TYPE_CHECKING

from whimbrel.storage.errors import Locked
from whimbrel.storage.lock import OwnerLock

if TYPE_CHECKING:
    from whimbrel.compiled.cache import CompiledCache

SWITCH = "WHIMBREL_WARM_UP"
"""The environment variable that switches the second process off: 0."""
PATIENCE = 120
"""Seconds to wait for the second process, at most: more than compiling takes on slow machines."""

DONE = b"."
"""What the second process writes once it has compiled the kernel that is waited for."""

_told = False


def be_quiet() -> None:
    """Write no line about compiling: standard error is for a machine."""
    global _told  # noqa: PLW0603 - once per process is the point
    _told = True


def is_cold(kernel: object) -> bool:
    """Whether a kernel could be on disk, but nothing usable of it is there."""
    found = _cache_of(kernel)
    return found is not None and found.is_empty()


def tell_if_cold(kernel: object) -> None:
    """Write one line if this kernel has never been compiled for this machine; later calls do nothing."""
    global _told  # noqa: PLW0603 - once per process is the point
    if _told:
        return
    _told = True
    if is_cold(kernel):
        sys.stderr.write("whimbrel: compiling the kernels, once after an install (some 20 seconds)\n")
        sys.stderr.flush()


class WarmUp:
    """Compiles kernels in a second process, once. `awaited` is the kernel whose first call waits for that process.

    `target` names the function that the process calls, as "package.module:function". `meanwhile` compiles something
    while this process waits.
    """

    def __init__(self, awaited: Callable[..., object], target: str, meanwhile: Callable[[], None]) -> None:
        self._awaited = awaited
        self._target = target
        self._meanwhile = meanwhile
        self._begun = threading.Lock()  # taken once, never released
        self._process: Popen[bytes] | None = None

    def begin(self) -> None:
        """Start the process, unless it was started before or is not needed. Takes some milliseconds where it is."""
        if not self._begun.acquire(blocking=False) or not is_cold(self._awaited):
            return
        tell_if_cold(self._awaited)
        cache = _cache_of(self._awaited)
        if cache is None or not _is_wanted():
            return
        with suppress(Exception):
            process = _start(str(cache.index_path), self._target)
            if process is not None:
                atexit.register(_end, process, os.getpid())
                cache.awaited = partial(_wait, process, os.getpid(), self._meanwhile)
                self._process = process

    def is_compiling(self) -> bool:
        """Whether the process that this process has started is still compiling."""
        process = self._process
        return process is not None and process.poll() is None

    def run(self, compile_awaited: Callable[[], None], compile_others: Callable[[], None]) -> None:
        """What `target` calls in the second process: compile, if the cache is the same one, until the parent ends."""
        threading.Thread(target=_end_with_parent, daemon=True).start()
        cache = _cache_of(self._awaited)
        if cache is not None and cache.index_path == sys.argv[1]:
            compile_awaited()
            os.write(sys.stdout.fileno(), DONE)
            compile_others()
        os._exit(0)


def _cache_of(kernel: object) -> CompiledCache | None:
    from whimbrel.compiled.cache import CompiledCache  # imports Numba, which commands that compile nothing do not need

    found = getattr(kernel, "_cache", None)
    return found if isinstance(found, CompiledCache) else None


def _is_wanted() -> bool:
    import multiprocessing

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return (
        os.environ.get(SWITCH) != "0"
        and cores > 1
        and multiprocessing.parent_process() is None
        and Path(sys.executable or "").name.startswith("python")
        and not getattr(sys, "frozen", False)
    )


def _start(index: str, target: str) -> Popen[bytes] | None:
    """The process, which holds the lock as long as it runs; None if another one has it."""
    module, _, function = target.partition(":")
    try:
        lock = OwnerLock(Path(index).with_name("whimbrel-warm-up.lock"))
    except Locked:
        return None
    try:
        command = [sys.executable, "-P", "-c", f"from {module} import {function}; {function}()", index]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
            SWITCH: "0",
            "NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING": "1",  # messages that nobody reads are coloured else
        }
        return Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment, pass_fds=[lock.descriptor])
    finally:
        lock.release()  # the process has inherited it


def _wait(process: Popen[bytes], owner: int, meanwhile: Callable[[], None]) -> None:
    if os.getpid() != owner or process.poll() is not None:  # a fork has no claim on the children of its parent
        return
    with suppress(Exception):
        meanwhile()
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], PATIENCE)[0]:  # it has neither written DONE nor ended
        _end(process, owner)


def _end(process: Popen[bytes], owner: int) -> None:
    if os.getpid() == owner:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        process.kill()
        process.wait()


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)
