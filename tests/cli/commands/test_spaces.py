"""`whimbrel spaces`: it ends by itself, and every notification is a line of JSON."""

from __future__ import annotations

from tests.cli.program import Program
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
    assert "Expected a new or empty directory" in program("spaces", *options, status=2).stderr


def test_a_seed_below_zero_is_wrong_usage(program: Program) -> None:
    assert "--seed" in program("spaces", "--seed", "-5", status=2).stderr
