"""The pipeline benchmark at a tiny size: every kind of work runs, rivals agree, and files are written on the way."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.rivals import SPARK_RIVALS
from whimbrel import Index
from whimbrel.lab.measure.benchmark_results import BenchSettings, NoMarks, UnknownName
from whimbrel.lab.measure.matching.rival import MatchesDiffer
from whimbrel.lab.measure.pipeline import works
from whimbrel.lab.measure.pipeline.pipeline_run import run
from whimbrel.lab.measure.pipeline.pipeline_tables import FILES
from whimbrel.lab.measure.pipeline.spark_rival import SparkRival
from whimbrel.lab.measure.pipeline.workbench import numbered, write_parts
from whimbrel.lab.measure.pipeline.works import Work
from whimbrel.lab.workloads import make

pytestmark = pytest.mark.spark

TINY: dict[str, int | float] = {"n": 300, "events": 60, "batch": 20, "batches": 2, "rate": 200, "seconds": 1.5}


def tiny(work: Work) -> Work:
    if work.kind == "curve":
        return replace(work, full={**work.full, "events": 20}, sizes=(100, 300))
    return replace(work, full={**work.full, **{key: TINY[key] for key in work.full if key in TINY}})


@pytest.fixture
def tiny_works(monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    monkeypatch.setattr(works, "WORKS", tuple(map(tiny, works.WORKS)))


@pytest.mark.parametrize("name", ["lesubscribe", "mixed"])
def test_rivals_find_as_many_pairs(spark: SparkSession, tmp_path: Path, name: str) -> None:
    workload = make(name, n=300, events=60)
    index = Index()
    index.add_many(workload.subscriptions)
    pairs = index.match_batch(workload.events).num_rows
    write_parts(numbered(workload.events), tmp_path, 1)
    spark.read.parquet(str(tmp_path)).createOrReplaceTempView("tiny_events")
    for rival_name, make_rival in SPARK_RIVALS.items():
        rival = make_rival(spark)
        rival.load(workload.subscriptions, workload.events, tmp_path / "tables" / rival_name)
        assert rival.count("tiny_events") == pairs > 0, rival.name
        rival.close()


@pytest.mark.usefixtures("tiny_works")
def test_the_command_shows_both_sides_and_writes_files(tmp_path: Path) -> None:
    chosen = ["--work", "lesubscribe-400k", "--rivals", "nested", "--scale", "full", "--repeat", "1"]
    places = ["--seconds", "0.1", "--cache", str(tmp_path / "cache"), "--output", str(tmp_path / "out")]
    done = CliRunner().invoke(app, ["pipeline", *chosen, *places, "--json"])
    assert done.exit_code == 0, done
    result = json.loads(done.stdout)
    assert json.loads((tmp_path / "out" / "pipeline.json").read_text())["works"] == result["works"]
    (found,) = result["works"]
    assert [one["name"] for one in found["competitors"]] == ["Whimbrel", "nested-loop join"]
    assert found["pairs"] > 0 and found["figures"]["times the best plain Spark"] > 0
    assert [verdict["what"] for verdict in found["verdicts"]] == ["seconds"]
    page = (tmp_path / "out" / "pipeline.md").read_text()
    assert "| lesubscribe-400k | seconds | <= 1.50 |" in page and "300 subscriptions, 60 events" in page
    assert ("* As many events" in page) is found["competitors"][1]["scaled"]


@pytest.mark.soak
@pytest.mark.usefixtures("tiny_works")
def test_every_other_kind_of_work(tmp_path: Path) -> None:
    names = ("stream", "open", "compile", "curve-gryphon", "handover")
    known = list[Any]()
    result: Any = run(BenchSettings(names, "full", repeat=1, cache=tmp_path), {}, known=known.append)
    assert [len(one["works"]) for one in known] == [1, 2, 3, 4, 5]
    stream, opened, compiled, curve, handed = result["works"]
    assert stream["sustained"]["events"] == 20 * 2 and stream["even"]["batches"] >= 1
    assert opened["subscriptions"] == 300 and all(one["ms"] > 0 for one in opened["workers"])
    assert compiled["subscriptions"] == 300 and compiled["figures"]["seconds"] > 0
    assert [point["subscriptions"] for point in curve["points"]] == [100, 300]
    assert {one["name"] for one in handed["forms"]} >= {"columns", "JSON text"}
    FILES.write(result, tmp_path / "out")
    page = tmp_path / "page.md"
    page.write_text(f"before\n{FILES.begin}\nstale\n{FILES.end}\nafter\n")
    FILES.insert(result, page)
    assert "stale" not in page.read_text() and "Growth with the number of subscriptions" in page.read_text()
    assert page.read_text().endswith(f"{FILES.end}\nafter\n")
    page.write_text("no marks")
    with pytest.raises(NoMarks, match="pipeline results"):
        FILES.insert(result, page)
    assert "not measured" not in FILES.markdown(result)


class Forgetful(SparkRival):
    """Finds nothing."""

    name = "forgetful"

    def load(self, subscriptions: pa.Table, sample: pa.Table, folder: Path) -> None:
        pass

    def query(self, events: str) -> str:
        return f"SELECT event_id, 0 AS subscription FROM {events} WHERE FALSE"


@pytest.mark.usefixtures("tiny_works")
def test_a_wrong_rival_ends_the_run(tmp_path: Path) -> None:
    wanted = BenchSettings(("lesubscribe-400k",), "full", ("forgetful",), 1, 0.1, cache=tmp_path)
    with pytest.raises(MatchesDiffer, match="forgetful"):
        run(wanted, {"forgetful": Forgetful})


def test_wrong_names_are_refused_before_spark_starts() -> None:
    with pytest.raises(UnknownName, match="a work of lesubscribe-400k"):
        run(BenchSettings(("x",)), {})
    with pytest.raises(UnknownName, match="rivals of access, nested, counting"):
        run(BenchSettings(rivals=("x",)), SPARK_RIVALS)
