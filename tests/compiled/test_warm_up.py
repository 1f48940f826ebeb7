"""The line about compiling, and the second process that compiles: when there is one, and that it always ends."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from whimbrel.compiled import warm_up
from whimbrel.compiled.cache import CompiledCache


class Kept(CompiledCache):
    """As if something were there, or not."""

    def __init__(self, empty: bool) -> None:
        super().__init__(kernel)
        self._empty = empty

    def is_empty(self) -> bool:
        return self._empty


def kernel(empty: bool) -> Any:
    return SimpleNamespace(_cache=Kept(empty))


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "_told", False)


def test_a_cold_kernel_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    warm_up.tell_if_cold(kernel(empty=True))
    warm_up.tell_if_cold(kernel(empty=True))
    assert capsys.readouterr().err.count("compiling the kernels") == 1


def test_a_warm_one_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    warm_up.tell_if_cold(kernel(empty=False))
    assert capsys.readouterr().err == ""


def test_nothing_reaches_a_machine(capsys: pytest.CaptureFixture[str]) -> None:
    warm_up.be_quiet()
    warm_up.tell_if_cold(kernel(empty=True))
    assert capsys.readouterr().err == ""


def test_what_is_there_of_another_version_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    cache = CompiledCache(kernel)
    file = cache._kept._cache_file
    assert cache.is_empty()
    file._save_index({"key": "data"})
    assert not cache.is_empty()
    file._source_stamp = "another"
    assert cache.is_empty()
    Path(file._index_path).write_bytes(b"torn")
    assert cache.is_empty()


TARGET = "whimbrel.engine.first_use:compile_all"


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process with two cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    monkeypatch.delenv(warm_up.SWITCH, raising=False)


@pytest.fixture
def started(fresh: None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The targets for which a process would have been started."""
    found: list[str] = []
    monkeypatch.setattr(warm_up, "_start", lambda index, target: found.append(target))
    return found


def test_it_begins_once(started: list[str]) -> None:
    one = warm_up.WarmUp(kernel(empty=True), TARGET, idle)
    one.begin()
    one.begin()
    assert started == [TARGET]


def idle() -> None:
    """Compile nothing while waiting."""


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_not_where_it_is_compiled(started: list[str]) -> None:
    warm_up.WarmUp(kernel(empty=False), TARGET, idle).begin()
    assert not started


@pytest.mark.parametrize("reason", ["switch", "one core", "multiprocessing", "other interpreter", "none", "frozen"])
def test_not_where_it_is_unwanted(started: list[str], monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    if reason == "switch":
        monkeypatch.setenv(warm_up.SWITCH, "0")
    elif reason == "one core":
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0}, raising=False)
    elif reason == "multiprocessing":
        monkeypatch.setattr("multiprocessing.parent_process", object)
    elif reason == "frozen":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    else:
        monkeypatch.setattr(sys, "executable", "/usr/bin/uwsgi" if reason == "other interpreter" else None)
    warm_up.WarmUp(kernel(empty=True), TARGET, idle).begin()
    assert not started


def test_one_at_a_time_in_a_directory(tmp_path: Path) -> None:
    index = str(tmp_path / "other.nbi")
    with (tmp_path / "whimbrel-warm-up.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert warm_up._start(index, TARGET) is None
    process = warm_up._start(index, TARGET)  # compiles nothing, as its cache is another one
    assert process is not None
    assert warm_up._start(index, TARGET) is None
    assert process.wait(60) == 0
    warm_up._end(process, os.getpid())


@pytest.mark.usefixtures("fresh")
def test_a_directory_that_is_gone_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    real = warm_up._start
    monkeypatch.setattr(warm_up, "_start", lambda index, target: real("/nowhere/at/all/match.nbi", target))
    awaited = kernel(empty=True)
    warm_up.WarmUp(awaited, TARGET, idle).begin()
    assert awaited._cache.awaited is None


def test_waiting_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "PATIENCE", 0.01)
    process = sleeper()
    calls: list[str] = []
    for _ in range(2):
        warm_up._wait(process, os.getpid(), lambda: calls.append("meanwhile"))
        assert process.returncode is not None and calls == ["meanwhile"]  # only while it ran


def test_what_fails_meanwhile_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "PATIENCE", 0.01)
    process = sleeper()
    warm_up._wait(process, os.getpid(), lambda: 1 // 0)
    assert process.returncode is not None


def test_a_fork_leaves_it_alone() -> None:
    process = sleeper()
    warm_up._wait(process, os.getpid() + 1, idle)
    warm_up._end(process, os.getpid() + 1)
    assert process.poll() is None
    warm_up._end(process, os.getpid())
    assert process.returncode is not None


def test_what_was_begun_is_waited_for_once(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import os; os.write(1, b'.'); input()"  # it has the kernel, and goes on
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    monkeypatch.setattr(warm_up, "_start", lambda index, target: process)
    awaited = kernel(empty=True)
    one = warm_up.WarmUp(awaited, TARGET, idle)
    assert not one.is_compiling()
    one.begin()
    assert awaited._cache.awaited is not None
    assert awaited._cache.load_overload((), None) is None
    assert awaited._cache.awaited is None
    assert one.is_compiling()
    warm_up._end(process, os.getpid())
    assert not one.is_compiling()


def test_it_ends_with_its_parent() -> None:
    program = "from whimbrel.compiled import warm_up; warm_up._end_with_parent()"
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(60) == 1
