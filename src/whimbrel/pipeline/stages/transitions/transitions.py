"""The stage for publications that stay: a stream of keyed updates in, who begins or ceases to match out.

A publication is the newest state of its key; it matches by `Filter.matches` on that state. Keys are hashed into
buckets, a number that is fixed when the query starts, and a bucket's states are arrays in Spark's state store. When a
new version of the index is published, a control row for every bucket has all stored publications matched again.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whimbrel.pipeline.errors import ColumnError, KeyMissing, OptionError
from whimbrel.pipeline.index.store import IndexStore
from whimbrel.pipeline.spark.transfer import HandOver, hand_over, positional
from whimbrel.pipeline.stages.transitions.cells import Gather, bucket_numbers, updates_schema
from whimbrel.publications.rules import Rules

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from whimbrel.pipeline.stages.transitions.processor import Job

BUCKETS = 32
MOST_BUCKETS = 65_536
_STATE_STORE = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # A commit writes what has changed; snapshots of everything are made beside the stream.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


def transitions(
    updates: DataFrame,
    index: str | os.PathLike[str],
    *,
    key: str,
    sequence: str | None = None,
    deleted: str | None = None,
    partial: bool = False,
    unset: str | None = None,
    leave: bool | Collection[Any] = False,
    outer: Mapping[Any, Any] | None = None,
    dwell: Mapping[Any, float] | None = None,
    time: str | None = None,
    lateness: str = "10 minutes",
    buckets: int = BUCKETS,
    timestamps: Collection[str] = (),
    initial: DataFrame | None = None,
) -> DataFrame:
    """The notifications of a stream of updates: key, subscription, kind, sequence and index_version.

    An update has the `key` (text or an integer) of a publication; every other column is an attribute. Kinds are
    `enter`, `leave` and `delete`. All stored publications are matched again when a new version of the index is there.

    - `deleted`: a boolean column; a true one deletes the publication, and whoever matched it is told.
    - `sequence`: an integer or timestamp column that grows with each update of a key. Updates with the same or a lower
      one than the newest of their key are left out, deletions included, whose numbers are kept for this; within a
      micro-batch updates are taken in its order. Without it, rows of a key in one micro-batch come in any order.
    - `partial`: a null cell leaves the attribute as it was; the column `unset` lists attributes to remove.
    - `leave`: whether subscriptions are told of leaves, all or those with these ids.
    - `outer`: by subscription the id of a wider one (hysteresis): who entered has left only when the wider one does not
      match. The wider ones are told of nothing themselves.
    - `dwell`: by subscription, the seconds that a publication must be out before it has left. By the clock of the
      machine, or by the timestamp column `time`; then it has left when a row has come that is `lateness` after that.
    - `initial`: what `export_publications` read from the checkpoint of another query, to go on with.

    The checkpoint fixes the columns, `buckets` and the options. Versions that a bucket has not left yet must not be
    deleted: keep two. Python workers need pandas and protobuf (the extra spark).
    """
    from pyspark.sql import functions as f

    if not updates.isStreaming:
        raise OptionError("updates", "a DataFrame at rest", "a streaming DataFrame")
    if not 1 <= buckets <= MOST_BUCKETS:
        raise OptionError("buckets", buckets, f"a number from 1 to {MOST_BUCKETS:,}")
    if unset is not None and not partial:
        raise OptionError("unset", unset, "partial=True with it")
    store = IndexStore(index)
    manifest = store.manifest()
    _check_columns(updates, key, sequence, deleted, unset, time)
    named = {name for name in (key, sequence, deleted, unset, time) if name is not None}
    rules = Rules(leave if isinstance(leave, bool) else frozenset(leave), dict(outer or {}), dict(dwell or {}))
    attributes = updates.select(*(f.col(_quoted(name)) for name in updates.columns if name not in named))
    handed = hand_over(attributes.schema, None)
    handed.check(manifest.attributes)
    renamed, columns = positional(updates)
    at = {name: columns[number] for number, name in enumerate(updates.columns)}
    values = [at[name] for name in attributes.columns]
    head = _head(renamed, at, key, sequence, deleted, unset, time, buckets)
    job = _job(store, manifest.kind, renamed, head[1], handed, values, rules, sequence, partial, time, timestamps)
    numbers = bucket_numbers(buckets)
    gather = Gather(numbers, handed, updates_schema(job.key, job.attributes), time is not None, unset is not None)
    if time is not None and rules.dwell:
        renamed = renamed.withWatermark(renamed.columns[updates.columns.index(time)], lateness)
    cells = renamed.select(*head, *handed.columns(values)).mapInArrow(gather, "bucket int, content binary")
    return _run(cells, store, job, numbers, key, initial)


def _run(
    cells: DataFrame, store: IndexStore, job: Job, numbers: NDArray[np.int32], key: str, initial: DataFrame | None
) -> DataFrame:
    from pyspark.sql import functions as f

    from whimbrel.pipeline.stages.transitions.processor import CELL, CONTROL, TransitionsProcessor
    from whimbrel.pipeline.stages.transitions.version_source import FORMAT, VersionSource

    spark = cells.sparkSession
    for name, value in _STATE_STORE.items():
        spark.conf.set(name, value)
    spark.dataSource.register(VersionSource)
    versions = spark.readStream.format(FORMAT).option("path", str(store.path)).option("buckets", len(numbers)).load()
    control = versions.select("bucket", f.col("version").alias(CONTROL), f.lit(None).cast("binary").alias(CELL))
    updates = cells.select("bucket", f.lit(0).cast("bigint").alias(CONTROL), f.col("content").alias(CELL))
    mode = "None"
    if job.clock:
        mode = "EventTime" if job.timed else "ProcessingTime"
    key_type = "string" if pa.types.is_string(job.key) else "bigint"
    grouped_initial = None
    if initial is not None:
        home = f.pmod(f.xxhash64(f.col("k").cast(key_type)), f.lit(len(numbers)))
        number = f.element_at(f.array(*map(f.lit, numbers.tolist())), (home + 1).cast("int"))
        grouped_initial = initial.select(number.alias("bucket"), "version", "content", "pairs").groupBy("bucket")
    ids = "string" if job.kind == "string" else "bigint"
    found = (
        updates.unionByName(control)
        .groupBy("bucket")
        .transformWithStateInPandas(
            TransitionsProcessor(job),
            f"k {key_type}, subscription {ids}, kind string, sequence bigint, index_version bigint",
            "append",
            mode,
            grouped_initial,
        )
    )
    return found.withColumnRenamed("k", key)


def export_publications(spark: SparkSession, checkpoint: str | os.PathLike[str]) -> DataFrame:
    """The publications in the checkpoint of a query of `transitions` that is at rest, one row for each.

    For `initial` of a new query with another number of buckets: it goes on where the old one stopped, with the same
    version of the index and nobody told twice. Columns: k (the key), version, content, pairs.
    """
    from pyspark.sql import functions as f

    from whimbrel.pipeline.stages.transitions.export import exploded

    def read(name: str) -> DataFrame:
        found = spark.read.format("statestore").option("path", str(checkpoint)).option("stateVarName", name)
        if name == "delta":
            found = found.option("flattenCollectionTypes", "true")
        return found.load()

    meta = read("meta").select(f.col("key.bucket"), f.col("value.content").alias("meta"))
    base = read("base").select(f.col("key.bucket"), f.col("value.content").alias("base"))
    delta = read("delta").select(f.col("key.bucket"), f.col("list_element.content").alias("delta"))
    deltas = delta.groupBy("bucket").agg(f.collect_list("delta").alias("deltas"))
    whole = meta.join(base, "bucket", "left").join(deltas, "bucket", "left")
    return whole.select("meta", "base", "deltas").mapInPandas(
        exploded, "k string, version bigint, content binary, pairs binary"
    )


def _check_columns(
    updates: DataFrame, key: str, sequence: str | None, deleted: str | None, unset: str | None, time: str | None
) -> None:
    from pyspark.sql import types as t

    wanted: list[tuple[str | None, tuple[type[DataType], ...], str]] = [
        (key, (t.StringType, t.IntegralType), "text or integers"),
        (sequence, (t.IntegralType, t.TimestampType), "integers or timestamps"),
        (deleted, (t.BooleanType,), "booleans"),
        (unset, (t.ArrayType,), "lists of names"),
        (time, (t.TimestampType,), "timestamps"),
    ]
    for name, kinds, expected in wanted:
        if name is None:
            continue
        if updates.columns.count(name) != 1:
            raise KeyMissing([name], updates.columns)
        kind = updates.schema[name].dataType
        if not isinstance(kind, kinds):
            raise ColumnError(name, expected, kind.simpleString())


def _head(
    renamed: DataFrame,
    at: Mapping[str, Column],
    key: str,
    sequence: str | None,
    deleted: str | None,
    unset: str | None,
    time: str | None,
    buckets: int,
) -> list[Column]:
    """What an update has beside attributes, as `Gather` takes it."""
    from pyspark.sql import functions as f
    from pyspark.sql import types as t

    def kind_of(name: str) -> DataType:
        return renamed.select(at[name]).schema[0].dataType

    def present(name: str, role: str, column: Column) -> Column:
        return f.when(at[name].isNull(), f.raise_error(f.lit(f"a null in the {role} column {name}"))).otherwise(column)

    own = present(key, "key", at[key] if isinstance(kind_of(key), t.StringType) else at[key].cast("bigint"))
    order: Column = f.lit(None).cast("bigint")
    if sequence is not None:
        is_time = isinstance(kind_of(sequence), t.TimestampType)
        order = present(sequence, "sequence", f.unix_micros(at[sequence]) if is_time else at[sequence].cast("bigint"))
    head = [
        f.pmod(f.xxhash64(own), f.lit(buckets)).cast("int").alias("bucket"),
        own.alias("k"),
        order.alias("s"),
        (f.lit(False) if deleted is None else f.coalesce(at[deleted], f.lit(False))).alias("d"),
    ]
    if time is not None:
        head.append(present(time, "time", f.unix_micros(at[time]) / 1e6).alias("t"))
    if unset is not None:
        head.append(at[unset].alias("u"))
    return head


def _job(
    store: IndexStore,
    kind: str,
    renamed: DataFrame,
    key: Column,
    handed: HandOver,
    values: list[Column],
    rules: Rules,
    sequence: str | None,
    partial: bool,
    time: str | None,
    timestamps: Collection[str],
) -> Job:
    from pyspark.sql.pandas.types import to_arrow_type

    from whimbrel.pipeline.stages.transitions.processor import Job

    def arrow(column: Column) -> pa.DataType:
        return to_arrow_type(renamed.select(column).schema[0].dataType, timezone="UTC")

    return Job(
        secrets.token_hex(8),
        store.path,
        kind,
        arrow(key),
        pa.schema([pa.field(leaf.name, arrow(leaf.column(values))) for leaf in handed.leaves]),
        handed,
        rules,
        sequence is not None,
        partial,
        time is not None,
        bool(rules.dwell),
        tuple(timestamps),
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
