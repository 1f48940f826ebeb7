"""Every experiment runs to its end at the smallest scale: a table, a plot, and an outcome of each claim."""

from pathlib import Path

import pytest

from whimbrel.lab.experiments import experiments
from whimbrel.lab.harness import contenders
from whimbrel.lab.harness.experiment import Experiment
from whimbrel.lab.harness.running import run_experiments


@pytest.mark.parametrize("one", experiments().values(), ids=lambda one: one.name)
def test_runs_at_the_smallest_scale(one: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contenders, "RUN_SECONDS", 0.01)
    monkeypatch.setattr(contenders, "SHORTEST_RUN", 0.001)
    monkeypatch.setattr("gc.collect", lambda: 0)  # twice a point it would look at all that the tests have loaded
    (record,) = run_experiments([one], "tiny", tmp_path)
    assert record["verdict"] in ("reproduced", "partly", "not", "untestable")
    assert len(record["claims"]) == len(one.claims)
    assert all(claim["found"] for claim in record["claims"])
    assert all(Path(path).stat().st_size for path in record["files"])
