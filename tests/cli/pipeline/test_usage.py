"""`whimbrel pipeline` as a program: its configuration file, wrong usage, and one run with a Spark of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import Program

RUN = ("pipeline", "run", "-e", "events.jsonl", "-s", "subs.jsonl", "-o", "out")


def test_wrong_usage_is_said_before_spark_starts(program: Program) -> None:
    (program.folder / "taken").mkdir()
    program.write("c.toml", "settings = 'ui=false'")
    for arguments, said in (
        (("pipeline", "run"), "--events"),
        ((*RUN[:-1], "taken"), "--overwrite replaces it"),
        ((*RUN[:-1], "no/such/folder"), "is not there"),
        ((*RUN, "--form", "lists", "--format", "csv"), "has no lists"),
        ((*RUN, "--settings", "ui=false"), "begins with 'spark.'"),
        ((*RUN, "--config", "c.toml"), "begins with 'spark.', but got 'ui=false'"),
        ((*RUN, "--plan", "fast"), "--plan"),
        ((*RUN, "--config", "none.toml"), "none.toml"),
    ):
        assert said in program(*arguments, status=2).stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("outptu = 'out'", "'outptu'; did you mean 'output'?"),
        ("events = ", "Expected TOML"),
        ("output = {a = 1}", "a table - at output"),
        ("zzz = 1", "the keys are batches, checkpoint, dead-letters"),
    ],
)
def test_a_bad_configuration_file_is_wrong_usage(program: Program, text: str, said: str) -> None:
    program.write("c.toml", text)
    result = program(*RUN, "--config", "c.toml", status=2)
    assert "c.toml" in result.stderr and said in result.stderr.replace("\n", " ")


def test_files_that_cannot_be_events_are_refused_before_spark_starts(program: Program) -> None:
    (program.folder / "void").mkdir()
    (program.folder / "both").mkdir()
    for name in ("both/a.csv", "both/b.parquet", "both/_SUCCESS", "empty.jsonl"):
        program.write(name, "" if name == "empty.jsonl" else "x")
    for name, kind in (
        ("missing.parquet", "FileMissing"),
        ("void", "FileEmpty"),
        ("empty.jsonl", "FileEmpty"),
        ("both", "WrongFormat"),
    ):
        (error,) = program(*RUN[:3], name, *RUN[4:], "--json", status=1).error_lines
        assert (error["error"], error["message"].split(":")[0]) == (kind, name)


@pytest.mark.spark
def test_a_run_from_a_configuration_file_with_a_spark_of_its_own(program: Program) -> None:
    program.write_lines("events.jsonl", {"id": "a", "price": 120}, {"id": "b", "price": 1})
    program.write(
        "c.toml",
        "events = 'events.jsonl'\nsubscriptions = 'subs.jsonl'\noutput = 'nowhere'\nkeep = 3\nmaster = 'local[1]'\n"
        "key = ['id']\n[settings]\nspark.driver.extraJavaOptions = '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC'\n",
    )
    result = program.apart("pipeline", "run", "--config", "c.toml", "--output", "out.jsonl", "--json")
    assert result.stderr == ""
    (summary,) = result.lines
    assert (summary["subscriptions"], summary["events"], summary["pairs"]) == (3, 2, 1)
    lines = [
        line for part in Path(program.folder, "out.jsonl").glob("part-*") for line in part.read_text().splitlines()
    ]
    assert [json.loads(line) for line in lines] == [{"id": "a", "subscription": "dear"}]
    assert not Path(program.folder, "nowhere").exists()
