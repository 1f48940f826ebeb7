"""`whimbrel lab`: the table of matchers, and advice from files."""

from __future__ import annotations

from tests.cli.program import Program
from whimbrel.matchers import MATCHERS


def test_matchers_are_listed_with_section_and_what_they_support(program: Program) -> None:
    header, *rows = program("lab", "matchers").stdout.splitlines()
    assert header.split() == ["matcher", "papers", "section", "supports"]
    assert [row.split()[0] for row in rows] == list(MATCHERS)
    (naive,) = (row for row in rows if row.startswith("naive "))
    assert " ".join(naive.split()) == "naive Survey Figure 5; Figure 1 of Le Subscribe everything"


def test_matchers_as_json(program: Program) -> None:
    lines = {line["name"]: line for line in program("lab", "matchers", "--json").lines}
    assert lines.keys() == MATCHERS.keys()
    assert "links" in lines["hanson"]["refuses"]


def test_advise_recommends_and_lists_refusals(program: Program) -> None:
    program.write_lines("plain.jsonl", *({"id": i, "filter": f"a = {i} AND b > 1"} for i in range(30)))
    program.write_lines("some.jsonl", *({"a": i, "b": 2} for i in range(10)))
    arguments = ("lab", "advise", "--subscriptions", "plain.jsonl", "--events", "some.jsonl", "--seconds", "1")
    chosen = ("--matcher", "hanson", "--matcher", "rapid")
    (advice,) = program(*arguments, *chosen, "--json").lines
    assert {found["matcher"]: found["outcome"] for found in advice["measurements"]} == {
        "hanson": "measured",
        "naive": "measured",
        "rapid": "refused",
    }
    assert advice["recommended"] in ("hanson", "naive")
    text = program(*arguments, *chosen).stdout
    assert text.startswith("Recommended: ") and "rapid: refused: 30 of 30 subscriptions" in text


def test_what_is_refused_of_the_files_is_said_and_the_rest_is_measured(program: Program) -> None:
    program.write_lines("subs.jsonl", {"id": 1, "filter": "a = 1"}, {"id": 2, "filter": "a ="})
    program.write("events.jsonl", '{"a": 1}\n[]\n')
    arguments = ("-s", "subs.jsonl", "-e", "events.jsonl", "--matcher", "naive", "--seconds", "1")
    result = program("lab", "advise", *arguments, status=1)
    assert "Recommended: naive" in result.stdout
    assert "subs.jsonl:2" in result.stderr and "events.jsonl:2" in result.stderr


def test_more_than_the_most_is_thinned_out(program: Program) -> None:
    program.write_lines("many.jsonl", *({"id": i, "filter": f"a = {i}"} for i in range(20)))
    arguments = ("-s", "many.jsonl", "-e", "events.jsonl", "--matcher", "naive", "--seconds", "1", "--json")
    (advice,) = program("lab", "advise", *arguments, "--most", "5", "--most-events", "2").lines
    assert (advice["features"]["subscriptions"], advice["features"]["events"]) == (5, 2)


def test_wrong_usage(program: Program) -> None:
    files = ("-s", "subs.jsonl", "-e", "events.jsonl")
    assert "Expected a matcher of" in program("lab", "advise", *files, "--matcher", "magic", status=2).stderr
    assert "Expected - only once" in program("lab", "advise", "-s", "-", "-e", "-", status=2).stderr
    program.write("none.jsonl", "")
    result = program("lab", "advise", "-s", "subs.jsonl", "-e", "none.jsonl", status=1)
    assert "none.jsonl" in result.stderr
