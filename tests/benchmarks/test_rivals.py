"""All rivals of the engine find what it finds, on every frozen workload."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from benchmarks.rivals import RIVALS
from whimbrel.lab.measure.benchmark_results import BenchSettings
from whimbrel.lab.measure.matching import cases, match_run
from whimbrel.lab.measure.matching.cases import MatchCase
from whimbrel.lab.measure.matching.flat_filters import read_filters
from whimbrel.lab.measure.matching.match_run import run


def tiny(case: MatchCase, n: int = 300) -> MatchCase:
    return replace(case, full={**case.full, "n": n, "events": 40}, small={}, papers=min(case.papers, 60))


@pytest.fixture
def tiny_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "CASES", tuple(map(tiny, cases.CASES)))
    monkeypatch.setattr(match_run, "warm_up", lambda: None)  # no time is looked at


def settings(tmp_path: Path, *names: str, rivals: str = "naive,duckdb,polars", **more: Any) -> BenchSettings:
    return BenchSettings(names, "full", tuple(rivals.split(",")), 1, 0.05, start=False, cache=tmp_path, **more)


@pytest.mark.usefixtures("tiny_cases")
@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.name)
def test_all_rivals_find_the_same_on_every_workload(case: MatchCase, tmp_path: Path) -> None:
    result: Any = run(settings(tmp_path, case.name), RIVALS)
    (found,) = result["workloads"]
    competitors = {one["name"] for one in found["fields"][0]["competitors"] if "refused" not in one}
    assert {"engine", "compiled naive", "DuckDB join", "Polars join"} <= competitors
    measured = {verdict["what"]: verdict["measured"] for verdict in found["verdicts"]}
    if not case.name.startswith("properties"):  # which has no targets
        assert measured["times compiled naive"] > 0
        assert measured["subscriptions/s from text, two cores"] is None  # too small for a second one
    assert found["engine"]["single"]["median_us"] > 0


@pytest.mark.usefixtures("tiny_cases")
def test_the_papers_matchers_run_in_races_of_their_size(tmp_path: Path) -> None:
    result: Any = run(settings(tmp_path, "gryphon", rivals="papers"), RIVALS)
    main, apart = result["workloads"][0]["fields"]
    assert (main["subscriptions"], apart["subscriptions"]) == (300, 60)
    by_name = {one["name"]: one for one in apart["competitors"]}
    assert "equality with anything but 0, 1" in by_name["rapid"]["refused"]
    assert by_name["engine"]["times_engine"] == 1
    assert {"naive", "hanson", "quarantine", "equality_tree (no options)"} <= by_name.keys()
    claimed = [one["what"] for one in result["workloads"][0]["verdicts"]]
    assert "equality_tree (no options), times equality_tree, at 60" in claimed


def test_filters_of_no_frozen_workload_are_refused() -> None:
    with pytest.raises(ValueError, match="but got a LIKE 'x%'"):
        read_filters(pa.chunked_array([["a = 1", "a LIKE 'x%'"]]))
    with pytest.raises(ValueError, match="only with the last string"):
        read_filters(pa.chunked_array([["a != 'x'", "a = 'y'"]]))
