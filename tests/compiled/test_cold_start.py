"""The line about compiling: once, only where nothing was compiled yet, and never to a machine."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

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


def kernel(empty: bool) -> object:
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
