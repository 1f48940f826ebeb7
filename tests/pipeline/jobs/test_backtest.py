"""Backtest: counts, days, samples and overlaps against the reference evaluator, and the command."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.cli.program import Program
from whimbrel import Filter
from whimbrel.cli.main import app
from whimbrel.lab.workloads import make
from whimbrel.pipeline import backtest, compile_index
from whimbrel.pipeline.errors import BadOption, ColumnError

pytestmark = pytest.mark.spark

TEXT = "a4 < 2500"
START = datetime(2026, 3, 28, 20, tzinfo=UTC)


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """Events over three days; every tenth has no time."""
    found = make("lesubscribe", n=1, events=200).events.to_pylist()
    return [{**row, "at": None if n % 10 == 0 else START + timedelta(minutes=17 * n)} for n, row in enumerate(found)]


@pytest.fixture(scope="module")
def subscriptions() -> list[tuple[int, str]]:
    found = make("lesubscribe", n=300, events=1).subscriptions
    more = ["a4 < 2500", "a4 <= 4000", "a4 < 100", "a4 < 2000 AND a1 = 'v001'", "a5 IS MISSING"]
    return list(enumerate([*found["filter"].to_pylist(), *more]))


SCHEMA = "a1 string, a2 string, a3 string, a4 bigint, a5 bigint, a6 bigint, at timestamp"


def expected(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    tested = Filter.parse(TEXT)
    return [row for row in rows if tested.matches(present(row))]


def present(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if value is not None}


def day(row: dict[str, Any]) -> str | None:
    return None if row["at"] is None else row["at"].date().isoformat()


def test_counts_days_and_overlaps(
    spark: SparkSession, rows: list[dict[str, Any]], subscriptions: list[tuple[int, str]], tmp_path: Path
) -> None:
    events = spark.createDataFrame([tuple(row.values()) for row in rows], SCHEMA)
    others = spark.createDataFrame([*subscriptions, (999, "a4 <")], "id bigint, filter string")
    result = backtest(TEXT, events, others, time="at", samples=3, overlaps=10_000)
    hits = expected(rows)
    assert (result.events, result.hits, result.share) == (200, len(hits), len(hits) / 200)
    assert {(one.day, one.events) for one in result.days} == set(Counter(map(day, rows)).items())
    assert {one.day: one.hits for one in result.days if one.hits} == dict(Counter(map(day, hits)))
    texts = [json.loads(text) for text in result.samples]
    assert len(texts) == 3 and all(text["a4"] < 2500 for text in texts)
    filters = {id: Filter.parse(text) for id, text in subscriptions}
    shared = {id: sum(f.matches(present(row)) for row in hits) for id, f in filters.items()}
    assert {one.subscription: one.hits for one in result.overlaps} == {id: n for id, n in shared.items() if n}
    assert [one.hits for one in result.overlaps] == sorted((n for n in shared.values() if n), reverse=True)
    assert result.known == sum(any(f.matches(present(row)) for f in filters.values()) for row in hits)
    assert (result.subscriptions, result.rejected) == (len(subscriptions), 1)
    relations = {one.filter: one.relation for one in result.overlaps}
    assert (relations["a4 < 2500"], relations["a4 <= 4000"], relations["a4 < 100"]) == ("same", "covers", "covered by")
    assert relations["a5 IS MISSING"] == "overlaps"


def test_json_events_and_an_index(
    spark: SparkSession, rows: list[dict[str, Any]], subscriptions: list[tuple[int, str]], tmp_path: Path
) -> None:
    lines = [json.dumps({**present(row), "d": {"at": str(row["at"])}}, default=str) for row in rows]
    compile_index(spark.createDataFrame(subscriptions, "id bigint, filter string"), tmp_path / "index")
    (tmp_path / "events.jsonl").write_text("\n".join([*lines, "nope"]))
    arguments = ["backtest", TEXT, "--events", str(tmp_path / "events.jsonl"), "--time", "d.at"]
    compared = [*arguments, "--index", str(tmp_path / "index"), "--overlaps", "2"]
    done = CliRunner().invoke(app, [*compared, "--json"])
    assert done.exit_code == 0, done
    result = json.loads(done.stdout)
    hits = expected(rows)
    assert (result["events"], result["hits"], result["refused_events"]) == (200, len(hits), 1)
    assert {one["day"]: one["hits"] for one in result["days"] if one["hits"]} == dict(Counter(map(day, hits)))
    assert len(result["samples"]) == 5 and {"a4", "d"} <= json.loads(result["samples"][0]).keys()
    assert [one["relation"] for one in result["overlaps"]] == ["same", "covers"]
    shown = CliRunner().invoke(app, compared).stdout
    assert f"matches {len(hits)} of 200 events" in shown and "2026-03-29" in shown and "covers it: a4 <= 4000" in shown


def test_a_time_in_json_with_a_quote_in_its_name(spark: SparkSession) -> None:
    events = spark.createDataFrame([('{"d": {"it\'s": "2026-01-02"}}',)], "text string")
    (one,) = backtest("TRUE", events, json="text", time="d.it's").days
    assert (one.day, one.hits) == ("2026-01-02", 1)


def test_names_that_differ_in_case_only(spark: SparkSession) -> None:
    schema = "a int, A int, t string, T string, d struct<x: string, X: int>"
    events = spark.createDataFrame(
        [(1, 2, "2026-01-02", "2026-01-03", ("2026-01-04", 1)), (2, 1, None, None, None)], schema
    )
    others = spark.createDataFrame([(1, "A = 2"), (2, "A = 1"), (3, "d.X = 1")], "id int, filter string")
    result = backtest("a = 1", events, others, time="T")
    assert [(one.day, one.events, one.hits) for one in result.days] == [(None, 1, 0), ("2026-01-03", 1, 1)]
    assert [one.subscription for one in result.overlaps] == [1, 3]
    assert json.loads(result.samples[0])["A"] == 2
    texts = spark.createDataFrame([('{"a": 1}', "{")], "j string, J string")
    assert backtest("a = 1", texts, json="j").samples == ('{"a": 1}',)
    with pytest.raises(ColumnError, match="another name for each field of the struct, but got x, X - at column x"):
        backtest("a = 1", events, time="d.x")


def test_what_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    events = spark.createDataFrame([(1, "x")], "a bigint, s string")
    with pytest.raises(ColumnError, match="timestamps, dates, or texts of them, but got bigint - at column a"):
        backtest("a = 1", events, time="a")
    with pytest.raises(ColumnError, match="a column or field of this name, but got the columns a, s"):
        backtest("a = 1", events, time="b.c")
    with pytest.raises(BadOption, match="a DataFrame at rest"):
        backtest("a = 1", spark.readStream.schema("a int").json(str(tmp_path)))
    with pytest.raises(BadOption, match="an integer of at least 0, but got -1 - at samples"):
        backtest("a = 1", events, samples=-1)
    empty = backtest("a = 1", events.limit(0), spark.createDataFrame([(1, "a = 1")], "id bigint, filter string"))
    assert (empty.events, empty.hits, empty.share, empty.known, empty.overlaps) == (0, 0, 0.0, 0, ())


def test_a_mistake_is_shown_where_it_is(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.write_lines("events.jsonl", {"a": 1})
    done = program("backtest", "a = 1 AND price <", "--events", "events.jsonl", status=1)
    assert "a = 1 AND price <\n" in done.stderr and done.stderr.rstrip().endswith("^")
