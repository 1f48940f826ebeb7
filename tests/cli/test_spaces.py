"""`whimbrel spaces` and `whimbrel bench spaces`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.program import Program
from whimbrel.lab.measure import subject_spaces as bench
from whimbrel.spaces import SubjectSpaces


def test_the_demo_ends_by_itself_and_says_what_happened(program: Program) -> None:
    done = program("spaces", "--objects", "300", "--zones", "50", "--seconds", "0")
    assert "steps of 300 taxis over 50 zones" in done.stdout
    assert "enters zone" in done.stdout or "leaves zone" in done.stdout


def test_notifications_as_lines_and_a_journal_that_opens_again(program: Program) -> None:
    options = ("--objects", "300", "--zones", "50", "--seconds", "0", "--journal", "town")
    done = program("spaces", *options, "--json")
    assert {line["kind"] for line in done.lines} <= {"enter", "leave"}
    (summary,) = done.error_lines
    assert summary["enter"] + summary["leave"] == len(done.lines)
    with SubjectSpaces.open(program.folder / "town") as spaces:
        assert spaces.counts() == {"publications": 300, "subscriptions": 50}
        told = {(one.kind, one.subscription, one.publication) for one in spaces.last}
        for line in done.lines:
            (region,) = spaces.publication(line["publication"])
            assert line["content"] == [{name: str(interval) for name, interval in region.items()}]
    assert told == {(line["kind"], line["subscription"], line["publication"]) for line in done.lines}
    assert "already defined" in program("spaces", *options, status=1).stderr


def test_the_benchmark_checks_itself_against_the_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = bench.SpacesSizes(members=300, fences=400, batch=50, singles=10, repeat=2)
    result: Any = bench.run(tiny)
    assert [row["what"] for row in result["paper"]][:3] == ["add", "update, random", "update, +-1"]
    assert all(row["us"] > 0 for row in result["paper"] + result["geofences"])
    assert {verdict["met"] for verdict in result["verdicts"]} <= {True, False}
    monkeypatch.setattr(bench._Bench, "scan", lambda *_: -1)
    with pytest.raises(bench.AnswersDiffer, match="the scan found -1 subscriptions"):
        bench.run(tiny)
