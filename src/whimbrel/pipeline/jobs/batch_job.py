"""Match a batch of events against subscriptions: files in, pairs out."""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from whimbrel.pipeline.connectors.files import InputFormat
from whimbrel.pipeline.connectors.staged_outputs import OutputFormat, StagedOutputs, format_of
from whimbrel.pipeline.jobs.compile_job import CompileJob, compile_to
from whimbrel.pipeline.jobs.event_source import EventSource, read_events
from whimbrel.pipeline.jobs.monitor import JobMonitor, RunSummary

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


@dataclass(frozen=True, slots=True)
class RunJob:
    """What to match, how, and where everything goes. `subscriptions` are files, or a compiled index."""

    source: EventSource
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


def is_index(path: str) -> bool:
    """Whether the path is that of a compiled index."""
    return (Path(path) / "versions").is_dir()


def run_batch(spark: SparkSession, job: RunJob, monitor: JobMonitor) -> RunSummary:
    """Match all events that are there. Outputs appear at their places when all of them are complete."""
    summary = RunSummary(output=job.output)
    outputs = StagedOutputs(job.overwrite)
    home = None if job.index or is_index(job.subscriptions) else Path(tempfile.mkdtemp(prefix="whimbrel-index-"))
    try:
        index = job.subscriptions if is_index(job.subscriptions) else job.index or str(home)
        if index != job.subscriptions:
            compile_for(spark, job, index, summary, outputs, monitor)
        _match(spark, job, index, summary, outputs, monitor)
        outputs.commit()
    finally:
        outputs.discard()
        if home is not None:
            shutil.rmtree(home, ignore_errors=True)
    return summary


def compile_for(
    spark: SparkSession, job: RunJob, index: str, summary: RunSummary, outputs: StagedOutputs, monitor: JobMonitor
) -> None:
    """Compile the subscriptions of a run into the index, and note the outcome in the summary."""
    texts, format = job.subscriptions, job.subscriptions_from
    compiling = CompileJob(texts, format, index, rejects=job.rejects, overwrite=job.overwrite)
    started = time.perf_counter()
    summary.rejected = compile_to(spark, compiling, outputs, monitor).rejected
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
