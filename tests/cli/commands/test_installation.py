"""`whimbrel warm`: after it nothing is compiled any more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from whimbrel.lab import warm_all
from whimbrel.model import patterns

ROOT = Path(__file__).parents[3]

LOOK = """
import sys
from tests.engine.hunting import hunt
from whimbrel.compiled.cache import CompiledCache
for seed in range(12):
    hunt(seed)
for name, module in list(sys.modules.items()):
    for kernel in vars(module).values() if name.startswith("whimbrel.") else ():
        if isinstance(getattr(kernel, "_cache", None), CompiledCache):
            for signature in kernel.stats.cache_misses:
                print(kernel.__module__, kernel.__name__, signature)
            if kernel.stats.cache_hits:
                print("found on disk", file=sys.stderr)
"""


@pytest.mark.soak
def test_after_it_random_worlds_compile_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    warm = [sys.executable, "-c", "from whimbrel.cli.main import app; app()", "warm"]
    done = subprocess.run(warm, env=environment, capture_output=True, text=True, check=True)
    assert "all kernels are compiled" in done.stderr
    looked = subprocess.run([sys.executable, "-c", LOOK], env=environment, capture_output=True, text=True, check=True)
    assert "found on disk" in looked.stderr and looked.stdout == ""


def test_the_extra_for_regular_expressions_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    patterns._compile.cache_clear()
    monkeypatch.setitem(sys.modules, "re2", None)
    monkeypatch.setattr(warm_all, "_WORKLOADS", {})
    steps: list[str] = []
    warm_all.warm_up(steps.append)
    assert steps == [
        "loading filters in many forms", "patterns and types of columns", "subject spaces", "publications", "an overlay"
    ]  # fmt: skip
