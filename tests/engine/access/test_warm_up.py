"""Which kernels of the engine the second process compiles, and what begins it."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from whimbrel import Index
from whimbrel.compiled import warm_up
from whimbrel.compiled.cache import CompiledCache
from whimbrel.engine.access import bitmap, hash, shared, signature, sorted
from whimbrel.engine.access import warm_up as engine_warm_up
from whimbrel.engine.access.kernel import match
from whimbrel.engine.first_use import plan_segment
from whimbrel.engine.loader import load


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process with two cores that has compiled nothing and begun nothing."""
    monkeypatch.setattr(engine_warm_up.WARM_UP, "_begun", threading.Lock())
    monkeypatch.setattr(warm_up, "is_cold", lambda kernel: True)
    monkeypatch.setattr(warm_up, "tell_if_cold", lambda kernel: None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    monkeypatch.delenv(warm_up.SWITCH, raising=False)


@pytest.fixture
def started(fresh: None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The indexes of the caches for which a process would have been started."""
    found: list[str] = []
    monkeypatch.setattr(warm_up, "_start", lambda index, target: found.append(index))
    return found


def test_it_compiles_what_matching_calls() -> None:
    index = Index()
    index.add_many((number, f"x = {number}") for number in range(100))
    assert index.match({"x": 7}) == [7]
    assert index.match_batch(pa.table({"x": [7, 8]}), threads=1).num_rows == 2
    before = list(match.signatures)
    assert len(before) == 1
    engine_warm_up.compile_match()
    assert list(match.signatures) == before


def test_it_compiles_what_planning_a_segment_calls() -> None:
    plan_segment()
    kernels = [one for key in (bitmap, hash, signature, sorted, shared) for one in _kernels_of(key)]
    before = [list(one.signatures) for one in kernels]
    assert sum(map(bool, before)) >= 15
    Index().add_many((number, f"x >= {number} AND y <= {number} AND c = 'v{number % 9}'") for number in range(2_000))
    assert [list(one.signatures) for one in kernels if one.signatures] == [one for one in before if one]


def _kernels_of(key: ModuleType) -> list[Any]:
    """The compiled kernels of the modules of an access key."""
    modules = [module for name, module in sys.modules.items() if name.startswith(f"{key.__name__}.")]
    found = [one for module in modules for one in vars(module).values() if hasattr(one, "py_func")]
    return [one for one in found if isinstance(getattr(one, "_cache", None), CompiledCache)]


def test_bulk_loads_and_full_heads_begin_it_once(started: list[str]) -> None:
    Index().add_many([("a", "x = 1")])
    assert started == [match._cache.index_path]
    Index().add_many([("a", "x = 1")])
    assert len(started) == 1


def test_a_head_that_becomes_a_segment_begins_it(started: list[str]) -> None:
    index = Index()
    for number in range(40):
        index.add(number, "x = 1")
    index.match({"x": 1})
    assert not started
    index.merge()
    assert len(started) == 1


def test_not_where_all_cores_are_used_already(started: list[str]) -> None:
    load(Index(), pa.table({"id": ["a"], "filter": ["x = 1"]}))
    assert not started


PROGRAM = """
import json, resource
from whimbrel import Index
from whimbrel.engine.access.kernel import match
index = Index()
index.add_many((number, f"x = {number}") for number in range(2_000))
found = index.match({"x": 7})
children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
print(json.dumps([found, sum(match.stats.cache_hits.values()), sum(match.stats.cache_misses.values()), children]))
"""


@pytest.mark.soak
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="there is no other core")
@pytest.mark.parametrize(("switch", "hits"), [("1", 1), ("0", 0)])
def test_a_cold_start_gets_its_kernels_from_it(tmp_path: Path, switch: str, hits: int) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), warm_up.SWITCH: switch}
    command = [sys.executable, "-W", "error", "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found, its_hits, misses, children = json.loads(done.stdout)
    assert (found, its_hits, misses) == ([7], hits, 1 - hits)
    assert (children > 1) == bool(hits)
    assert done.stderr.count("\n") == 1


@pytest.mark.soak
def test_a_process_that_is_killed_leaves_none_behind(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.DEVNULL)
    lock = None
    while lock is None and process.poll() is None:
        time.sleep(0.05)
        lock = next(tmp_path.rglob("whimbrel-warm-up.lock"), None)
    assert lock is not None
    process.kill()
    process.wait()
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # returns when nobody holds it any more
