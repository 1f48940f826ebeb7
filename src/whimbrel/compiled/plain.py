"""The one setting that switches off all code that relies on internals of Numba or of the interpreter.

The usual path uses internals that Numba and CPython may change: so helpers compile faster, kernels are kept safely,
start in 0.1 s and read dicts. The plain path uses only documented features: `numba.njit` compiles helpers, kernels are
kept in a directory named by a digest of all sources, no second process compiles, Python reads single events, and no
instructions of one processor family are used. Results are the same; compiling takes longer, and single events cost
more.

WHIMBREL_PLAIN_NUMBA=1 takes the plain path and 0 the usual one. Without it, the plain path is taken wherever the usual
one was not tested: on other interpreters, other versions of Numba, other processors.
"""

from __future__ import annotations

import os
import platform
import sys
from functools import cache

SETTING = "WHIMBREL_PLAIN_NUMBA"
TESTED_PYTHON = ((3, 11), (3, 12), (3, 13))
TESTED_NUMBA = ((0, 68),)
TESTED_MACHINES = ("x86_64", "AMD64")


@cache
def is_plain() -> bool:
    """Whether only documented features of Numba are used. The same for the whole life of a process."""
    given = os.environ.get(SETTING)
    if given in ("0", "1"):
        return given == "1"
    import numba

    version = tuple(int(part) for part in numba.__version__.split(".")[:2])
    return not (
        sys.implementation.name == "cpython"
        and sys.version_info[:2] in TESTED_PYTHON
        and version in TESTED_NUMBA
        and platform.machine() in TESTED_MACHINES
    )
