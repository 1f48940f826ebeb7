"""The matching benchmark: a wrong answer ends it, results become tables, targets are judged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from whimbrel import Index
from whimbrel.lab.measure.benchmark_results import NoMarks, Verdict, default_folder, no_progress
from whimbrel.lab.measure.matching import cases
from whimbrel.lab.measure.matching import process_start as start
from whimbrel.lab.measure.matching.cases import SpeedClaim
from whimbrel.lab.measure.matching.engine_rival import Engine, build, match_one_by_one
from whimbrel.lab.measure.matching.match_tables import FILES, tables_of
from whimbrel.lab.measure.matching.race import run_race
from whimbrel.lab.measure.matching.rival import Answers, CannotTakePart, MatchesDiffer, Pairs, Rival
from whimbrel.lab.measure.workload_cache import workload_of
from whimbrel.lab.workloads import make


class Forgetful(Rival):
    """Finds all but one of the pairs."""

    name, group = "forgetful", "test"

    def load(self, subscriptions: pa.Table) -> None:
        self.index = Index()
        self.index.add_many(subscriptions)

    def pairs(self, events: pa.Table) -> Iterator[Pairs]:
        table = self.index.match_batch(events)
        yield table["event"].to_numpy()[1:], table["subscription"].to_numpy()[1:]


class Choosy(Forgetful):
    """Refuses everything."""

    name = "choosy"

    def load(self, subscriptions: pa.Table) -> None:
        raise CannotTakePart("not today")


def test_a_rival_with_another_answer_ends_the_run() -> None:
    workload = make("hm", n=50, events=10)
    index, _ = build(workload.subscriptions, False, no_progress)
    table, events, engines = workload.subscriptions, workload.events, [Engine(index)]
    with pytest.raises(MatchesDiffer, match="forgetful found 9 subscriptions for event 0, and the engine 10"):
        run_race("hm", table, events, engines, [Forgetful()], 1, 0.01, no_progress)
    race = run_race("hm", table, events, engines, [Choosy()], 1, 0.01, no_progress)
    assert [(one.rival.name, one.refused) for one in race.competitors] == [("engine", ""), ("choosy", "not today")]


def test_answers_tell_other_ids_from_the_same() -> None:
    rows = np.array([0, 0, 2])
    answers = Answers(3, [(rows, np.array([5, 7, 7]))])
    answers.check(Answers(2, [(rows[:2], np.array([7, 5]))]), "w", "r")
    with pytest.raises(MatchesDiffer, match="2 other subscriptions for event 0"):
        answers.check(Answers(2, [(rows[:2], np.array([7, 6]))]), "w", "r")


def test_a_workload_is_kept_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters: dict[str, int | float] = {"n": 20, "events": 5}
    first, again = (workload_of("hm", parameters, tmp_path) for _ in range(2))
    assert first.subscriptions.equals(make("hm", n=20, events=5).subscriptions)
    assert again.events.equals(first.events) and [path.name for path in tmp_path.iterdir()] == ["hm-n20-events5"]
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert default_folder() == Path("/caches/whimbrel/workloads")


def test_tables_go_between_the_marks_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Before\n\n{FILES.begin}\nstale\n{FILES.end}\n\nafter\n")
    result = a_result()
    FILES.insert(result, page)
    FILES.insert(result, page)
    text = page.read_text()
    assert text.startswith(f"# Before\n\n{FILES.begin}\n\nMeasured") and text.endswith(f"{FILES.end}\n\nafter\n")
    assert "stale" not in text and text.count("### Start of a process") == 1
    page.write_text("no marks")
    with pytest.raises(NoMarks):
        FILES.insert(result, page)


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
    text = FILES.markdown(a_result())
    assert "The machine was busy" in text and "| start | warm start | <= 1 | 2 | **missed** |" in text
    assert [table.title for table in tables_of(a_result())][-2:] == ["Start of a process", "All targets"]


def test_verdicts() -> None:
    assert Verdict("rate", 10, 10.0).met is True
    assert Verdict("rate", 10, 9.0).met is False
    assert Verdict("bytes", 10, 9.0, least=False).met is True
    assert Verdict("rate", 10, None).met is None
    assert all(claim.workload in {case.name for case in cases.CASES} for claim in cases.CLAIMS)
    assert SpeedClaim("w", "a", "b").times == 1


def test_a_start_is_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "_PROGRAM", "import sys; sys.stderr.write('compiling'); print('{\"import\": 1.5}')")
    found: Any = start.starts(repeat=2)
    assert found["cold"]["import"] == found["warm"]["import"] == 1.5
    assert found["cold"]["said_so"] and found["cold"]["seconds"] > 0


def test_a_single_event_is_spent_in_part_inside_of_kernels_and_in_part_outside() -> None:
    workload = make("mixed", n=500, events=20)
    index = Index()
    index.add_many(workload.subscriptions)
    assert 0 < float(str(match_one_by_one(index, workload.events)["outside_kernel"])) < 1
