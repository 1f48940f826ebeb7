"""`whimbrel lab list`, `run` and `report`: experiments by name, their verdicts, and a page of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.cli.program import Program
from whimbrel.cli.lab import group
from whimbrel.lab.measure.matching import paper_rival


def test_list_has_an_entry_for_every_figure_and_claim(program: Program) -> None:
    (entries,) = program("lab", "list", "--json").lines
    assert len(entries) >= 28
    assert all({"name", "paper", "figure", "question", "claims"} <= entry.keys() for entry in entries)
    header, *rows = program("lab", "list").stdout.splitlines()
    assert header.split() == ["name", "paper", "figure", "question"]
    assert [row.split()[0] for row in rows] == [entry["name"] for entry in entries]


class Lasting:
    """The session of the tests, which a run does not stop."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)

    def stop(self) -> None:
        pass


@pytest.mark.spark
def test_run_counts_on_spark_and_report_makes_a_page(
    program: Program, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "_session", lambda master: Lasting(spark))
    chosen = ("lab", "run", "gryphon-steps", "--scale", "tiny", "--output", "out", "--json")
    (records,) = program(*chosen).lines
    (record,) = records
    assert record["name"] == "gryphon-steps"
    assert record["verdict"] in ("reproduced", "partly", "not")
    assert {"claim", "holds", "found"} == record["claims"][0].keys()
    assert all((program.folder / path).is_file() for path in record["files"])
    again = program(*chosen[:-1], "--no-spark")  # nothing is left to count
    assert record["claims"][0]["found"] in again.stdout
    (report,) = program("lab", "report", "--output", "out", "--markdown", "results.md", "--json").lines
    page = (program.folder / report["files"][0]).read_text()
    assert "How many nodes of the matching tree" in page
    assert "# Results of the lab" in (program.folder / "results.md").read_text()


def test_a_matcher_that_takes_too_long_to_count_is_told(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper_rival, "LOAD_SECONDS", -1.0)
    told = program("lab", "run", "survey-sgim", "--scale", "tiny", "--no-spark", "--output", "out", status=1).stderr
    assert told.startswith("whimbrel: 0 of 200 subscriptions took")


def test_an_unknown_name_gets_a_hint(program: Program) -> None:
    result = program("lab", "run", "gryphon-stps", status=2)
    assert "did you mean 'gryphon-steps'?" in result.stderr
    assert not Path(program.folder, "lab-results").exists()


def test_run_wants_names_or_all(program: Program) -> None:
    assert "names of experiments or --all" in program("lab", "run", status=2).stderr
    assert "not both" in program("lab", "run", "gryphon-steps", "--all", status=2).stderr
    assert "is a file" in program("lab", "run", "gryphon-steps", "--output", "events.jsonl", status=2).stderr


def test_report_says_where_there_are_no_results(program: Program) -> None:
    assert (
        "Expected results in nowhere, but found none"
        in program("lab", "report", "--output", "nowhere", status=1).stderr
    )


def test_report_names_a_result_that_is_damaged(program: Program) -> None:
    folder = program.folder / "lab-results" / "tiny" / "lesub-10"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"series": ["a"]}), folder / "table.parquet")
    for content in (b"{", b"[]", b"{}", b"\xff", b'{"name": "lesub-10", "scale": "tiny"}'):
        (folder / "result.json").write_bytes(content)
        assert "damaged" in program("lab", "report", status=1).stderr


def test_report_names_a_result_whose_table_is_damaged_or_gone(program: Program) -> None:
    program("lab", "run", "prefix-7", "--scale", "tiny", "--no-spark")
    table = program.folder / "lab-results" / "tiny" / "prefix-7" / "table.parquet"
    table.write_bytes(b"PAR1")
    assert "damaged" in program("lab", "report", status=1).stderr
    table.unlink()
    assert "damaged" in program("lab", "report", status=1).stderr
