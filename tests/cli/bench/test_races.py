"""`whimbrel bench match` as a program: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json

from tests.cli.program import Program

QUICK = ("bench", "match", "--rivals=naive", "--repeat=1", "--seconds=0.1", "--no-start", "--cache=cache")


def test_the_command_writes_tables_and_json(program: Program) -> None:
    done = program(*QUICK, "--workload", "gryphon", "--output", "out")
    assert "compiled naive" in done.stdout and "gryphon: loading compiled naive" in done.stderr
    page = (program.folder / "out" / "match.md").read_text()
    assert "| compiled naive |" in page and "| gryphon | 2,500 |" in page
    result = json.loads((program.folder / "out" / "match.json").read_text())
    (found,) = result["workloads"]
    engine, *_, naive = (one for one in found["fields"][0]["competitors"] if "refused" not in one)
    assert engine["name"] == "engine" and naive["name"].startswith("compiled naive")
    assert engine["matches_per_event"] > 0  # a slow machine gives naive fewer events, and then another mean
    assert {"cpu", "cores", "load", "versions", "date"} <= result["machine"].keys()
    assert found["verdicts"] == []  # targets are for the full size


def test_json_goes_to_standard_output(program: Program) -> None:
    done = program(*QUICK, "--workload", "hm", "--json")
    assert done.lines[0]["workloads"][0]["fields"][0]["matches_per_event"] == 10
    assert done.stderr == ""


def test_a_wrong_name_is_refused_with_the_right_ones(program: Program) -> None:
    assert "Expected a workload of lesubscribe-p0.5" in program("bench", "match", "--workload", "x", status=2).stderr
    assert "Expected rivals of naive, but got" in program("bench", "match", "--rivals", "x", status=2).stderr
    assert "Expected a workload of hm, mixed" in program("bench", "forms", "--workload", "x", status=2).stderr
    assert "the name of a form, but got 'nope'" in program("bench", "cliffs", "--form", "nope", status=2).stderr


def test_a_folder_that_cannot_be_made_is_refused_before_anything_is_measured(program: Program) -> None:
    for name in ("match", "pipeline", "cliffs"):
        done = program("bench", name, "--output", "events.jsonl/out", status=2)
        assert "Expected a folder, but got 'events.jsonl/out'" in done.stderr
