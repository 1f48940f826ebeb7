"""The benchmark of subject spaces: it compares itself with a scan of all subscriptions."""

from __future__ import annotations

from typing import Any

import pytest

from whimbrel.lab.measure import spaces_bench as bench


def test_the_benchmark_checks_itself_against_the_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = bench.SpacesSizes(members=300, fences=400, batch=50, single_updates=10, repeat=2)
    result: Any = bench.run(tiny)
    assert [row["what"] for row in result["paper"]][:3] == ["add", "update, random", "update, +-1"]
    assert all(row["us"] > 0 for row in result["paper"] + result["geofences"])
    assert {verdict["met"] for verdict in result["verdicts"]} <= {True, False}
    monkeypatch.setattr(bench._Bench, "scan", lambda *_: -1)
    with pytest.raises(bench.AnswersDiffer, match="the scan found -1 subscriptions"):
        bench.run(tiny)
