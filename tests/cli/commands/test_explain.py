"""`whimbrel explain`: one filter, one subscription, or what an event matches and nearly matches."""

from __future__ import annotations

import json

from tests.cli.program import Program

EVENT = '{"category": "Toy", "price": 7}'


def test_explains_a_filter_on_an_event_of_the_command_line(program: Program) -> None:
    result = program("explain", "--filter", "price < 5 and category = 'Toy'", EVENT)
    assert result.stdout.splitlines() == [
        "category = 'Toy' AND price < 5",
        "no match",
        "  + category = 'Toy'  [category: 'Toy']",
        "  - price < 5  [price: 7, off by 2]",
    ]


def test_explains_a_subscription_as_json(program: Program) -> None:
    result = program("explain", "-s", "subs.jsonl", "--id", "toys", EVENT, "--json")
    (explanation,) = result.lines
    assert explanation["subscription"] == "toys"
    assert explanation["filter"] == "category = 'Toy' AND price < 5"
    assert explanation["matched"] is False
    assert explanation["conjunctions"][0]["constraints"][1] == {
        "attribute": "price",
        "constraint": "price < 5",
        "held": False,
        "seen": [7],
        "distance": 2.0,
    }


def test_without_an_id_it_lists_matches_and_near_misses(program: Program) -> None:
    result = program("explain", "-s", "subs.jsonl", "events.jsonl", "--row", "1", "--json")
    (listing,) = result.lines
    assert listing["matches"] == ["dear", "tagged"]
    assert [(miss["subscription"], miss["failed"]) for miss in listing["near_misses"]] == [("toys", 2)]
    text = program("explain", "-s", "subs.jsonl", "events.jsonl", "--limit", "1").stdout
    assert text.splitlines()[:4] == ["matches 1 of 3 subscriptions:", "  toys", "near misses:", "  dear: 1 failed"]
    assert "tagged" not in text


def test_an_object_may_stretch_over_many_lines(program: Program) -> None:
    stdin = json.dumps({"price": 7}, indent=2).encode()
    assert "no match" in program("explain", "--filter", "price < 5", "-", stdin=stdin).stdout


def test_events_come_from_tables_too(program: Program) -> None:
    program.write("e.csv", "price,t\n3,2026-01-01\n,2026-01-02\n")
    arguments = ("--filter", "t > TIMESTAMP '2026-01-01' AND price IS MISSING", "--timestamps", "t")
    assert program("explain", *arguments, "e.csv", "--row", "1").stdout.splitlines()[1] == "match"
    assert "off by 0" in program("explain", *arguments, "e.csv").stdout


def test_wrong_usage_ends_with_status_2(program: Program) -> None:
    program("explain", EVENT, status=2)
    program("explain", "--filter", "a = 1", "--subscriptions", "subs.jsonl", EVENT, status=2)
    program("explain", "--filter", "a = 1", "--id", "toys", EVENT, status=2)


def test_bad_input_ends_with_a_sentence_and_status_1(program: Program) -> None:
    filter_error = program("explain", "--filter", "price <", EVENT, status=1)
    assert filter_error.stderr.splitlines()[0].startswith("whimbrel: Expected ")
    assert filter_error.stderr.splitlines()[2].strip() == "^"
    unknown = program("explain", "-s", "subs.jsonl", "--id", "nobody", EVENT, "--json", status=1)
    assert unknown.error_lines[0]["error"] == "UnknownId"
    late = program("explain", "-s", "subs.jsonl", "events.jsonl", "--row", "9", "--json", status=1)
    assert late.error_lines[0]["error"] == "FileEmpty"
    twice = program("explain", "--filter", "a = 1", '{"a": 1, "a": 2}', status=1)
    assert "'a' twice" in twice.stderr
