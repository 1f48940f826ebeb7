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

import pyarrow as pa

from whimbrel.pipeline.attributes import hand_over, positional
from whimbrel.pipeline.errors import ColumnError, KeyMissing, OptionError
from whimbrel.pipeline.store import IndexStore
from whimbrel.pipeline.transitions_sticky import Rules

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from whimbrel.pipeline.transitions_processor import Job

BUCKETS = 256
MOST_BUCKETS = 65_536
_MASK_BITS = 62
_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


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
      machine, or by the timestamp column `time`; then `lateness` is how far behind its rows may come.
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
    kind = store.manifest().kind
    _check_columns(updates, key, sequence, deleted, unset, time)
    named = {name for name in (key, sequence, deleted, unset, time) if name is not None}
    rules = Rules(leave if isinstance(leave, bool) else frozenset(leave), dict(outer or {}), dict(dwell or {}))
    attributes = updates.select(*(f.col(_quoted(name)) for name in updates.columns if name not in named))
    leaves = hand_over(attributes.schema, None).leaves
    renamed, columns = positional(updates)
    at = {name: columns[number] for number, name in enumerate(updates.columns)}
    rows = [at[name] for name in attributes.columns]
    values = [leaf.column(rows) for leaf in leaves]
    whole = _row(renamed, at, key, sequence, deleted, unset, time, values, buckets)
    kinds = [whole.schema[f"a{number}"].dataType for number in range(len(leaves))]
    job = _job(store, kind, whole, [leaf.name for leaf in leaves], rules, sequence, partial, time, timestamps)
    return _run(updates, whole, kinds, store, job, buckets, key, lateness, initial)


def _run(
    updates: DataFrame,
    whole: DataFrame,
    kinds: list[DataType],
    store: IndexStore,
    job: Job,
    buckets: int,
    key: str,
    lateness: str,
    initial: DataFrame | None,
) -> DataFrame:
    from pyspark.sql import functions as f

    from whimbrel.pipeline.transitions_processor import TransitionsProcessor
    from whimbrel.pipeline.transitions_versions import FORMAT, VersionSource

    spark = updates.sparkSession
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", _PROVIDER)
    spark.dataSource.register(VersionSource)
    versions = spark.readStream.format(FORMAT).option("path", str(store.path)).option("buckets", buckets).load()
    filled = [
        f.col("bucket") if name == "bucket" else f.col("version") if name == "version" else _nothing(field.dataType)
        for name, field in zip(whole.columns, whole.schema.fields, strict=True)
    ]
    control = versions.select(*(one.alias(name) for one, name in zip(filled, whole.columns, strict=True)))
    both = whole.unionByName(control)
    mode = "None"
    if job.clock:
        mode = "EventTime" if job.timed else "ProcessingTime"
    if mode == "EventTime":
        both = both.withWatermark("t", lateness)
    grouped_initial = None
    if initial is not None:
        typed = f.col("k").cast(whole.schema["k"].dataType)
        own = f.pmod(f.xxhash64(typed), f.lit(buckets)).cast("int").alias("bucket")
        grouped_initial = initial.select(own, "version", "content", "pairs").groupBy("bucket")
    ids = "string" if job.kind == "string" else "bigint"
    key_type = whole.schema["k"].dataType.simpleString()
    found = both.groupBy("bucket").transformWithStateInPandas(
        TransitionsProcessor(job),
        f"k {key_type}, subscription {ids}, kind string, sequence bigint, index_version bigint",
        "append",
        mode,
        grouped_initial,
    )
    return found.withColumnRenamed("k", key)


def export_publications(spark: SparkSession, checkpoint: str | os.PathLike[str]) -> DataFrame:
    """The publications in the checkpoint of a query of `transitions` that is at rest, one row for each.

    For `initial` of a new query with another number of buckets: it goes on where the old one stopped, with the same
    version of the index and nobody told twice. Columns: k (the key), version, content, pairs.
    """
    from pyspark.sql import functions as f

    from whimbrel.pipeline.transitions_export import exploded

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


def _row(
    renamed: DataFrame,
    at: Mapping[str, Column],
    key: str,
    sequence: str | None,
    deleted: str | None,
    unset: str | None,
    time: str | None,
    values: list[Column],
    buckets: int,
) -> DataFrame:
    """Updates as workers get them: without nulls, which pandas would turn integers into floats for, and masks."""
    from pyspark.sql import functions as f
    from pyspark.sql import types as t

    is_text = isinstance(renamed.select(at[key]).schema[0].dataType, t.StringType)
    own = at[key] if is_text else at[key].cast("bigint")
    own = f.when(own.isNull(), f.raise_error(f.lit(f"a null in the key column {key}"))).otherwise(own)
    order: Column = f.lit(0).cast("bigint")
    if sequence is not None:
        order = at[sequence]
        if isinstance(renamed.select(order).schema[0].dataType, t.TimestampType):
            order = f.unix_micros(order)
        missing = f.raise_error(f.lit(f"a null in the sequence column {sequence}"))
        order = f.when(order.isNull(), missing).otherwise(order).cast("bigint")
    head = [
        f.pmod(f.xxhash64(own), f.lit(buckets)).cast("int").alias("bucket"),
        f.lit(0).cast("bigint").alias("version"),
        own.alias("k"),
        order.alias("s"),
        (f.lit(False) if deleted is None else f.coalesce(at[deleted], f.lit(False))).alias("d"),
    ]
    if time is not None:
        head.append(at[time].alias("t"))
    if unset is not None:
        head.append(at[unset].alias("u"))
    masks = []
    for first in range(0, len(values), _MASK_BITS):
        mask: Column = f.lit(0).cast("bigint")
        for bit, value in enumerate(values[first : first + _MASK_BITS]):
            mask = mask + f.when(value.isNull(), f.lit(1 << bit).cast("bigint")).otherwise(f.lit(0).cast("bigint"))
        masks.append(mask.alias(f"m{first // _MASK_BITS}"))
    kinds = [renamed.select(value).schema[0].dataType for value in values]
    filled = [
        (value if _is_nested(kind) else f.coalesce(value, _nothing(kind))).alias(f"a{number}")
        for number, (value, kind) in enumerate(zip(values, kinds, strict=True))
    ]
    return renamed.select(*head, *masks, *filled)


def _is_nested(kind: DataType) -> bool:
    from pyspark.sql import types as t

    return isinstance(kind, t.ArrayType | t.MapType | t.StructType)


def _nothing(kind: DataType) -> Column:
    """A value of a type that says nothing; null where that is harmless."""
    from pyspark.sql import functions as f
    from pyspark.sql import types as t

    if isinstance(kind, t.StringType):
        return f.lit("").cast(kind)
    if isinstance(kind, t.NumericType):
        return f.lit(0).cast(kind)
    if isinstance(kind, t.BooleanType):
        return f.lit(False)
    return f.lit(None).cast(kind)


def _job(
    store: IndexStore,
    kind: str,
    whole: DataFrame,
    names: list[str],
    rules: Rules,
    sequence: str | None,
    partial: bool,
    time: str | None,
    timestamps: Collection[str],
) -> Job:
    from pyspark.sql.pandas.types import to_arrow_type

    from whimbrel.pipeline.transitions_processor import Job

    fields = [pa.field(name, to_arrow_type(whole.schema[f"a{number}"].dataType)) for number, name in enumerate(names)]
    return Job(
        secrets.token_hex(8),
        store.path,
        kind,
        to_arrow_type(whole.schema["k"].dataType),
        pa.schema(fields),
        rules,
        sequence is not None,
        partial,
        time is not None,
        bool(rules.dwell),
        tuple(timestamps),
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
