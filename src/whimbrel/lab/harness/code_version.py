"""The version of whatever a measure depends on: the code that is measured, the libraries under it, the processor."""

from __future__ import annotations

import hashlib
import inspect
import platform
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path

import whimbrel
from whimbrel.lab.measure.machine import card

_MEASURED = (
    "model", "compiled", "storage", "language", "ranks", "matchers", "engine", "spaces", "overlay",
    "lab/workloads", "lab/measure/matching", "lab/measure/timing.py",
    "lab/harness/contenders.py", "lab/harness/measures.py", "lab/harness/running.py",
)  # fmt: skip
"""Folders and files of the package that decide what is measured. Claims, plots and commands do not."""
_LIBRARIES = ("numpy", "numba", "llvmlite", "pyarrow")


def code_version(*functions: Callable[..., object] | None) -> str:
    """Sixteen hexadecimal digits that change with the measured code, and with the files of these functions."""
    digest = hashlib.sha256(_common().encode())
    for path in sorted({inspect.getfile(function) for function in functions if function is not None}):
        digest.update(Path(path).read_bytes())
    return digest.hexdigest()[:16]


@cache
def _common() -> str:
    digest = hashlib.sha256()
    root = Path(whimbrel.__file__).parent
    for name in _MEASURED:
        place = root / name
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            if path.exists():
                digest.update(str(path.relative_to(root)).encode())
                digest.update(path.read_bytes())
    versions = [f"{name} {metadata.version(name)}" for name in _LIBRARIES]
    digest.update("\n".join([platform.python_version(), str(card()["cpu"]), *versions]).encode())
    return digest.hexdigest()
