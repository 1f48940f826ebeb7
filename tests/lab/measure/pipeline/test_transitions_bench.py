"""`whimbrel bench spaces --transitions`, small."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from whimbrel.cli.bench.group import spaces
from whimbrel.lab.measure.pipeline import transitions_bench as bench

pytestmark = pytest.mark.spark


@pytest.mark.soak
def test_the_benchmark_counts_micro_batches_and_notifications(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = bench.TransitionSizes(keys=300, filters=200, large=200, larges=1, small=50, smalls=2, warm=0)
    monkeypatch.setattr(bench, "SMALL", tiny)
    spaces("small", transitions=True, output=tmp_path)
    result = json.loads((tmp_path / "transitions.json").read_text())
    large, small = result["transitions"]
    assert [(row["rows"], row["batches"]) for row in (large, small)] == [(200, 1), (50, 2)]
    assert large["rows_per_second"] == round(200 / large["ms"] * 1e3)
    assert large["cpu_ms"] is None or large["cpu_ms"] > 0
    assert large["notifications"] > small["notifications"] > 0
    assert [verdict["target"] for verdict in result["verdicts"]] == [150_000]
    assert "300 keys, 200 filters" in capsys.readouterr().out
