"""The stage for publications: a stream of keyed updates in, transitions out.

A publication is the newest state of its key; it matches by `Filter.matches` on that state. Keys are hashed into
buckets, a number that is fixed when the query starts, and a bucket's states are arrays in Spark's state store. When a
new version of the index is published, a control row for each bucket has all stored publications matched again.
`whimbrel.publications` does the work within a bucket.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType

from whimbrel.model.event import attribute_names
from whimbrel.model.subscription import Id
from whimbrel.pipeline.errors import (
    BadOption,
    ColumnError,
    KeyMissing,
    check_flag,
    check_integer,
    check_seconds,
    check_type,
)
from whimbrel.pipeline.index.store import ID_TYPES, IndexStore
from whimbrel.pipeline.spark.dataframes import check_frame, positional
from whimbrel.pipeline.spark.transfer import ColumnTransfer, plan_transfer
from whimbrel.pipeline.stages.transitions.update_cells import CellWriter, bucket_numbers
from whimbrel.publications.transition_rules import TransitionRules
from whimbrel.publications.updates import UpdateFormat

if TYPE_CHECKING:
    from whimbrel.pipeline.stages.transitions.processor import TransitionsJob

MOST_BUCKETS = 65_536
_OUTPUT = ("subscription", "kind", "sequence", "index_version")
"""The columns of the result after the key."""
_STATE_STORE = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # A commit writes what has changed; snapshots of everything are made beside the stream.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


@dataclass(frozen=True, slots=True)
class _RoleColumns:
    """The names of the columns that are not attributes, by role; None for a role without a column."""

    key: str
    sequence: str | None
    deleted: str | None
    unset: str | None
    time: str | None

    def check(self, updates: DataFrame) -> None:
        """BadOption, KeyMissing or ColumnError if a column is not there, or is of a wrong type."""
        wanted: dict[str, tuple[tuple[type[DataType], ...], str]] = {
            "key": ((t.StringType, t.IntegralType), "text or integers"),
            "sequence": ((t.IntegralType, t.TimestampType), "integers or timestamps"),
            "deleted": ((t.BooleanType,), "booleans"),
            "unset": ((t.ArrayType,), "lists of names"),
            "time": ((t.TimestampType,), "timestamps"),
        }
        for role, (kinds, expected) in wanted.items():
            name = getattr(self, role)
            if name is None and role != "key":
                continue
            check_type(role, name, str, "the name of a column")
            if role == "key" and name.lower() in _OUTPUT:  # the result would have it twice
                raise BadOption(role, name, f"another name than {', '.join(_OUTPUT)}")
            if updates.columns.count(name) != 1:
                raise KeyMissing([name], updates.columns)
            kind = updates.schema[name].dataType
            if not isinstance(kind, kinds):
                raise ColumnError(name, expected, kind.simpleString())

    def select(self, schema: t.StructType, columns: list[Column], buckets: int) -> list[Column]:
        """The columns that `CellWriter` takes before the attributes; `columns` are those of the schema."""
        at = dict(zip(schema.names, columns, strict=True))

        def present(name: str, role: str, column: Column) -> Column:
            error = f.raise_error(f.lit(f"a null in the {role} column {name}"))
            return f.when(at[name].isNull(), error).otherwise(column)

        is_text = isinstance(schema[self.key].dataType, t.StringType)
        own = present(self.key, "key", at[self.key] if is_text else at[self.key].cast("bigint"))
        order: Column = f.lit(None).cast("bigint")
        if self.sequence is not None:
            is_time = isinstance(schema[self.sequence].dataType, t.TimestampType)
            number = f.unix_micros(at[self.sequence]) if is_time else at[self.sequence].cast("bigint")
            order = present(self.sequence, "sequence", number)
        selected = [
            f.pmod(f.xxhash64(own), f.lit(buckets)).cast("int").alias("bucket"),
            own.alias("k"),
            order.alias("s"),
            (f.lit(False) if self.deleted is None else f.coalesce(at[self.deleted], f.lit(False))).alias("d"),
        ]
        if self.time is not None:
            selected.append(present(self.time, "time", f.unix_micros(at[self.time]) / 1e6).alias("t"))
        if self.unset is not None:
            selected.append(at[self.unset].alias("u"))
        return selected


@dataclass(frozen=True, slots=True)
class TransitionOptions:
    """Options of `transitions` that most queries leave at their defaults."""

    unset: str | None = None
    """With partial updates, a column that lists attributes to remove."""
    outer: Mapping[Id, Id] = field(default_factory=dict)
    """Hysteresis: by subscription, the id of another one with a wider filter. A publication that entered leaves when it
    does not match the wider filter. The wider subscription gets no notifications."""
    dwell: Mapping[Id, float] = field(default_factory=dict)
    """By subscription, the seconds that a publication must be out before it leaves."""
    time: str | None = None
    """The timestamp column that dwell goes by, instead of the clock of the machine."""
    lateness: str = "10 minutes"
    """With `time`, a publication leaves when a row comes whose time is so much later."""
    buckets: int = 32
    """The number of shares of all keys, each of which is a piece of state."""
    timestamps: Collection[str] = ()
    """Attributes whose text is read as timestamps."""
    initial: DataFrame | None = None
    """The publications of another query, which `export_publications` read from its checkpoint."""


def transitions(
    updates: DataFrame,
    index: str | os.PathLike[str],
    *,
    key: str,
    sequence: str | None = None,
    deleted: str | None = None,
    partial: bool = False,
    leave: bool | Collection[Id] = False,
    options: TransitionOptions | None = None,
) -> DataFrame:
    """The transitions of a stream of updates: key, subscription, kind, sequence and index_version.

    An update has the `key` (text or an integer) of a publication; every other column is an attribute. Kinds are
    `enter`, `leave` and `delete`. All stored publications are matched again when a new version of the index is there.

    - `deleted`: a boolean column; true deletes the publication, and all subscriptions that matched it are told.
    - `sequence`: an integer or timestamp column that grows with each update of a key. An update whose number is not
      above the newest one of its key is left out, also after a deletion; within a micro-batch updates count in the
      order of their numbers. Without it, updates of a key in one micro-batch count in any order.
    - `partial`: a null cell leaves the attribute as it was.
    - `leave`: whether subscriptions are told of leaves: all, or those with these ids.

    The checkpoint fixes the columns and all options. `gc` keeps the version that the query uses. Python workers
    need pandas and protobuf (the extra spark).
    """
    from whimbrel.pipeline.stages.transitions.processor import TransitionsJob

    check_frame("updates", updates, streaming=True)
    check_flag("partial", partial)
    more = TransitionOptions() if options is None else options
    check_type("options", more, TransitionOptions, "TransitionOptions")
    store = IndexStore(index, "index")
    manifest = store.manifest()
    _check_options(more, partial, leave, manifest.kind)
    roles = _RoleColumns(key, sequence, deleted, more.unset, more.time)
    rows, transfer, format = _sent_updates(updates, roles, more, partial)
    transfer.check(manifest.attributes)
    told = leave if isinstance(leave, bool) else frozenset(leave)
    job = TransitionsJob(
        name=secrets.token_hex(8),
        index=store.path,
        id_kind=manifest.kind,
        format=format,
        transfer=transfer,
        rules=TransitionRules(told, dict(more.outer), dict(more.dwell)),
        has_time=more.time is not None,
        timestamps=tuple(sorted(attribute_names(more.timestamps, "timestamps"))),
    )
    numbers = bucket_numbers(more.buckets)
    writer = CellWriter(numbers, transfer, format.updates, job.has_time, more.unset is not None)
    cells = rows.mapInArrow(writer, "bucket int, content binary")
    return _run(cells, job, numbers, more.initial).withColumnRenamed("k", key)


def _sent_updates(
    updates: DataFrame, roles: _RoleColumns, options: TransitionOptions, partial: bool
) -> tuple[DataFrame, ColumnTransfer, UpdateFormat]:
    """The rows that `CellWriter` takes, how attributes are sent in them, and the format that it gives them."""
    roles.check(updates)
    others = [number for number, name in enumerate(updates.columns) if name not in astuple(roles)]
    transfer = plan_transfer(t.StructType([updates.schema.fields[number] for number in others]), None)
    renamed, columns = positional(updates)
    head = roles.select(updates.schema, columns, options.buckets)
    attributes = [columns[number] for number in others]

    def arrow_type(column: Column) -> pa.DataType:
        return to_arrow_type(renamed.select(column).schema[0].dataType, timezone="UTC")

    fields = pa.schema([(field.name, arrow_type(field.column(attributes))) for field in transfer.fields])
    format = UpdateFormat(arrow_type(head[1]), fields, ordered=roles.sequence is not None, partial=partial)
    if options.time is not None and options.dwell:
        renamed = renamed.withWatermark(renamed.columns[updates.columns.index(options.time)], options.lateness)
    return renamed.select(*head, *transfer.columns(attributes)), transfer, format


def _check_options(options: TransitionOptions, partial: bool, leave: bool | Collection[Id], kind: str) -> None:
    """BadOption if an option has a value that it cannot have; `kind` is that of the ids."""
    check_integer("buckets", options.buckets, 1, MOST_BUCKETS)
    check_type("lateness", options.lateness, str, "a time such as 10 minutes")
    check_type("timestamps", options.timestamps, Iterable, "names of attributes")
    if options.initial is not None:
        check_frame("initial", options.initial, streaming=False)
    for option, ids in (("outer", options.outer), ("dwell", options.dwell)):
        check_type(option, ids, Mapping, "a mapping of subscriptions")
    _check_ids("outer", [*options.outer, *options.outer.values()], kind)
    _check_ids("dwell", options.dwell, kind)
    for seconds in options.dwell.values():
        check_seconds("dwell", seconds)
    if not isinstance(leave, bool):
        _check_ids("leave", leave, kind)
    if options.unset is not None and not partial:
        raise BadOption("unset", options.unset, "partial=True with it")


def _check_ids(option: str, ids: object, kind: str) -> None:
    """BadOption if these are not ids of the kind that the index has."""
    wanted = str if kind == "string" else int
    is_several = isinstance(ids, Collection) and not isinstance(ids, str)
    if not is_several or not all(isinstance(id, wanted) and not isinstance(id, bool) for id in ids):  # type: ignore[attr-defined]
        raise BadOption(option, ids, f"ids of kind {kind}")


def _run(cells: DataFrame, job: TransitionsJob, numbers: NDArray[np.int32], initial: DataFrame | None) -> DataFrame:
    """Cells and versions of the index into the stateful operator."""
    from whimbrel.pipeline.stages.transitions.processor import CELL, CONTROL, TransitionsProcessor
    from whimbrel.pipeline.stages.transitions.version_source import FORMAT, VersionSource

    spark = cells.sparkSession
    for name, value in _STATE_STORE.items():
        spark.conf.set(name, value)
    spark.dataSource.register(VersionSource)
    versions = spark.readStream.format(FORMAT).option("path", str(job.index)).option("buckets", len(numbers)).load()
    control = versions.select("bucket", f.col("version").alias(CONTROL), f.lit(None).cast("binary").alias(CELL))
    updates = cells.select("bucket", f.lit(0).cast("bigint").alias(CONTROL), f.col("content").alias(CELL))
    mode = "None"
    if job.has_timers:
        mode = "EventTime" if job.has_time else "ProcessingTime"
    key_type = "string" if pa.types.is_string(job.format.key) else "bigint"
    id_type = ID_TYPES[job.id_kind][1]
    grouped_initial = None
    if initial is not None:
        home = f.pmod(f.xxhash64(f.col("k").cast(key_type)), f.lit(len(numbers)))
        number = f.element_at(f.array(*map(f.lit, numbers.tolist())), (home + 1).cast("int"))
        grouped_initial = initial.select(number.alias("bucket"), "version", "content", "pairs").groupBy("bucket")
    return (
        updates.unionByName(control)
        .groupBy("bucket")
        .transformWithStateInPandas(
            TransitionsProcessor(job),
            f"k {key_type}, subscription {id_type}, kind string, sequence bigint, index_version bigint",
            "append",
            mode,
            grouped_initial,
        )
    )


def export_publications(spark: SparkSession, checkpoint: str | os.PathLike[str]) -> DataFrame:
    """The publications in the checkpoint of a query of `transitions` that does not run, one row for each.

    Give them as `initial` to a new query with another number of buckets: it goes on where the old one stopped, with the
    same version of the index, and no transition is told twice. Columns: k (the key), version, content, pairs.
    """
    from whimbrel.pipeline.stages.transitions.processor import to_publications

    def read(name: str, content: str) -> DataFrame:
        found = spark.read.format("statestore").option("path", str(checkpoint)).option("stateVarName", name)
        # A list stays one value: to collect its elements again would lose their order, which counts.
        column = f.col(content).alias(name)
        return found.option("flattenCollectionTypes", "false").load().select(f.col("key.bucket"), column)

    meta, base = read("meta", "value.content"), read("base", "value.content")
    deltas = read("delta", "list_value.content").withColumnRenamed("delta", "deltas")
    whole = meta.join(base, "bucket", "left").join(deltas, "bucket", "left")
    return whole.select("meta", "base", "deltas").mapInPandas(
        to_publications, "k string, version bigint, content binary, pairs binary"
    )
