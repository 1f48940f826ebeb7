"""The stages that match events: `match` at rest, `match_stream` against an index whose versions change meanwhile.

With the plan `replicate`, a task matches its events against all shards, one after the other. With `shard`, the shards
are put into groups that fit the budget of a worker, each pair of a part of the events and a group is a task, and the
results of an event are joined afterwards. That sends more data, but no host has to hold more than a group in memory.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

from whimbrel.pipeline.errors import BadOption, RejectedSubscriptions, check_flag, check_type
from whimbrel.pipeline.index.batches import BatchVersion
from whimbrel.pipeline.index.compile import compile_index
from whimbrel.pipeline.index.store import IndexStore, Shard, VersionManifest
from whimbrel.pipeline.index.workers import verify_shard
from whimbrel.pipeline.spark.dataframes import check_frame, positional
from whimbrel.pipeline.stages.match.match_options import SUBSCRIPTION, SUBSCRIPTIONS, MatchJob, MatchOptions
from whimbrel.pipeline.stages.match.task import MatchTask

PLANS = ("auto", "replicate", "shard")


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
    default the newest one. `plan` is `replicate`, `shard`, or by size (see above); `budget` is the bytes of index that
    a worker may hold, by default half of the memory of the driver's host.
    """
    options = MatchOptions(key, form, plan, version, json, timestamps, budget)
    job, _, chosen = _plan(events, subscriptions, options)
    if chosen.name == "replicate":
        return _match_everywhere(events, job)
    return _match_by_groups(events, job, chosen.groups)


def match_stream(
    events: DataFrame,
    index: str | os.PathLike[str],
    *,
    key: str | Sequence[str] | None = None,
    form: str = "pairs",
    json: str | None = None,
    timestamps: Collection[str] = (),
    adopt: bool = False,
) -> DataFrame:
    """The subscriptions that each event of a stream matches, as `match` gives them for events at rest.

    `index` is the path of an index that `compile_index` has published. Every micro-batch is matched against exactly
    one version, the newest one when its first task starts. The version is recorded in the index before it is used (see
    `whimbrel.pipeline.index.batches`), and a replay of the batch uses the same one. A version that is published while
    the stream runs counts from the next micro-batch on; the stream need not be restarted.

    All columns are sent to the workers, because a later version may mention any of them: select what can matter, or
    name a text column with `json`. The checkpoint of a query belongs to one index; with another one it is refused,
    unless `adopt` says that this is intended. `key`, `form` and `timestamps` are those of `match`.
    """
    check_frame("events", events, streaming=True)
    check_flag("adopt", adopt)
    options = MatchOptions(key=key, form=form, json=json, timestamps=timestamps)
    keys = options.key_columns(events.columns)
    store = IndexStore(index, "index")
    transfer = options.transfer(events.schema, None)
    job = MatchJob(store.path, store.manifest().kind, BatchVersion(store.path, adopt), keys, transfer, options)
    return _match_everywhere(events, job)


def explain(
    events: DataFrame, subscriptions: DataFrame | str | os.PathLike[str], options: MatchOptions | None = None
) -> str:
    """Describe how `match` would run with these options: the version, the plan and why, and the columns for workers."""
    options = MatchOptions() if options is None else options
    check_type("options", options, MatchOptions, "MatchOptions")
    job, manifest, chosen = _plan(events, subscriptions, options)
    relation = "within" if chosen.bytes <= chosen.budget else "above"
    tasks = (
        "every task matches its events against all shards"
        if chosen.name == "replicate"
        else f"every (events, group) is a task: {len(chosen.groups)} groups of shards"
    )
    columns = ", ".join(field.name for field in job.transfer.fields) or "none"
    return "\n".join(
        [
            f"index    {job.index}, version {manifest.version}: {manifest.count:,} subscriptions, "
            f"{len(manifest.shards)} shards, {chosen.bytes:,} bytes",
            f"plan     {chosen.name}{' (forced)' if options.plan != 'auto' else ''}: {tasks}; "
            f"{relation} the budget of {chosen.budget:,} bytes",
            f"key      {', '.join(events.columns[number] for number in job.keys)}",
            f"columns  {columns}{' (JSON)' if options.json is not None else ''}",
            f"form     {options.form}",
        ]
    )


def _plan(
    events: DataFrame, subscriptions: DataFrame | str | os.PathLike[str], options: MatchOptions
) -> tuple[MatchJob, VersionManifest, ShardPlan]:
    """The job on one version of an index, the manifest of the version, and how its shards are spread over tasks."""
    check_frame("events", events)
    keys = options.key_columns(events.columns)
    plan = options.plan
    choose_plan(plan, (), options.budget)  # refuses bad options before anything is compiled
    if events.isStreaming:
        if plan == "shard":
            raise BadOption("plan", plan, "replicate or auto for a stream, whose rows cannot be put together again")
        plan = "replicate"
    store = IndexStore(subscriptions if isinstance(subscriptions, str | os.PathLike) else _compiled(subscriptions))
    manifest = store.manifest(options.version)
    for shard in manifest.shards:
        verify_shard(store.shard_path(shard.name))
    transfer = options.transfer(events.schema, manifest.attributes)
    job = MatchJob(store.path, manifest.kind, manifest.version, keys, transfer, options)
    return job, manifest, choose_plan(plan, manifest.shards, options.budget)


