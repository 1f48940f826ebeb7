"""The job that compiles a table of subscriptions to a version of an index.

Rows are hashed by id into buckets in the JVM, and one task parses and compiles each bucket (`shards.py`). Only a line
for each bucket comes back to the driver, which then publishes the version. A job that fails publishes nothing.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from whimbrel.pipeline.connectors.files import spark_path
from whimbrel.pipeline.errors import BadOption, ColumnError, check_integer
from whimbrel.pipeline.index.shards import BucketOutcome, compile_bucket
from whimbrel.pipeline.index.statistics import sample_file, statistics
from whimbrel.pipeline.index.store import ID_TYPES, IndexStore, Shard, VersionManifest
from whimbrel.pipeline.spark.dataframes import check_frame, repeated

SHARD_SUBSCRIPTIONS = 1_000_000
"""Subscriptions of a shard, roughly: a task holds their text in memory, and each shard reads every event."""
PARALLEL_FROM = 250_000
"""Subscriptions from which two shards pay: they are compiled at the same time, but each reads every event."""
MOST_SHARDS = 1_024

_COLUMNS = ("id", "filter", "dialect")
_INTEGERS = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a compile did. `rejects` has the columns id, text and message, one row for each rejected row.

    added + replaced + unchanged + rejected is the number of rows that came in.
    """

    version: int
    added: int
    removed: int
    replaced: int
    unchanged: int
    rejected: int
    rejects: DataFrame
    path: Path

    @property
    def count(self) -> int:
        """The subscriptions that the version holds."""
        return self.added + self.replaced + self.unchanged


def compile_index(
    subscriptions: DataFrame,
    path: str | os.PathLike[str],
    *,
    events: DataFrame | None = None,
    shards: int | None = None,
) -> Compiled:
    """Publish a version of the index at `path` that holds exactly these subscriptions.

    `subscriptions` has the columns id (integers or text), filter and optionally dialect. Bad rows are rejected and
    listed in `rejects`: filters with an error, a missing id or filter, and ids that come more than once (of equal rows
    one is taken, of different rows none). Only what differs from the newest version is compiled.

    `events` is a sample of the events to match, by which new shards are planned. `shards` is the number of shards,
    fixed by the first version; by default it follows the number of subscriptions.
    """
    check_frame("subscriptions", subscriptions, streaming=False)
    if events is not None:
        check_frame("events", events, streaming=False)
    spark = subscriptions.sparkSession
    store = IndexStore(path)
    kind = id_kind(subscriptions)
    with store.lock():
        parent = store.manifest() if store.versions() else None
        if parent is not None and parent.kind != kind:
            raise ColumnError("id", f"ids of kind {parent.kind}, as in version {parent.version}", kind)
        buckets = _buckets(subscriptions, shards, parent)
        sample = None if events is None else sample_file(events, store)
        try:
            rows = _rows(subscriptions, kind, buckets)
            old = {} if parent is None else {shard.bucket: shard for shard in parent.shards}
            task = CompileTask(store.path, kind, old, sample)
            outcomes = [
                msgspec.json.decode(row["outcome"], type=BucketOutcome)
                for row in rows.mapInArrow(task, "outcome binary").collect()
            ]
            facts = () if events is None else tuple(row.asDict(recursive=True) for row in statistics(events).collect())
        finally:
            if sample is not None:
                sample.unlink(missing_ok=True)
        manifest = _manifest(parent, kind, buckets, outcomes, facts)
        version = store.publish(manifest)
    files = [spark_path(str(store.rejects_path(name))) for name in manifest.rejects]
    schema = f"id {ID_TYPES[kind][1]}, text string, message string"
    rejects = spark.read.schema(schema).parquet(*files) if files else spark.createDataFrame([], schema)
    unchanged = sum(outcome.unchanged for outcome in outcomes)
    return Compiled(
        version, manifest.added, manifest.removed, manifest.replaced, unchanged, manifest.rejected, rejects, store.path
    )


