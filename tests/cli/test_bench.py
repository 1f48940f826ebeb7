"""`whimbrel bench match`: it runs, it compares, and it does not let a wrong answer pass."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks import workloads
from benchmarks.filters import read_filters
from tests.cli.program import Program
from whimbrel import Index
from whimbrel.lab.measure.matching import folder
from whimbrel.lab.measure.matching import process_start as start
from whimbrel.lab.measure.matching.answers import Answers, MatchesDiffer
from whimbrel.lab.measure.matching.cases import Claim, MatchCase
from whimbrel.lab.measure.matching.engine import Engine, build
from whimbrel.lab.measure.matching.match_run import MatchSettings, run
from whimbrel.lab.measure.matching.match_tables import tables_of
from whimbrel.lab.measure.matching.race import run_race
from whimbrel.lab.measure.matching.rival import CannotTakePart, Pairs, Rival
from whimbrel.lab.measure.matching.verdicts import Verdict
from whimbrel.lab.measure.results import BEGIN, END, NoMarks, insert, markdown
from whimbrel.lab.measure.timing import affordable
from whimbrel.lab.measure.workload_cache import default_folder, workload_of
from whimbrel.lab.workloads import make

QUICK = ("bench", "match", "--rivals=naive", "--repeat=1", "--seconds=0.1", "--no-start", "--cache=cache")


def tiny(case: MatchCase, n: int = 300) -> MatchCase:
    return replace(case, full={**case.full, "n": n, "events": 40}, small={}, papers=min(case.papers, 60))


@pytest.fixture
def tiny_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "CASES", tuple(map(tiny, workloads.CASES)))


def settings(tmp_path: Path, *names: str, rivals: str = "naive,duckdb,polars", **more: Any) -> MatchSettings:
    return MatchSettings(names, "full", tuple(rivals.split(",")), 1, 0.05, start=False, cache=tmp_path, **more)


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
    assert "Expected a workload of lesubscribe-p0.5" in program("bench", "match", "--workload", "x", status=1).stderr
    assert "Expected rivals of naive, duckdb" in program("bench", "match", "--rivals", "x", status=1).stderr


@pytest.mark.usefixtures("tiny_cases")
@pytest.mark.parametrize("case", workloads.CASES, ids=lambda case: case.name)
def test_all_rivals_find_the_same_on_every_workload(case: MatchCase, tmp_path: Path) -> None:
    result: Any = run(settings(tmp_path, case.name))
    (found,) = result["workloads"]
    competitors = {one["name"] for one in found["fields"][0]["competitors"] if "refused" not in one}
    assert {"engine", "compiled naive", "DuckDB join", "Polars join"} <= competitors
    measured = {verdict["what"]: verdict["measured"] for verdict in found["verdicts"]}
    if not case.name.startswith("properties"):  # which has no targets
        assert measured["times compiled naive"] > 0
        assert measured["subscriptions/s from text, two cores"] is None  # too small for a second one
    assert found["engine"]["single"]["median_us"] > 0


@pytest.mark.usefixtures("tiny_cases")
def test_the_papers_matchers_run_in_fields_of_their_size(tmp_path: Path) -> None:
    result: Any = run(settings(tmp_path, "gryphon", rivals="papers"))
    main, apart = result["workloads"][0]["fields"]
    assert (main["subscriptions"], apart["subscriptions"]) == (300, 60)
    by_name = {one["name"]: one for one in apart["competitors"]}
    assert "equality with anything but 0, 1" in by_name["rapid"]["refused"]
    assert by_name["engine"]["times_engine"] == 1
    assert {"naive", "hanson", "quarantine", "equality_tree (no options)"} <= by_name.keys()
    claimed = [one["what"] for one in result["workloads"][0]["verdicts"]]
    assert "equality_tree (no options), times equality_tree, at 60" in claimed


class Forgetful(Rival):
    """Finds all but one of the pairs."""

    name, group = "forgetful", "test"

    def load(self, subscriptions: pa.Table, seconds: float) -> None:
        self.index = Index()
        self.index.add_many(subscriptions)

    def pairs(self, events: pa.Table) -> Iterator[Pairs]:
        table = self.index.match_batch(events)
        yield table["event"].to_numpy()[1:], table["subscription"].to_numpy()[1:]


class Choosy(Forgetful):
    """Refuses everything."""

    name = "choosy"

    def load(self, subscriptions: pa.Table, seconds: float) -> None:
        raise CannotTakePart("not today")


def test_a_rival_with_another_answer_ends_the_run() -> None:
    workload = make("hm", n=50, events=10)
    index, _ = build(workload.subscriptions, False, lambda text: None)
    table, events, engines = workload.subscriptions, workload.events, [Engine(index)]
    with pytest.raises(MatchesDiffer, match="forgetful found 9 subscriptions for event 0, and the engine 10"):
        run_race("hm", table, events, engines, [Forgetful()], 1, 0.01, lambda text: None)
    field = run_race("hm", table, events, engines, [Choosy()], 1, 0.01, lambda text: None)
    assert [(entry.rival.name, entry.refused) for entry in field.entries] == [("engine", ""), ("choosy", "not today")]


def test_answers_tell_other_ids_from_the_same() -> None:
    rows = np.array([0, 0, 2])
    answers = Answers(3, [(rows, np.array([5, 7, 7]))])
    answers.check(Answers(2, [(rows[:2], np.array([7, 5]))]), "w", "r")
    with pytest.raises(MatchesDiffer, match="2 other subscriptions for event 0"):
        answers.check(Answers(2, [(rows[:2], np.array([7, 6]))]), "w", "r")


def test_filters_of_no_frozen_workload_are_refused() -> None:
    with pytest.raises(ValueError, match="but got a LIKE 'x%'"):
        read_filters(pa.chunked_array([["a = 1", "a LIKE 'x%'"]]))
    with pytest.raises(ValueError, match="only with the last string"):
        read_filters(pa.chunked_array([["a != 'x'", "a = 'y'"]]))


def test_a_workload_is_kept_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters: dict[str, int | float] = {"n": 20, "events": 5}
    first, again = (workload_of("hm", parameters, tmp_path) for _ in range(2))
    assert first.subscriptions.equals(make("hm", n=20, events=5).subscriptions)
    assert again.events.equals(first.events) and [path.name for path in tmp_path.iterdir()] == ["hm-n20-events5"]
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert default_folder() == Path("/caches/whimbrel/workloads")


def test_benchmarks_are_part_of_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(folder.sys.modules, "benchmarks")
    monkeypatch.setattr(folder.whimbrel, "__file__", str(tmp_path / "a" / "b" / "whimbrel.py"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(folder.NoBenchmarks, match="run from the root of a checkout"):
        folder.Benchmarks()


def test_tables_go_between_the_marks_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Before\n\n{BEGIN}\nstale\n{END}\n\nafter\n")
    result = a_result()
    insert(result, page)
    insert(result, page)
    text = page.read_text()
    assert text.startswith(f"# Before\n\n{BEGIN}\n\nMeasured") and text.endswith(f"{END}\n\nafter\n")
    assert "stale" not in text and text.count("### Start of a process") == 1
    page.write_text("no marks")
    with pytest.raises(NoMarks):
        insert(result, page)


def a_result() -> dict[str, Any]:
    part = {
        "seconds": 2.0,
        "cpu_seconds": 1.0,
        "import": 0.1,
        "load": 0.2,
        "first_match": 0.1,
        "first_batch": 0.1,
        "said_so": True,
    }
    versions = {"whimbrel": "1"}
    machine = {"date": "d", "cpu": "c", "cores": 2, "memory_gb": 1, "system": "s", "python": "3", "versions": versions}
    return {
        "machine": {**machine, "commit": "abc", "load": 9.0, "load_at_end": 0.5},
        "settings": {"scale": "full", "repeat": 1},
        "workloads": [],
        "start": {"cold": part, "warm": part, "verdicts": [Verdict("warm start", 1, 2.0, least=False).to_dict()]},
    }


def test_a_busy_machine_and_a_missed_target_are_said() -> None:
    text = markdown(a_result())
    assert "The machine was busy" in text and "| start | warm start | <= 1 | 2 | **missed** |" in text
    assert [table.title for table in tables_of(a_result())][-2:] == ["Start of a process", "All targets"]


def test_verdicts() -> None:
    assert Verdict("rate", 10, 10.0).met is True
    assert Verdict("rate", 10, 9.0).met is False
    assert Verdict("bytes", 10, 9.0, least=False).met is True
    assert Verdict("rate", 10, None).met is None
    assert all(claim.workload in {case.name for case in workloads.CASES} for claim in workloads.AIMS.claims)
    assert Claim("w", "a", "b").times == 1


def test_events_are_cut_to_what_a_rival_affords() -> None:
    asked: list[int] = []
    assert affordable(asked.append, 500, 10.0) == 500
    assert asked[0] == 1 and max(asked) == 500
    assert affordable(asked.append, 500, 0.0) == 1


def test_a_start_is_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "_PROGRAM", "import sys; sys.stderr.write('compiling'); print('{\"import\": 1.5}')")
    found: Any = start.starts(repeat=2)
    assert found["cold"]["import"] == found["warm"]["import"] == 1.5
    assert found["cold"]["said_so"] and found["cold"]["seconds"] > 0
