"""Match a stream: micro-batches until the job is told to stop, or until all that is there is matched."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whimbrel.pipeline.connectors.files import absolute
from whimbrel.pipeline.connectors.sinks import StreamOptions
from whimbrel.pipeline.connectors.staged_outputs import OutputFormat, StagedOutputs, format_of
from whimbrel.pipeline.jobs.batch_job import RunJob, compile_for, count_of_pairs, is_index
from whimbrel.pipeline.jobs.checkpoint import claim, lag_of
from whimbrel.pipeline.jobs.event_source import read_events
from whimbrel.pipeline.jobs.monitor import JobMonitor, MicroBatch, RunSummary
from whimbrel.pipeline.spark.failures import JobFailed, reason_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_LOOK = 0.25  # seconds between two looks at the queries


def run_stream(spark: SparkSession, job: RunJob, stream: StreamOptions, monitor: JobMonitor) -> RunSummary:
    """Match the events that are there and those that come, until the monitor stops it.

    With `once` it ends when all events that are there now are matched.
    """
    from whimbrel.pipeline.index.store import IndexStore
    from whimbrel.pipeline.stages.match.match import match_stream

    summary = RunSummary(output=job.output, batches=0)
    index = job.subscriptions if is_index(job.subscriptions) else job.index or f"{job.output}.index"
    checkpoint = Path(stream.checkpoint)
    claim(checkpoint, _identity(job, index))
    if index != job.subscriptions:
        with StagedOutputs(overwrite=True) as outputs:
            compile_for(spark, job, index, summary, outputs, monitor)
    IndexStore(index).manifest()  # raises at once if there is no version
    events = read_events(spark, job.source)
    pairs = match_stream(
        events.observed("events").valid,
        index,
        key=events.key,
        form=job.form,
        json=events.json,
        timestamps=job.timestamps,
    )
    format = format_of(job.output, job.format)
    started = time.perf_counter()
    queries = []
    try:
        counted = pairs.observe("pairs", count_of_pairs(job.form))
        queries.append(_start(counted, job.output, format, checkpoint / "pairs", stream))
        if job.dead_letters is not None and events.dead_letters is not None:
            kind = format_of(job.dead_letters, None)
            queries.append(_start(events.dead_letters, job.dead_letters, kind, checkpoint / "dead-letters", stream))
        _follow(queries, job, summary, checkpoint / "pairs", monitor)
    finally:
        for query in queries:
            query.stop()
    summary.match_seconds = time.perf_counter() - started
    newest = IndexStore(index).manifest()
    summary.subscriptions, summary.version = newest.count, newest.version
    return summary


def _identity(job: RunJob, index: str) -> dict[str, object]:
    """Return the inputs and options that a checkpoint depends on: they must not change while it is used."""
    return {
        "events": absolute(job.source.path),
        "output": absolute(job.output),
        "index": absolute(index),
        "key": job.source.key,
        "form": job.form,
        "schema": job.source.schema,
    }


def _start(frame: DataFrame, to: str, format: OutputFormat, checkpoint: Path, stream: StreamOptions) -> StreamingQuery:
    writer = frame.writeStream.format(format.value).option("header", True)
    return replace(stream, checkpoint=absolute(str(checkpoint))).start(writer, absolute(to))


def _follow(
    queries: list[StreamingQuery], job: RunJob, summary: RunSummary, checkpoint: Path, monitor: JobMonitor
) -> None:
    """Count and report micro-batches until the queries end or the monitor stops them."""
    seen = -1
    with monitor.following() as stopped:
        while True:
            active = [query for query in queries if query.isActive]
            for progress in queries[0].recentProgress:
                if progress["batchId"] > seen and progress["numInputRows"]:
                    seen = progress["batchId"]
                    monitor.micro_batch(_count(progress, job, summary, checkpoint), summary)
            for query in queries:
                error = query.exception()
                if error is not None:
                    raise JobFailed(reason_of(str(error)))
            if not active or stopped.is_set():
                return
            stopped.wait(_LOOK)


def _count(progress: Any, job: RunJob, summary: RunSummary, checkpoint: Path) -> MicroBatch:
    """Add a micro-batch to the summary."""
    metrics = progress["observedMetrics"]
    events, dead = (metrics["events"][name] for name in ("events", "dead")) if "events" in metrics else (0, 0)
    batch = MicroBatch(
        number=progress["batchId"],
        events=events,
        pairs=metrics["pairs"]["pairs"] if "pairs" in metrics else 0,
        dead_letters=dead,
        milliseconds=progress["durationMs"].get("triggerExecution", 0),
        waiting=lag_of(progress, job.source.path, job.source.format, checkpoint),
    )
    summary.add(batch)
    return batch
