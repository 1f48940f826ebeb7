"""The stage that matches events: which subscriptions does each row of a DataFrame match?"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from whimbrel.pipeline.errors import ColumnError, KeyMissing, OptionError, RejectedSubscriptions
from whimbrel.pipeline.index.compile import compile_index
from whimbrel.pipeline.index.store import IndexStore, VersionManifest
from whimbrel.pipeline.index.workers import verify_shard
from whimbrel.pipeline.spark.transfer import HandOver, Leaf, hand_over, positional
from whimbrel.pipeline.stages.match.shard_plan import Plan, choose_plan
from whimbrel.pipeline.stages.match.task import SUBSCRIPTIONS, Matcher

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

FORMS = ("pairs", "lists")
DEFAULT_KEYS = ("event_id", "id")


def match(
    events: DataFrame,
    subscriptions: DataFrame | str | os.PathLike[str],
    *,
    key: str | Sequence[str] | None = None,
    form: str = "pairs",
    plan: str = "auto",
    version: int | None = None,
    json: str | None = None,
    timestamps: Collection[str] = (),
    budget: int | None = None,
) -> DataFrame:
    """The subscriptions that each event matches, as a DataFrame of the key column(s) and `subscription`.

    `subscriptions` is the path of an index that `compile_index` has published, or a DataFrame with the columns id,
    filter and optionally dialect, which is compiled first. `key` names the column(s) that come out again, by default
    `event_id`, else `id`; rows with equal keys are separate events.

    With form `lists` there is one row for each event, with the array `subscriptions`, empty where nothing matches;
    with `pairs` one row for each match. The order of the matches of an event is not defined.

    Attributes are columns, fields of structs (`d.x`) and entries of maps; or those of the JSON objects in the text
    column `json`. `timestamps` names attributes whose text is read as timestamps. `version` is that of the index, by
    default the newest one. `plan` is `replicate`, `shard`, or by size (see `shard_plan`); `budget` is the bytes of
    index that a worker may hold, by default half of the memory of the driver's host.
    """
    job = _prepare(events, subscriptions, key, form, plan, version, json, timestamps, budget)
    number = job.manifest.version
    run = _replicated if job.plan.name == "replicate" else _sharded
    return run(events, job, lambda: number)


def explain(
    events: DataFrame,
    subscriptions: DataFrame | str | os.PathLike[str],
    *,
    key: str | Sequence[str] | None = None,
    form: str = "pairs",
    plan: str = "auto",
    version: int | None = None,
    json: str | None = None,
    timestamps: Collection[str] = (),
    budget: int | None = None,
) -> str:
    """What `match` would do with these arguments: the version, the plan and why, and the columns handed over."""
    job = _prepare(events, subscriptions, key, form, plan, version, json, timestamps, budget)
    shown = job.plan
    relation = "within" if shown.bytes <= shown.budget else "above"
    tasks = (
        "every task matches its events against all shards"
        if shown.name == "replicate"
        else f"every (events, group) is a task: {len(shown.groups)} groups of shards"
    )
    handed = ", ".join(leaf.name for leaf in job.handed.leaves) or "none"
    return "\n".join(
        [
            f"index    {job.path}, version {job.manifest.version}: {job.manifest.count:,} subscriptions, "
            f"{len(job.manifest.shards)} shards, {shown.bytes:,} bytes",
            f"plan     {shown.name}{' (forced)' if plan != 'auto' else ''}: {tasks}; "
            f"{relation} the budget of {shown.budget:,} bytes",
            f"key      {', '.join(events.columns[number] for number in job.keys)}",
            f"columns  {handed}{' (JSON)' if job.json else ''}",
            f"form     {form}",
        ]
    )


def attach(
    events: DataFrame,
    path: str | os.PathLike[str],
    version_of: Callable[[], int],
    *,
    kind: str,
    key: str | Sequence[str] | None = None,
    form: str = "pairs",
    json: str | None = None,
    timestamps: Collection[str] = (),
) -> DataFrame:
    """Like `match`, but each task asks `version_of`, on its worker, which version of the index counts.

    For streams: later versions may mention attributes that none does now, so all columns are handed over. `kind` is
    that of the ids in every version, int64 or string.
    """
    keys = _key_columns(events.columns, key, form)
    handed = _json_column(events.schema, json) if json is not None else hand_over(events.schema, None)
    manifest = VersionManifest(
        version=0, parent=None, created="", kind=kind, buckets=1, shards=(), attributes=(), count=0, bytes=0
    )
    job = _Job(
        IndexStore(path).path,
        manifest,
        choose_plan("replicate", ()),
        keys,
        handed,
        form,
        json is not None,
        tuple(timestamps),
    )
    return _replicated(events, job, version_of)


@dataclass(frozen=True, slots=True)
class _Job:
    """What a call of `match` comes to."""

    path: Path
    manifest: VersionManifest
    plan: Plan
    keys: tuple[int, ...]
    handed: HandOver
    form: str
    json: bool
    timestamps: tuple[str, ...]


def _prepare(
    events: DataFrame,
    subscriptions: DataFrame | str | os.PathLike[str],
    key: str | Sequence[str] | None,
    form: str,
    plan: str,
    version: int | None,
    json: str | None,
    timestamps: Collection[str],
    budget: int | None,
) -> _Job:
    keys = _key_columns(events.columns, key, form)
    choose_plan(plan, (), budget)  # refuses bad options before anything is compiled
    if events.isStreaming:
        if plan == "shard":
            raise OptionError("plan", plan, "replicate or auto for a stream, whose rows cannot be put together again")
        plan = "replicate"
    store = IndexStore(subscriptions if isinstance(subscriptions, str | os.PathLike) else _compiled(subscriptions))
    manifest = store.manifest(version)
    for shard in manifest.shards:
        verify_shard(store.shard_path(shard.name))
    chosen = choose_plan(plan, manifest.shards, budget)
    handed = _json_column(events.schema, json) if json is not None else hand_over(events.schema, manifest.attributes)
    return _Job(store.path, manifest, chosen, keys, handed, form, json is not None, tuple(timestamps))


def _key_columns(columns: Sequence[str], key: str | Sequence[str] | None, form: str) -> tuple[int, ...]:
    """The numbers of the key columns."""
    if form not in FORMS:
        raise OptionError("form", form, f"one of {', '.join(FORMS)}")
    if key is None:
        found = [name for name in DEFAULT_KEYS if name in columns][:1]
        if not found:
            raise KeyMissing(DEFAULT_KEYS, columns)
    else:
        found = [key] if isinstance(key, str) else list(key)
        if not found:
            raise OptionError("key", key, "at least one column")
    for name in found:
        if name not in columns:
            raise KeyMissing([name], columns)
        if columns.count(name) > 1:
            raise ColumnError(name, "one column of this name as key", f"{columns.count(name)}")
    output = "subscription" if form == "pairs" else SUBSCRIPTIONS
    if output in found:
        raise OptionError("key", output, "another name than that of the output column")
    return tuple(columns.index(name) for name in found)


def _json_column(schema: StructType, json: str) -> HandOver:
    """The column of JSON texts alone."""
    from pyspark.sql.types import StringType

    numbers = [number for number, field in enumerate(schema.fields) if field.name == json]
    if len(numbers) != 1:
        raise ColumnError(json, "one column of JSON texts", f"the columns {', '.join(schema.fieldNames())}")
    kind = schema.fields[numbers[0]].dataType
    if not isinstance(kind, StringType):
        raise ColumnError(json, "text, as it is to be read as JSON", kind.simpleString())
    return HandOver((Leaf(json, (numbers[0],)),), {})


def _compiled(subscriptions: DataFrame) -> Path:
    """The subscriptions as an index in a directory that goes when this process does."""
    path = Path(tempfile.mkdtemp(prefix="whimbrel-index-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    compiled = compile_index(subscriptions, path)
    if compiled.rejected:
        first = compiled.rejects.orderBy("id").first()
        assert first is not None
        raise RejectedSubscriptions(compiled.rejected, first["id"], first["message"])
    return path


def _replicated(events: DataFrame, job: _Job, version_of: Callable[[], int]) -> DataFrame:
    renamed, columns = positional(events)
    keys = [columns[number].alias(f"k{at}") for at, number in enumerate(job.keys)]
    leaves = job.handed.columns(columns)
    matcher = _matcher(job, version_of, len(keys))
    found = renamed.select(*keys, *leaves).mapInArrow(matcher, _schema(events, job, []))
    return _shaped(found, events, job)


def _sharded(events: DataFrame, job: _Job, version_of: Callable[[], int]) -> DataFrame:
    """Each row once for every group, a task for each part of the rows and group, and the lists of a row joined."""
    from pyspark.sql import functions as f

    groups = len(job.plan.groups)
    parts = int(events.sparkSession.conf.get("spark.sql.shuffle.partitions") or "200")
    renamed, columns = positional(events)
    keys = [columns[number].alias(f"k{at}") for at, number in enumerate(job.keys)]
    leaves = job.handed.columns(columns)
    names = [f"a{at}" for at in range(len(leaves))]
    rows = renamed.select(*keys, f.monotonically_increasing_id().alias("row"), *leaves)
    spread = rows.withColumn("group", f.explode(f.array(*(f.lit(number) for number in range(groups)))))
    cell = f.col("group") * parts + f.pmod(f.xxhash64("row"), f.lit(parts))
    placed = spread.repartitionById(groups * parts, cell.cast("int"))
    carried = [*(f"k{at}" for at in range(len(keys))), "row", "group"]
    matcher = _matcher(job, version_of, len(carried), job.plan.groups)
    found = placed.select(*carried, *names).mapInArrow(matcher, _schema(events, job, ["row", "group"]))
    firsts = [f.first(f"k{at}").alias(f"k{at}") for at in range(len(keys))]
    lists = f.flatten(f.collect_list(SUBSCRIPTIONS)).alias(SUBSCRIPTIONS)
    return _shaped(found.groupBy("row").agg(*firsts, lists).drop("row"), events, job)


def _matcher(
    job: _Job, version_of: Callable[[], int], carried: int, groups: tuple[tuple[int, ...], ...] | None = None
) -> Matcher:
    return Matcher(
        job.path, version_of, job.manifest.kind, carried, job.handed, job.timestamps, json=job.json, groups=groups
    )


def _schema(events: DataFrame, job: _Job, more: Sequence[str]) -> StructType:
    """What a task gives: keys under neutral names, what else is carried, and the lists."""
    from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

    fields = [StructField(f"k{at}", events.schema.fields[number].dataType) for at, number in enumerate(job.keys)]
    fields += [StructField(name, IntegerType() if name == "group" else LongType()) for name in more]
    ids = StringType() if job.manifest.kind == "string" else LongType()
    return StructType([*fields, StructField(SUBSCRIPTIONS, ArrayType(ids, containsNull=False), nullable=False)])


def _shaped(found: DataFrame, events: DataFrame, job: _Job) -> DataFrame:
    """With the names of the keys, and exploded if pairs are asked for."""
    from pyspark.sql import functions as f

    names = [events.columns[number] for number in job.keys]
    if job.form == "lists":
        return found.toDF(*names, SUBSCRIPTIONS)
    keys = [f.col(f"k{at}") for at in range(len(names))]
    return found.select(*keys, f.explode(SUBSCRIPTIONS).alias("subscription")).toDF(*names, "subscription")
