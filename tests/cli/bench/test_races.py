"""`whimbrel bench match` as a program: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.cli.program import Program
from whimbrel.lab.measure.matching import cases, match_run, naive_loop
from whimbrel.lab.measure.pipeline import spark_rival

QUICK = ("bench", "match", "--rivals=naive", "--repeat=1", "--seconds=0.1", "--no-start", "--cache=cache")


@pytest.fixture
def tiny_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = (replace(case, small={"n": 300, "events": 40}) for case in cases.CASES)
    monkeypatch.setattr(cases, "CASES", tuple(tiny))
    monkeypatch.setattr(match_run, "warm_up", lambda: None)  # no time is looked at


@pytest.mark.usefixtures("tiny_cases")
def test_the_command_writes_tables_and_json(program: Program) -> None:
    done = program(*QUICK, "--workload", "gryphon", "--output", "out")
    assert "compiled naive" in done.stdout and "gryphon: loading compiled naive" in done.stderr
    page = (program.folder / "out" / "match.md").read_text()
    assert "| compiled naive |" in page and "| gryphon | 300 |" in page
    result = json.loads((program.folder / "out" / "match.json").read_text())
    (found,) = result["workloads"]
    engine, *_, naive = (one for one in found["fields"][0]["competitors"] if "refused" not in one)
    assert engine["name"] == "engine" and naive["name"].startswith("compiled naive")
    assert engine["matches_per_event"] > 0  # a slow machine gives naive fewer events, and then another mean
    assert {"cpu", "cores", "load", "versions", "date"} <= result["machine"].keys()
    assert found["verdicts"] == []  # targets are for the full size


@pytest.mark.usefixtures("tiny_cases")
def test_json_goes_to_standard_output(program: Program) -> None:
    done = program(*QUICK, "--workload", "hm", "--json")
    assert done.lines[0]["workloads"][0]["fields"][0]["matches_per_event"] == 10
    assert done.stderr == ""


def test_a_wrong_name_is_refused_with_the_right_ones(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naive_loop, "RIVALS", {"naive": naive_loop.rivals})  # other tests register more
    monkeypatch.setattr(spark_rival, "SPARK_RIVALS", {})
    assert "Expected a workload of lesubscribe-p0.5" in program("bench", "match", "--workload", "x", status=2).stderr
    assert "Expected rivals of naive, but got" in program("bench", "match", "--rivals", "x", status=2).stderr
    assert "Expected a workload of hm, mixed" in program("bench", "forms", "--workload", "x", status=2).stderr
    assert "the name of a form, but got 'nope'" in program("bench", "cliffs", "--form", "nope", status=2).stderr
    assert "Expected no rivals, as there are" in program("bench", "pipeline", "--rivals", "x", status=2).stderr


def test_a_page_that_cannot_take_the_tables_is_refused_before_anything_is_measured(program: Program) -> None:
    program.write("page.md", "# Results\n")
    for page, problem in (("none.md", "No such file"), ("page.md", "did not find both")):
        for name in ("match", "pipeline"):
            told = program("bench", name, "--page", page, status=2).stderr.replace("\n", " ")
            assert f"but got '{page}': " in told and problem in told


def test_a_folder_that_cannot_be_made_is_refused_before_anything_is_measured(program: Program) -> None:
    for name in ("match", "pipeline", "cliffs"):
        done = program("bench", name, "--output", "events.jsonl/out", status=2)
        assert "Expected a folder, but got 'events.jsonl/out'" in done.stderr
    done = program("bench", "match", "--cache", "events.jsonl", status=2)
    assert "Expected a folder, but got 'events.jsonl'" in done.stderr
