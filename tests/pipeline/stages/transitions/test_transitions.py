"""Keyed publications on Spark: every notification of a plain model, and no other, in any partitioning."""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from tests.pipeline.publishing import publish
from tests.publications.model import ARROW, FILTERS, LATER, SCHEMA, Model, history
from whimbrel.pipeline.errors import BadOption, ColumnError, KeyMissing
from whimbrel.pipeline.index.batches import gc
from whimbrel.pipeline.stages.transitions.transitions import TransitionOptions, export_publications, transitions
from whimbrel.pipeline.stages.transitions.update_cells import bucket_numbers

pytestmark = pytest.mark.spark


class Query:
    """The stage over a folder of Parquet files, one for each micro-batch."""

    def __init__(
        self, spark: SparkSession, folder: Path, leave: Any = False, partial: bool = False, **more: Any
    ) -> None:
        self.spark, self.folder = spark, folder
        self.options: Any = {"leave": leave, "partial": partial, "options": TransitionOptions(**more)}
        self.input, self.output = folder / "in", folder / "out"
        self.input.mkdir(parents=True, exist_ok=True)
        self.checkpoint = folder / "checkpoint"
        self.files = 0
        self.seen: Counter[Any] = Counter()

    def put(self, table: pa.Table) -> None:
        """What the next micro-batch is to read."""
        self.files += 1
        file = self.input / f"{self.files:04}.parquet"
        pq.write_table(table, file)
        os.utime(file, (self.files, self.files))  # Spark takes them in this order

    def run(self, schema: str | StructType = SCHEMA, **names: str) -> Counter[Any]:
        """Process what is there and return what is new; a new query, so that the state comes from the checkpoint."""
        reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        told = transitions(reader.parquet(str(self.input)), self.folder / "index", key="key", **names, **self.options)
        writer = told.writeStream.format("parquet").option("checkpointLocation", str(self.checkpoint))
        writer.option("path", str(self.output)).trigger(availableNow=True).start().awaitTermination()
        rows = self.spark.read.parquet(str(self.output)).collect()
        found = Counter(tuple(row) for row in rows)
        new, self.seen = found - self.seen, found
        return new


def updates(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, ARROW)


def test_histories_give_the_notifications_of_the_model_also_when_versions_were_collected(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path, leave=[*FILTERS, *LATER], buckets=3, partial=True, unset="un")
    model = Model(leave=True, partial=True)
    rows = history(3, 160)
    for filters, batches in ((FILTERS, (rows[:30], rows[30:60])), (LATER, (rows[60:110], rows[110:]))):
        expected = model.publish(filters, publish(tmp_path / "index", filters))
        for batch in batches:
            query.put(updates(batch))
            expected += model.update(batch)
        assert query.run(sequence="n", deleted="gone") == Counter(expected)
        if filters is FILTERS:  # the query is stopped, and uses the first version
            for other in ({"low": "a < 1"}, {"low": "a < 2"}):
                publish(tmp_path / "index", other)
            assert gc(tmp_path / "index").kept == (1, 3)


def test_another_number_of_buckets_goes_on_from_an_export(spark: SparkSession, tmp_path: Path) -> None:
    old, model = Query(spark, tmp_path / "old", leave=True, buckets=4), Model(True, False)
    rows = history(9, 80)
    model.publish(FILTERS, publish(tmp_path / "old" / "index", FILTERS))
    expected = Counter[Any]()
    for first, last in ((0, 35), (35, 42), (42, 50)):  # a base, and deltas whose order counts
        old.put(updates(rows[first:last]))
        expected.update(model.update(rows[first:last]))
    assert old.run(sequence="n", deleted="gone") == expected
    exported = tmp_path / "exported"
    export_publications(spark, old.checkpoint).write.parquet(str(exported))
    assert spark.read.parquet(str(exported)).count() == len(model.states)
    (tmp_path / "new").mkdir()
    (tmp_path / "old" / "index").rename(tmp_path / "new" / "index")
    new = Query(spark, tmp_path / "new", leave=True, buckets=9, initial=spark.read.parquet(str(exported)))
    new.put(updates(rows[50:]))
    assert new.run(sequence="n", deleted="gone") == Counter(model.update(rows[50:]))
    assert new.run(sequence="n", deleted="gone") == Counter()  # nothing new: nothing is told again


