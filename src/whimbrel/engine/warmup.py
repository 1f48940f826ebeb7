"""The first use after an install compiles the kernels, which takes seconds: say so, once, on standard error."""

from __future__ import annotations

import os
import sys

_told = False


def be_quiet() -> None:
    """Say nothing: standard error is for a machine."""
    global _told  # noqa: PLW0603 - once per process is the point
    _told = True


def is_cold(kernel: object) -> bool:
    """Whether nothing of a kernel is on disk, though it could be."""
    index = getattr(getattr(kernel, "_cache", None), "index_path", None)
    return isinstance(index, str) and not os.path.exists(index)


def tell_if_cold(kernel: object) -> None:
    """Write one line if this kernel has never been compiled for this machine; later calls do nothing."""
    global _told  # noqa: PLW0603 - once per process is the point
    if _told:
        return
    _told = True
    if is_cold(kernel):
        sys.stderr.write("whimbrel: compiling the kernels, once after an install (some 20 seconds)\n")
        sys.stderr.flush()
