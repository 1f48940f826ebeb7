from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from whimbrel.model.errors import NamesError
from whimbrel.pipeline import statistics
from whimbrel.pipeline.errors import ColumnError

pytestmark = pytest.mark.spark

SCHEMA = "n int, x double, s string, at timestamp, d struct<y: boolean>, l array<int>, m map<string, int>, raw binary"


def test_each_attribute_is_described(spark: Any) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        (1, 0.5, "red", start, (True,), [1], {"k": 1}, b"x"),
        (1, float("nan"), "red", None, (None,), [], {}, None),
        (2, 2.5, None, None, None, None, None, None),
        (9, None, "blue", None, (True,), [None], {"k": None}, None),
    ]
    facts = {row["attribute"]: row for row in statistics(spark.createDataFrame(rows, SCHEMA)).collect()}
    assert list(facts) == ["n", "x", "s", "at", "d.y", "l", "m"]
    assert {name: row["events"] for name, row in facts.items()} == dict.fromkeys(facts, 4)
    present = {name: row["present"] for name, row in facts.items()}
    assert present == {"n": 4, "x": 2, "s": 3, "at": 1, "d.y": 2, "l": 2, "m": 2}
    distinct = {name: row["distinct"] for name, row in facts.items()}
    assert distinct == {"n": 3, "x": 2, "s": 2, "at": 1, "d.y": 1, "l": None, "m": None}
    assert facts["n"]["quantiles"] == [1, 1, 1, 2, 9, 9]
    assert facts["at"]["quantiles"] == [start.timestamp()] * 6
    assert facts["s"]["quantiles"] is None
    assert [tuple(one) for one in facts["n"]["frequent"]] == [("1", 2), ("2", 1), ("9", 1)]
    assert [tuple(one) for one in facts["s"]["frequent"]] == [("red", 2), ("blue", 1)]
    assert [tuple(one) for one in facts["d.y"]["frequent"]] == [("true", 2)]
    assert facts["l"]["frequent"] == []
    assert facts["d.y"]["type"] == "boolean"


def test_quantiles_of_times_are_those_of_utc_whatever_zone_the_session_has(spark: Any) -> None:
    events = spark.sql(
        "SELECT date'2026-01-02' d, timestamp_ntz'2026-01-02 00:00:00' n, timestamp'2026-01-02 00:00:00Z' t"
    )
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        found = [row["quantiles"][0] for row in statistics(events).collect()]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert found == [datetime(2026, 1, 2, tzinfo=UTC).timestamp()] * 3


def test_frequent_values_are_few(spark: Any) -> None:
    (row,) = statistics(spark.range(1_000), ["id"]).collect()
    assert len(row["frequent"]) == 10 and row["present"] == 1_000
    assert abs(row["distinct"] - 1_000) < 100


def test_some_attributes_and_none(spark: Any) -> None:
    events = spark.createDataFrame([(1, 2, b"x")], "a int, b int, raw binary")
    assert [row["attribute"] for row in statistics(events, ["b", "zzz"]).collect()] == ["b"]
    assert statistics(events, []).collect() == []
    assert [row["present"] for row in statistics(events.limit(0)).collect()] == [0, 0]
    with pytest.raises(NamesError, match="a list of attribute names, but got the text 'ab'"):
        statistics(events, "ab")
    with pytest.raises(ColumnError, match="binary - at column raw"):
        statistics(events, ["raw"])
