from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

from whimbrel.cli.main import app
from whimbrel.model.filter import Filter

KEYS = {
    *("events", "deliveries", "false_negatives", "duplicates", "false_positives", "content_matches_per_event"),
    *("edge_checks", "prefix_bytes", "filter_messages", "suppressed_filters", "tree_updates", "tree_update_bytes"),
    "fallbacks",
}


def simulate(*options: str) -> dict[str, dict[str, float]]:
    done = CliRunner().invoke(app, ["overlay", "simulate", "--json", "--names", "30", *options], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    read: dict[str, dict[str, float]] = json.loads(done.stdout)
    return read


def test_all_kinds_deliver_the_same_and_prefixes_take_one_match() -> None:
    reports = simulate("--filters", "100", "--events", "30")
    assert list(reports) == ["prefix", "siena", "flood"]
    for report in reports.values():
        assert report.keys() >= KEYS
        assert report["events"] == 30
        assert report["false_negatives"] == report["duplicates"] == report["wrong_deliveries"] == 0
        assert report["deliveries"] == reports["flood"]["deliveries"] > 0
    prefix, siena, flood = reports.values()
    assert prefix["content_matches_per_event"] == 1
    assert prefix["false_positives"] == prefix["fallbacks"] == siena["false_positives"] == 0
    assert siena["content_matches_per_event"] > 1
    assert flood["false_positives"] > 0
    assert prefix["work_per_event"] < siena["work_per_event"]


@pytest.mark.parametrize(
    "options",
    [
        ("--depth", "1"),
        ("--depth", "0", "--shape", "path", "--routers", "9"),
        ("--churn", "0.5", "--threshold", "0.8", "--trigger", "never"),
        ("--churn", "0.3", "--loss", "0.2", "--cuts", "2", "--crashes", "3", "--shape", "random"),
        ("--together", "--trigger", "20s", "--distribution", "uniform"),
    ],
    ids=" ".join,
)
def test_no_run_loses_an_event(options: tuple[str, ...]) -> None:
    for report in simulate("--filters", "60", "--events", "30", "--routers", "13", *options).values():
        assert report["false_negatives"] == report["duplicates"] == report["wrong_deliveries"] == 0


def test_a_short_prefix_costs_false_positives_and_fewer_bytes() -> None:
    options = ("--filters", "60", "--events", "30", "--routers", "13", "--kind", "prefix")
    whole, short = (simulate(*options, *more)["prefix"] for more in ((), ("--depth", "1")))
    assert short["deliveries"] == whole["deliveries"]
    assert short["false_positives"] > whole["false_positives"] == 0
    assert short["prefix_bytes"] < whole["prefix_bytes"]


def test_the_same_seed_gives_the_same_run() -> None:
    options = (
        "--filters",
        "40",
        "--events",
        "20",
        "--routers",
        "13",
        "--loss",
        "0.1",
        "--crashes",
        "1",
        "--churn",
        "0.2",
    )
    first, second = simulate(*options), simulate(*options)
    for report in (*first.values(), *second.values()):
        del report["cpu_seconds"]
    assert first == second


def test_the_history_proves_the_zeros(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    simulate("--filters", "40", "--events", "30", "--churn", "0.5", "--history", str(path), "--names", "30")
    lines = defaultdict(list)
    for line in path.read_text().splitlines():
        read = json.loads(line)
        lines[read["kind"]].append(read)
    assert set(lines) == {"prefix", "siena", "flood"}
    for records in lines.values():
        subscriptions = [one for one in records if "subscription" in one]
        events = [one for one in records if "event" in one]
        assert (len(subscriptions), len(events)) == (60, 30)
        filters = [(one["subscription"], Filter.parse(one["filter"])) for one in subscriptions]
        for event in events:
            matching = {name for name, filter in filters if filter.matches(event["content"])}
            due = {
                s["subscription"]
                for s in subscriptions
                if s["from"] <= event["published"] and (s["until"] is None or s["until"] > event["handled"])
            }
            assert matching & due <= set(event["deliveries"]) <= matching
            assert len(event["deliveries"]) == len(set(event["deliveries"]))


def test_wrong_options_are_refused() -> None:
    runner = CliRunner()
    for options, problem in (
        (("--interval", "soon"), "span of time"),
        (("--kind", "gossip"), "prefix, siena or flood"),
        (("--decay", "2"), "decay"),
    ):
        done = runner.invoke(app, ["overlay", "simulate", *options])
        assert done.exit_code == 2
        assert problem in done.output
