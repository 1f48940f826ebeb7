"""The version of whatever a measure depends on: the code that is measured, the libraries under it, the processor.

Claims and plots may change without a new measurement: of a statement that makes an `Experiment` only what counts and
what is timed is part of the version. Its points are part of the key under which a result is kept.
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
    "lab/equality_tree_cost.py", "lab/space_cost.py", "lab/workloads", "lab/measure/matching", "lab/measure/timing.py",
    "lab/harness/contenders.py", "lab/harness/measures.py", "lab/harness/running.py",
)  # fmt: skip
"""Folders and files of the package that decide what is measured. Claims, plots and commands do not."""
_LIBRARIES = ("numpy", "numba", "llvmlite", "pyarrow")


def code_version(*functions: Callable[..., object] | None) -> str:
    """Sixteen hexadecimal digits that change with the measured code, and with the folders of these functions."""
    digest = hashlib.sha256(_common().encode())
    measuring = [inspect.unwrap(one) for one in functions if one is not None]
    for folder in sorted({Path(inspect.getfile(one)).parent for one in measuring}):
        digest.update(_folder_code(folder).encode())
    return digest.hexdigest()[:16]


@cache
def _folder_code(folder: Path) -> str:
    """The code of all modules of a folder that can change a measure, without comments."""
    parts = []
    for path in sorted(folder.glob("*.py")):
        kept = [part for statement in ast.parse(path.read_bytes()).body for part in _measuring_parts(statement)]
        parts.append("\n".join([path.name, *map(ast.unparse, kept)]))
    return "\n".join(parts)


def _measuring_parts(statement: ast.stmt) -> list[ast.AST]:
    """The parts of a statement that can change a measure."""
    if isinstance(statement, ast.ImportFrom):
        is_shown = statement.module in ("whimbrel.lab.harness.claims", "whimbrel.lab.harness.panels")
        return [] if is_shown else [statement]
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return []  # a docstring
    made = statement.value if isinstance(statement, ast.Assign) else None
    if isinstance(made, ast.Call) and isinstance(made.func, ast.Name) and made.func.id == "Experiment":
        return [field.value for field in made.keywords if field.arg in ("counted", "timed")]
    return [statement]


@cache
def _common() -> str:
    digest = hashlib.sha256()
    root = Path(whimbrel.__file__).parent
    for name in _MEASURED:
        place = root / name
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(str(path.relative_to(root)).encode())
            digest.update(path.read_bytes())
    versions = [f"{name} {metadata.version(name)}" for name in _LIBRARIES]
    digest.update("\n".join([platform.python_version(), str(card()["cpu"]), *versions]).encode())
    return digest.hexdigest()
