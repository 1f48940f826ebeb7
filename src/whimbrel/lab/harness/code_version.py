"""The version of whatever a measure depends on: the code that is measured, the libraries under it, the processor.

Claims and plots may change without a new measurement: of the files beside an experiment, statements that make an
`Experiment` are left out. Its points are part of the key under which a result is kept.
"""

from __future__ import annotations

import ast
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
    """Sixteen hexadecimal digits that change with the measured code, and with the folders of these functions."""
    digest = hashlib.sha256(_common().encode())
    for folder in sorted({Path(inspect.getfile(one)).parent for one in functions if one is not None}):
        digest.update(_folder_code(folder).encode())
    return digest.hexdigest()[:16]


@cache
def _folder_code(folder: Path) -> str:
    """The code of all modules of a folder that can change a measure, without comments."""
    parts = []
    for path in sorted(folder.glob("*.py")):
        kept = [one for one in ast.parse(path.read_bytes()).body if not _is_left_out(one)]
        parts.append(f"{path.name}\n{ast.unparse(ast.Module(kept, []))}")
    return "\n".join(parts)


def _is_left_out(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return statement.module in ("whimbrel.lab.harness.claims", "whimbrel.lab.harness.panels")
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)  # a docstring
    made = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(made, ast.Call) and isinstance(made.func, ast.Name) and made.func.id == "Experiment"


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
