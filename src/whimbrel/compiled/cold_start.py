"""The first use after an install compiles the kernels, which takes seconds: say so, once, on standard error."""

from __future__ import annotations

import sys

_told = False


def be_quiet() -> None:
    """Say nothing: standard error is for a machine."""
    global _told  # noqa: PLW0603 - once per process is the point
    _told = True


def is_cold(kernel: object) -> bool:
    """Whether nothing of a kernel is on disk, or of another version only, though it could be there."""
    from whimbrel.compiled.cache import CompiledCache  # not for commands that compile nothing

    cache = getattr(kernel, "_cache", None)
    return isinstance(cache, CompiledCache) and cache.is_empty()


def tell_if_cold(kernel: object) -> None:
    """Write one line if this kernel has never been compiled for this machine; later calls do nothing."""
    global _told  # noqa: PLW0603 - once per process is the point
    if _told:
        return
    _told = True
    if is_cold(kernel):
        sys.stderr.write("whimbrel: compiling the kernels, once after an install (some 20 seconds)\n")
        sys.stderr.flush()
