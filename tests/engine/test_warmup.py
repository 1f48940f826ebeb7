"""The line about compiling: once, only where nothing was compiled yet, and never to a machine."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from whimbrel.engine import warmup


def kernel(index: str) -> object:
    return SimpleNamespace(_cache=SimpleNamespace(index_path=index))


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warmup, "_told", False)


def test_a_cold_kernel_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    warmup.tell_if_cold(kernel("/nowhere/kernel.nbi"))
    warmup.tell_if_cold(kernel("/nowhere/kernel.nbi"))
    assert capsys.readouterr().err.count("compiling the kernels") == 1


def test_a_warm_one_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    warmup.tell_if_cold(kernel(__file__))
    assert capsys.readouterr().err == ""


def test_nothing_reaches_a_machine(capsys: pytest.CaptureFixture[str]) -> None:
    warmup.be_quiet()
    warmup.tell_if_cold(kernel("/nowhere/kernel.nbi"))
    assert capsys.readouterr().err == ""