def id_kind(subscriptions: DataFrame) -> str:
    """The type of the ids, int64 or string; ColumnError if a column is missing or of another type."""
    types = dict(subscriptions.dtypes)
    for name in ("id", "filter"):
        if name not in types:
            raise ColumnError(name, "subscriptions with the columns id and filter", ", ".join(types) or "none")
    for name in repeated(subscriptions.columns):
        if name in _COLUMNS:
            raise ColumnError(name, "one column of this name, in any case", ", ".join(subscriptions.columns))
    for name in ("filter", "dialect"):
        if types.get(name, "string") != "string":
            raise ColumnError(name, "text", types[name])
    if types["id"] in _INTEGERS:
        return "int64"
    if types["id"] != "string":
        raise ColumnError("id", "integers of at most 64 bits, or text", types["id"])
    return "string"


def _buckets(subscriptions: DataFrame, shards: int | None, parent: VersionManifest | None) -> int:
    if shards is not None:
        check_integer("shards", shards, 1, MOST_SHARDS)
    if parent is not None:
        if shards not in (None, parent.buckets):
            raise BadOption("shards", shards, f"{parent.buckets}, as in version {parent.version}")
        return parent.buckets
    if shards is not None:
        return shards
    count = subscriptions.count()
    least = 1 if count < PARALLEL_FROM else 2
    return min(MOST_SHARDS, max(least, math.ceil(count / SHARD_SUBSCRIPTIONS)))


def _rows(subscriptions: DataFrame, kind: str, buckets: int) -> DataFrame:
    """Rows of bucket, id, filter and dialect, each bucket in a partition of its own.

    One more row, which is not `given`, makes sure that each bucket has a task, also those without subscriptions.
    """
    id = f.col("id").cast(ID_TYPES[kind][1])
    dialect = f.col("dialect") if "dialect" in subscriptions.columns else f.lit(None).cast("string")
    given = subscriptions.select(
        f.pmod(f.xxhash64(id), f.lit(buckets)).cast("int").alias("bucket"),
        f.lit(True).alias("given"),
        id.alias("id"),
        "filter",
        dialect.alias("dialect"),
    )
    numbers = subscriptions.sparkSession.range(buckets, numPartitions=1)
    every = numbers.select(f.col("id").cast("int").alias("bucket"), f.lit(False).alias("given"))
    return given.unionByName(every, allowMissingColumns=True).repartitionById(buckets, f.col("bucket"))


@dataclass(frozen=True, slots=True)
class CompileTask:
    """Sent to the workers: compiles the buckets of a partition and gives a line of JSON for each."""

    path: Path
    kind: str
    old: dict[int, Shard]
    """The shards of the version before, by bucket."""
    sample: Path | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = list(batches)
        if not held:
            return
        table = pa.Table.from_batches(held)
        store = IndexStore(self.path)
        sample = None
        if self.sample is not None:
            with pa.memory_map(str(self.sample)) as source:
                sample = pa.ipc.open_file(source).read_all()
        outcomes = []
        for bucket in table["bucket"].unique().to_pylist():
            rows = table.filter(pa.compute.equal(table["bucket"], bucket)).filter(pa.compute.field("given"))
            rows = rows.select(_COLUMNS)
            outcome = compile_bucket(store, bucket, rows, self.old.get(bucket), self.kind, sample)
            outcomes.append(msgspec.json.encode(outcome))
        yield pa.RecordBatch.from_pydict({"outcome": pa.array(outcomes, pa.binary())})


def _manifest(
    parent: VersionManifest | None,
    kind: str,
    buckets: int,
    outcomes: list[BucketOutcome],
    facts: tuple[dict[str, object], ...],
) -> VersionManifest:
    outcomes.sort(key=lambda outcome: outcome.bucket)
    assert [outcome.bucket for outcome in outcomes] == list(range(buckets)), "a bucket came back twice or not at all"
    shards = tuple(outcome.shard for outcome in outcomes if outcome.shard is not None)
    return VersionManifest(
        version=1 if parent is None else parent.version + 1,
        parent=None if parent is None else parent.version,
        kind=kind,
        buckets=buckets,
        shards=shards,
        attributes=tuple(sorted({name for outcome in outcomes for name in outcome.attributes})),
        count=sum(shard.count for shard in shards),
        bytes=sum(shard.bytes for shard in shards),
        added=sum(outcome.added for outcome in outcomes),
        removed=sum(outcome.removed for outcome in outcomes),
        replaced=sum(outcome.replaced for outcome in outcomes),
        rejected=sum(outcome.rejected for outcome in outcomes),
        rejects=tuple(outcome.rejects for outcome in outcomes if outcome.rejects is not None),
        statistics=facts if facts or parent is None else parent.statistics,
    )
