"""How the functions are compiled that only kernels call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def helper(function: Callable[..., Any]) -> Any:
    """Compiled without the code that unpacks Python objects, which takes longer to compile than most helpers."""
    options = {"cache": True, "nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return numba.njit(**options)(function)  # type: ignore[call-overload]
