"""Jobs on files: compile subscriptions into a new version of an index; match a batch of events, with pairs as output.

Refused subscriptions and events are reported and kept.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from whimbrel.pipeline.connectors.files import InputFormat, read
from whimbrel.pipeline.connectors.staged_outputs import OutputFormat, StagedOutputs, format_of
from whimbrel.pipeline.connectors.subscription_files import read_subscriptions
from whimbrel.pipeline.jobs.event_source import EventInput, read_events
from whimbrel.pipeline.jobs.monitor import JobMonitor, RunSummary

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from whimbrel.pipeline.index.compile import Compiled


@dataclass(frozen=True, slots=True)
class CompileJob:
    """The files of subscriptions, the index, an optional sample of events to plan by, and where rejects go."""

    subscriptions: str
    format: InputFormat | None
    index: str
    sample: tuple[str, InputFormat] | None = None
    shards: int | None = None
    rejects: str | None = None
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class RunJob:
    """A job of `run_batch` or `run_stream`: its inputs, options and outputs. `subscriptions` are files, or an index."""

    source: EventInput
    subscriptions: str
    subscriptions_from: InputFormat | None
    output: str
    index: str | None
    form: str
    plan: str
    format: OutputFormat | None
    timestamps: tuple[str, ...]
    rejects: str | None
    dead_letters: str | None
    overwrite: bool


def run_compile(spark: SparkSession, job: CompileJob, monitor: JobMonitor) -> Compiled:
    """Publish a version of the index. Rejects appear at their place when they are complete."""
    with StagedOutputs(job.overwrite) as outputs:
        return _compile(spark, job, outputs, monitor)


def _compile(spark: SparkSession, job: CompileJob, outputs: StagedOutputs, monitor: JobMonitor) -> Compiled:
    """Publish a version of the index, and stage the rejects in `outputs`. Rows of files that were refused count."""
    from whimbrel.pipeline.index.compile import compile_index

    given = read_subscriptions(spark, job.subscriptions, job.format)
    with monitor.stages("Compiling"):
        sample = None if job.sample is None else read(spark, *job.sample)
        compiled = compile_index(given.rows, job.index, events=sample, shards=job.shards)
        rejects = compiled.rejects.selectExpr("cast(id as string) as id", "text", "message").union(given.refused)
        rejected = compiled.rejected + given.refused.count()
        if job.rejects is not None:
            outputs.write(rejects, job.rejects, format_of(job.rejects, None))
    if rejected:
        monitor.rejected(job.subscriptions, rejects, rejected)
    return replace(compiled, rejected=rejected, rejects=rejects)


def is_index(path: str) -> bool:
    """Whether the path is that of a compiled index."""
    return (Path(path) / "versions").is_dir()


def run_batch(spark: SparkSession, job: RunJob, monitor: JobMonitor) -> RunSummary:
    """Match all events that are there. Outputs appear at their places when all of them are complete."""
    summary = RunSummary(output=job.output)
    with (
        tempfile.TemporaryDirectory(prefix="whimbrel-index-", ignore_cleanup_errors=True) as home,
        StagedOutputs(job.overwrite) as outputs,
    ):
        index = job.subscriptions if is_index(job.subscriptions) else job.index or home
        if index != job.subscriptions:
            compile_for(spark, job, index, summary, outputs, monitor)
        _match(spark, job, index, summary, outputs, monitor)
    return summary


def compile_for(
    spark: SparkSession, job: RunJob, index: str, summary: RunSummary, outputs: StagedOutputs, monitor: JobMonitor
) -> None:
    """Compile the subscriptions of a run into the index, and note the outcome in the summary."""
    texts, format = job.subscriptions, job.subscriptions_from
    compiling = CompileJob(texts, format, index, rejects=job.rejects, overwrite=job.overwrite)
    started = time.perf_counter()
    summary.rejected = _compile(spark, compiling, outputs, monitor).rejected
    summary.compile_seconds = time.perf_counter() - started


def _match(
    spark: SparkSession, job: RunJob, index: str, summary: RunSummary, outputs: StagedOutputs, monitor: JobMonitor
) -> None:
    from pyspark.sql import Observation

    from whimbrel.pipeline.index.store import IndexStore
    from whimbrel.pipeline.stages.match.match import match

    manifest = IndexStore(index).manifest()
    summary.subscriptions, summary.version = manifest.count, manifest.version
    events = read_events(spark, job.source)
    seen, found = Observation(), Observation()
    started = time.perf_counter()
    observed = events.observed(seen)
    pairs = match(
        observed.valid,
        index,
        key=events.key,
        form=job.form,
        plan=job.plan,
        version=manifest.version,
        json=events.json,
        timestamps=job.timestamps,
    )
    with monitor.stages("Matching"):
        outputs.write(pairs.observe(found, count_of_pairs(job.form)), job.output, format_of(job.output, job.format))
    summary.match_seconds = time.perf_counter() - started
    summary.events, summary.dead_letters = seen.get["events"], seen.get["dead"]
    summary.pairs = found.get["pairs"]
    dead = events.dead_letters
    if job.dead_letters is not None and dead is not None:
        with monitor.stages("Dead letters"):
            outputs.write(dead, job.dead_letters, format_of(job.dead_letters, None))


def count_of_pairs(form: str) -> Column:
    """The metric `pairs` of the result of a match."""
    from pyspark.sql import functions as sf

    count = sf.count(sf.lit(1)) if form == "pairs" else sf.coalesce(sf.sum(sf.size("subscriptions")), sf.lit(0))
    return count.alias("pairs")