def _compiled(subscriptions: DataFrame) -> Path:
    """Compile subscriptions to an index in a temporary directory, which is deleted when this process ends."""
    path = Path(tempfile.mkdtemp(prefix="whimbrel-index-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    compiled = compile_index(subscriptions, path)
    if compiled.rejected:
        first = compiled.rejects.orderBy("id").first()
        assert first is not None
        raise RejectedSubscriptions(compiled.rejected, first["id"], first["message"])
    return path


def _match_everywhere(events: DataFrame, job: MatchJob) -> DataFrame:
    """Match every event in its own task, against all shards."""
    renamed, columns = positional(events)
    keys = [columns[number].alias(f"k{at}") for at, number in enumerate(job.keys)]
    task = MatchTask(job, len(keys))
    found = renamed.select(*keys, *job.transfer.columns(columns)).mapInArrow(task, _schema(events, job, []))
    return _result(found, events, job)


def _match_by_groups(events: DataFrame, job: MatchJob, groups: tuple[tuple[int, ...], ...]) -> DataFrame:
    """Match copies of each event, one for each group of shards, in different tasks, and join the lists of an event."""
    parts = int(events.sparkSession.conf.get("spark.sql.shuffle.partitions") or "200")
    renamed, columns = positional(events)
    keys = [columns[number].alias(f"k{at}") for at, number in enumerate(job.keys)]
    sent = job.transfer.columns(columns)
    rows = renamed.select(*keys, f.monotonically_increasing_id().alias("row"), *sent)
    copies = rows.withColumn("group", f.explode(f.array(*(f.lit(number) for number in range(len(groups))))))
    partition = f.col("group") * parts + f.pmod(f.xxhash64("row"), f.lit(parts))
    placed = copies.repartitionById(len(groups) * parts, partition.cast("int"))
    carried = [*(f"k{at}" for at in range(len(keys))), "row", "group"]
    task = MatchTask(job, len(carried), groups)
    names = [f"a{at}" for at in range(len(sent))]
    found = placed.select(*carried, *names).mapInArrow(task, _schema(events, job, ["row", "group"]))
    firsts = [f.first(f"k{at}").alias(f"k{at}") for at in range(len(keys))]
    lists = f.flatten(f.collect_list(SUBSCRIPTIONS)).alias(SUBSCRIPTIONS)
    return _result(found.groupBy("row").agg(*firsts, lists).drop("row"), events, job)


def _schema(events: DataFrame, job: MatchJob, more: Sequence[str]) -> StructType:
    """Return the columns of a task's output: keys named k0, k1 and so on, other columns that it carries, the lists."""
    fields = [StructField(f"k{at}", events.schema.fields[number].dataType) for at, number in enumerate(job.keys)]
    fields += [StructField(name, IntegerType() if name == "group" else LongType()) for name in more]
    ids = StringType() if job.id_kind == "string" else LongType()
    return StructType([*fields, StructField(SUBSCRIPTIONS, ArrayType(ids, containsNull=False), nullable=False)])


def _result(found: DataFrame, events: DataFrame, job: MatchJob) -> DataFrame:
    """The matches with the names of the keys, as lists or as pairs."""
    names = [events.columns[number] for number in job.keys]
    if job.options.form == "lists":
        return found.toDF(*names, SUBSCRIPTIONS)
    keys = [f.col(f"k{at}") for at in range(len(names))]
    return found.select(*keys, f.explode(SUBSCRIPTIONS).alias(SUBSCRIPTION)).toDF(*names, SUBSCRIPTION)


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """The plan: its name, the groups of shards by their numbers in the manifest, and the sizes that decided."""

    name: str
    groups: tuple[tuple[int, ...], ...]
    bytes: int
    budget: int


def choose_plan(plan: str, shards: Sequence[Shard], budget: int | None = None) -> ShardPlan:
    """The plan of this name; with `auto` the one that fits the sizes."""
    if plan not in PLANS:
        raise BadOption("plan", plan, f"one of {', '.join(PLANS)}")
    if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int | float) or not budget > 0):
        raise BadOption("budget", budget, "a number of bytes above 0")
    # By default half of the memory of this host: Spark and other processes get the other half.
    allowed = budget or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    size = sum(shard.bytes for shard in shards)
    every = tuple(range(len(shards)))
    if plan == "replicate" or (plan == "auto" and size <= allowed):
        return ShardPlan("replicate", (every,), size, allowed)
    groups = _groups(shards, allowed) if size > allowed else [(number,) for number in every]
    return ShardPlan("shard", tuple(groups) or ((),), size, allowed)


def _groups(shards: Sequence[Shard], budget: int) -> list[tuple[int, ...]]:
    """Group shards in order, as many as fit the budget; a shard that is larger has a group of its own."""
    groups: list[tuple[int, ...]] = []
    group: tuple[int, ...] = ()
    size = 0
    for number, shard in enumerate(shards):
        if group and size + shard.bytes > budget:
            groups.append(group)
            group, size = (), 0
        group, size = (*group, number), size + shard.bytes
    return [*groups, group] if group else groups
