"""Keyed publications on Spark: every notification of a plain model, and no other, in any partitioning."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.pipeline.publishing import publish
from tests.pipeline.transitions_model import ARROW, FILTERS, LATER, SCHEMA, Model, Told, history
from whimbrel.pipeline.errors import ColumnError, KeyMissing, OptionError
from whimbrel.pipeline.transitions import export_publications, transitions

pytestmark = pytest.mark.spark


class Query:
    """The stage over a folder of Parquet files, one micro-batch at a time."""

    def __init__(self, spark: SparkSession, folder: Path, **options: Any) -> None:
        self.spark, self.folder, self.options = spark, folder, options
        self.input, self.output = folder / "in", folder / "out"
        self.input.mkdir(parents=True, exist_ok=True)
        self.checkpoint = folder / "checkpoint"
        self.files = 0

    def stage(self) -> DataFrame:
        updates = self.spark.readStream.schema(SCHEMA).parquet(str(self.input))
        return transitions(updates, self.folder / "index", key="key", sequence="n", deleted="gone", **self.options)

    def put(self, rows: list[dict[str, Any]]) -> None:
        self.files += 1
        pq.write_table(pa.Table.from_pylist(rows, ARROW), self.input / f"{self.files:04}.parquet")

    def run(self) -> list[Told]:
        """Process what is there; a new query each time, so that the state comes from the checkpoint."""
        before = self.read()
        writer = self.stage().writeStream.format("parquet").option("checkpointLocation", str(self.checkpoint))
        query = writer.option("path", str(self.output)).trigger(availableNow=True).start()
        query.awaitTermination()
        return list((Counter(self.read()) - Counter(before)).elements())

    def read(self) -> list[Told]:
        if not (self.output / "_spark_metadata").exists():
            return []
        rows = self.spark.read.parquet(str(self.output)).collect()
        return [(r["key"], r["subscription"], r["kind"], r["sequence"], r["index_version"]) for r in rows]


@pytest.mark.parametrize(("partial", "leave", "buckets"), [(False, True, 3), (True, False, 5)])
def test_histories_give_the_notifications_of_the_model(
    spark: SparkSession, tmp_path: Path, partial: bool, leave: bool, buckets: int
) -> None:
    options = {"partial": True, "unset": "un"} if partial else {}
    query = Query(spark, tmp_path, leave=leave, buckets=buckets, **options)
    model = Model(leave, partial)
    rows = history(buckets, 160)
    expected = model.publish(FILTERS, publish(tmp_path / "index", FILTERS))
    query.put(rows[:60])
    expected += model.update(rows[:60])
    assert Counter(query.run()) == Counter(expected)
    expected = model.publish(LATER, publish(tmp_path / "index", LATER))
    query.put(rows[60:])
    expected += model.update(rows[60:])
    assert Counter(query.run()) == Counter(expected)
    assert query.run() == []


def test_another_number_of_buckets_goes_on_from_an_export(spark: SparkSession, tmp_path: Path) -> None:
    old, model = Query(spark, tmp_path / "old", leave=True, buckets=4), Model(True, False)
    rows = history(9, 80)
    model.publish(FILTERS, publish(tmp_path / "old" / "index", FILTERS))
    old.put(rows[:50])
    expected = model.update(rows[:50])
    assert Counter(old.run()) == Counter(expected)
    exported = tmp_path / "exported"
    export_publications(spark, old.checkpoint).write.parquet(str(exported))
    assert spark.read.parquet(str(exported)).count() == len(model.states)
    (tmp_path / "new").mkdir()
    (tmp_path / "old" / "index").rename(tmp_path / "new" / "index")
    new = Query(spark, tmp_path / "new", leave=True, buckets=9, initial=spark.read.parquet(str(exported)))
    new.put(rows[50:])
    assert Counter(new.run()) == Counter(model.update(rows[50:]))


def test_hysteresis_and_dwell_by_the_time_of_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    filters = {"in": "a < 10", "wide": "a < 12", "slow": "a < 10"}
    publish(tmp_path / "index", filters)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    folder = tmp_path / "in"
    folder.mkdir()

    def put(name: str, *rows: tuple[str, int, int]) -> None:
        times = [start + timedelta(seconds=second) for _, second, _ in rows]
        columns = {
            "key": [r[0] for r in rows],
            "at": pa.array(times, pa.timestamp("us", "UTC")),
            "a": [r[2] for r in rows],
        }
        pq.write_table(pa.table(columns), folder / name)

    def run() -> list[tuple[str, str, str]]:
        updates = spark.readStream.schema("key STRING, at TIMESTAMP, a BIGINT").parquet(str(folder))
        found = transitions(
            updates.withColumn("n", updates["at"]), tmp_path / "index", key="key", sequence="n", time="at", buckets=2,
            leave=True, outer={"in": "wide"}, dwell={"slow": 5}, lateness="1 second",
        )  # fmt: skip
        before = read()
        writer = found.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.option("path", str(tmp_path / "out")).trigger(availableNow=True).start().awaitTermination()
        return sorted((Counter(read()) - Counter(before)).elements())

    def read() -> list[tuple[str, str, str]]:
        if not (tmp_path / "out" / "_spark_metadata").exists():
            return []
        rows = spark.read.parquet(str(tmp_path / "out")).collect()
        return [(row["key"], row["subscription"], row["kind"]) for row in rows]

    put("1", ("p", 0, 5), ("q", 0, 5))
    assert run() == [("p", "in", "enter"), ("p", "slow", "enter"), ("q", "in", "enter"), ("q", "slow", "enter")]
    put("2", ("p", 1, 11), ("q", 1, 13))
    assert run() == [("q", "in", "leave")]
    put("3", ("p", 3, 5))  # back before its dwell was over
    assert run() == []
    put("4", ("other", 60, 50))  # time goes on: the timer of q's bucket fires
    assert run() == [("q", "slow", "leave")]
    put("5", ("p", 61, 13), ("p", 70, 5))
    assert run() == [("p", "in", "enter"), ("p", "in", "leave"), ("p", "slow", "enter"), ("p", "slow", "leave")]


def test_bad_arguments_are_refused_before_anything_runs(spark: SparkSession, tmp_path: Path) -> None:
    publish(tmp_path / "index", {"s": "a = 1"})
    (tmp_path / "in").mkdir()
    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
    index = tmp_path / "index"
    at_rest = spark.createDataFrame([], SCHEMA)
    for error, call in [
        (OptionError, lambda: transitions(at_rest, index, key="key")),
        (OptionError, lambda: transitions(stream, index, key="key", buckets=0)),
        (OptionError, lambda: transitions(stream, index, key="key", unset="tags")),
        (KeyMissing, lambda: transitions(stream, index, key="nobody")),
        (ColumnError, lambda: transitions(stream, index, key="d")),
        (ColumnError, lambda: transitions(stream, index, key="key", sequence="b")),
        (ColumnError, lambda: transitions(stream, index, key="key", deleted="a")),
        (ColumnError, lambda: transitions(stream, index, key="key", time="n")),
    ]:
        with pytest.raises(error):
            call()