def test_hysteresis_and_dwell_by_the_time_of_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    publish(tmp_path / "index", {"in": "a < 10", "wide": "a < 12", "slow": "a < 10"})
    rules = {"outer": {"in": "wide"}, "dwell": {"slow": 5}, "leave": True}
    query = Query(spark, tmp_path, buckets=2, time="at", lateness="1 second", **rules)

    def put(*rows: tuple[str, int, int]) -> None:
        times = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second) for _, second, _ in rows]
        numbers = {"n": [second for _, second, _ in rows], "a": [value for _, _, value in rows]}
        query.put(pa.table({"key": [r[0] for r in rows], "at": pa.array(times, pa.timestamp("us", "UTC")), **numbers}))

    def run() -> set[tuple[str, str, str, int | None]]:
        told = query.run("key STRING, at TIMESTAMP, n BIGINT, a BIGINT", sequence="n")
        assert set(told.values()) == {1}
        return {(key, id, kind, sequence) for key, id, kind, sequence, _ in told}

    put(("p", 0, 5), ("q", 0, 5))
    put(("p", 1, 11), ("q", 1, 13))
    assert run() == {
        ("p", "in", "enter", 0), ("p", "slow", "enter", 0),
        ("q", "in", "enter", 0), ("q", "in", "leave", 1), ("q", "slow", "enter", 0),
    }  # fmt: skip
    put(("p", 3, 5))  # back before its dwell was over
    put(("other", 60, 50))  # time goes on: the timer of q's bucket fires
    put(("p", 61, 13), ("p", 70, 5), ("q", 4, 50))  # q is late by the clock, not by its sequence
    assert run() == {
        ("p", "in", "leave", 61), ("p", "in", "enter", 70), ("p", "slow", "leave", None), ("p", "slow", "enter", 70),
        ("q", "slow", "leave", None),
    }  # fmt: skip


def test_integer_keys_and_ids_and_attributes_of_any_type(spark: SparkSession, tmp_path: Path) -> None:
    publish(tmp_path / "index", {1: "m.x = 3", 2: "d IS MISSING", 3: "b", 4: "ls.y = 2", 5: "n > 1.5"})
    query = Query(spark, tmp_path, partial=True, buckets=2)
    rows = spark.range(3).selectExpr(
        "cast(id AS int) key", "map('x', 3) m", "date'2026-01-02' d", "timestamp'2026-01-01 00:00:00' t", "id = 1 b",
        "array(named_struct('y', 2, 'z', 'q')) ls", "cast(id AS decimal(10, 2)) n", "cast(id AS float) f",
    )  # fmt: skip
    rows.coalesce(1).write.mode("append").parquet(str(query.input))
    expected = [(key, id) for key in range(3) for id in (1, 4)] + [(1, 3), (2, 5)]
    assert query.run(rows.schema) == Counter((key, id, "enter", None, 1) for key, id in expected)


def test_equal_shares_of_buckets_for_partitions(spark: SparkSession) -> None:
    for buckets in (1, 7, 32):
        numbers = bucket_numbers(buckets).tolist()
        frame = spark.createDataFrame([(number,) for number in numbers], "bucket INT")
        homes = frame.select(sf.pmod(sf.hash("bucket"), sf.lit(buckets))).collect()
        assert [home for (home,) in homes] == list(range(buckets))


def test_bad_arguments_are_refused_before_anything_runs(spark: SparkSession, tmp_path: Path) -> None:
    publish(tmp_path / "index", {"s": "a = 1"})
    (tmp_path / "in").mkdir()
    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
    index = tmp_path / "index"
    at_rest = spark.createDataFrame([], SCHEMA)
    for error, call in [
        (BadOption, lambda: transitions(at_rest, index, key="key")),
        (BadOption, lambda: transitions(stream, index, key="key", options=TransitionOptions(buckets=0))),
        (BadOption, lambda: transitions(stream, index, key="key", options=TransitionOptions(buckets=2.5))),  # type: ignore[arg-type]
        (BadOption, lambda: transitions(stream, index, key="key", options=TransitionOptions(unset="tags"))),
        (BadOption, lambda: transitions(stream.withColumnRenamed("key", "Kind"), index, key="Kind")),
        (KeyMissing, lambda: transitions(stream, index, key="nobody")),
        (ColumnError, lambda: transitions(stream, index, key="d")),
        (ColumnError, lambda: transitions(stream, index, key="key", sequence="b")),
        (ColumnError, lambda: transitions(stream, index, key="key", deleted="a")),
        (ColumnError, lambda: transitions(stream, index, key="key", options=TransitionOptions(time="n"))),
    ]:
        with pytest.raises(error):
            call()
