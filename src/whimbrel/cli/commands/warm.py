"""`whimbrel warm`: compile every kernel now."""

from __future__ import annotations

import time

from whimbrel.cli.terminal.console import say


def warm() -> None:
    """Compile every kernel now, so that no first use waits: for images, and before a service starts.

    Compiled code is kept in NUMBA_CACHE_DIR if that is set, else beside the library or in the user's cache.
    """
    from whimbrel.lab.warm_up import warm_up

    started = time.perf_counter()
    warm_up(say)
    say(f"all kernels are compiled ({time.perf_counter() - started:.0f} s)")
