"""The plain path: the same results where only documented features of Numba are used."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from whimbrel.compiled import plain

PROGRAM = """
import json, random
import pyarrow as pa
from whimbrel import Filter, Index
from whimbrel.compiled.cache import CompiledCache
from whimbrel.compiled.plain import is_plain
from whimbrel.compiled.python_objects import READABLE
from whimbrel.engine.access.kernel import match
from whimbrel.matchers import make

draw = random.Random(7)
texts = [f"color = 'c{n % 5}' AND price < {n}" for n in range(30)]
texts += [f"size >= {n} AND price BETWEEN {n} AND {n + 9} AND NOT name = 'n{n % 4}'" for n in range(20)]
texts += ["tags CONTAINS 'x' AND price > 3", "color IS NULL", "name > 'n1' OR price = 2.5"]
events = [
    {"color": f"c{draw.randrange(6)}", "price": draw.randrange(40), "size": draw.randrange(30),
     "name": f"n{draw.randrange(5)}", "tags": draw.choice([["x", "y"], ["z"]])}
    for _ in range(40)
]
expected = [[n for n, text in enumerate(texts) if Filter.parse(text).matches(event)] for event in events]

index = Index()
for n, text in enumerate(texts):
    index.add(n, text)
index.merge()
singles = [sorted(index.match(event)) for event in events]
pairs = index.match_batch(pa.Table.from_pylist(events)).to_pydict()
together = [sorted(s for e, s in zip(*pairs.values()) if e == n) for n in range(len(events))]

plain_texts = texts[:30]
matcher = make("compiled_naive")
for n, text in enumerate(plain_texts):
    matcher.add(n, text)
matched = [sorted(matcher.match(event)) for event in events]
print(json.dumps({
    "engine": singles == expected and together == expected,
    "matcher": matched == [[n for n in row if n < 30] for row in expected],
    "plain": is_plain(),
    "reads objects": READABLE,
    "own cache": isinstance(match._cache, CompiledCache),
}))
"""


@pytest.fixture(autouse=True)
def asked_again() -> Iterator[None]:
    plain.is_plain.cache_clear()
    yield
    plain.is_plain.cache_clear()


def test_engine_and_matchers_give_the_same_results(tmp_path: Path) -> None:
    # LLVM's highest level would take a quarter of the time; all other tests run with it.
    environment = {**os.environ, plain.SETTING: "1", "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_OPT": "1"}
    command = [sys.executable, "-W", "error", "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "engine": True,
        "matcher": True,
        "plain": True,
        "reads objects": False,
        "own cache": False,
    }
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith("kernels-")
    assert list(folder.rglob("kernel.match-*.nbi"))


@pytest.mark.parametrize(("given", "expected"), [("1", True), ("0", False)])
def test_the_setting_decides(monkeypatch: pytest.MonkeyPatch, given: str, expected: bool) -> None:
    monkeypatch.setenv(plain.SETTING, given)
    assert plain.is_plain() is expected


@pytest.mark.parametrize("what", ["python", "numba", "machine", "implementation"])
def test_without_it_what_was_not_tested_is_plain(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.delenv(plain.SETTING, raising=False)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64" if what == "machine" else "x86_64")
    monkeypatch.setattr("numba.__version__", "0.99.0rc1" if what == "numba" else "0.68.1")
    monkeypatch.setattr(plain, "TESTED_PYTHON", () if what == "python" else (sys.version_info[:2],))
    if what == "implementation":
        monkeypatch.setattr(sys, "implementation", type("Other", (), {"name": "pypy"}))
    assert plain.is_plain()


def test_without_it_what_was_tested_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(plain.SETTING, raising=False)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr("numba.__version__", "0.68.1")
    monkeypatch.setattr(plain, "TESTED_PYTHON", (sys.version_info[:2],))
    assert not plain.is_plain()
