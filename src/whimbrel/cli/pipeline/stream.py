"""`whimbrel pipeline run --stream`: micro-batches until it is told to stop, each shown in a line."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer

from whimbrel.cli.pipeline.checkpoint import claim
from whimbrel.cli.pipeline.errors import JobFailed, reason_of
from whimbrel.cli.pipeline.events import read_events
from whimbrel.cli.pipeline.inputs import absolute
from whimbrel.cli.pipeline.lag import lag_of
from whimbrel.cli.pipeline.outputs import Outputs, format_of
from whimbrel.cli.pipeline.run import RunJob, RunSummary, compile_for, count_of_pairs, is_index
from whimbrel.cli.terminal.console import to_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from rich.status import Status

_LOOK = 0.25
_DEAD_LETTERS = "dead-letters"


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What a stream has beyond a batch: where it notes how far it is, and when micro-batches start."""

    checkpoint: str
    every: float | None
    once: bool


def run_stream(spark: SparkSession, job: RunJob, stream: StreamOptions) -> RunSummary:
    """Match what is there and what comes, until it is stopped or, with `once`, until all there is now is matched."""
    from whimbrel.pipeline import IndexStore, match_stream

    account = RunSummary(output=job.output, batches=0)
    index = job.subscriptions if is_index(job.subscriptions) else job.index or f"{job.output}.index"
    checkpoint = Path(stream.checkpoint)
    claim(checkpoint, _identity(job, index))
    if index != job.subscriptions:
        outputs = Outputs(overwrite=True)
        try:
            compile_for(spark, job, index, account, outputs)
            outputs.commit()
        finally:
            outputs.discard()
    manifest = IndexStore(index).manifest()
    account.subscriptions, account.version = manifest.count, manifest.version
    events = read_events(spark, job.source)
    pairs = match_stream(
        events.observed("events").valid,
        index,
        key=events.key,
        form=job.form,
        json=events.json,
        timestamps=job.timestamps,
    )
    format = format_of(job.output, job.format).value
    started = time.perf_counter()
    queries = []
    try:
        counted = pairs.observe("pairs", count_of_pairs(job.form))
        queries.append(_start(counted, job.output, format, checkpoint / "pairs", stream))
        if job.dead_letters is not None and events.dead_letters is not None:
            kind = format_of(job.dead_letters, None).value
            queries.append(_start(events.dead_letters, job.dead_letters, kind, checkpoint / _DEAD_LETTERS, stream))
        _follow(queries, job, account, checkpoint / "pairs")
    finally:
        for query in queries:
            query.stop()
    account.match_seconds = time.perf_counter() - started
    newest = IndexStore(index).manifest()
    account.subscriptions, account.version = newest.count, newest.version
    return account


def _identity(job: RunJob, index: str) -> dict[str, object]:
    """What may not change while a checkpoint is used: its offsets and its output would not fit any more."""
    return {
        "events": absolute(job.source.path),
        "output": absolute(job.output),
        "index": absolute(index),
        "key": job.source.key,
        "form": job.form,
        "schema": job.source.schema,
    }


def _start(frame: DataFrame, path: str, format: str, checkpoint: Path, stream: StreamOptions) -> StreamingQuery:
    writer = (
        frame.writeStream.format(format).option("header", True).option("checkpointLocation", absolute(str(checkpoint)))
    )
    if stream.once:
        writer = writer.trigger(availableNow=True)
    elif stream.every is not None:
        writer = writer.trigger(processingTime=f"{round(stream.every * 1_000)} milliseconds")
    return writer.start(absolute(path))


def _follow(queries: list[StreamingQuery], job: RunJob, account: RunSummary, checkpoint: Path) -> None:
    """Count and show micro-batches until the queries end, or a signal ends them."""
    seen = -1
    with _stop_signals() as stopped, _line(job.quiet) as show:
        while True:
            active = [query for query in queries if query.isActive]
            for progress in queries[0].recentProgress:
                if progress["batchId"] > seen and progress["numInputRows"]:
                    seen = progress["batchId"]
                    show(_count(progress, job, account, checkpoint), account)
            for query in queries:
                error = query.exception()
                if error is not None:
                    raise JobFailed(reason_of(str(error)))
            if not active or stopped.is_set():
                return
            stopped.wait(_LOOK)


def _count(progress: Any, job: RunJob, account: RunSummary, checkpoint: Path) -> dict[str, object]:
    """Add a micro-batch to the account; what there is to say of it."""
    metrics = progress["observedMetrics"]
    events, dead = (metrics["events"][name] for name in ("events", "dead")) if "events" in metrics else (0, 0)
    pairs = metrics["pairs"]["pairs"] if "pairs" in metrics else 0
    account.batches = (account.batches or 0) + 1
    account.events += events
    account.dead_letters += dead
    account.pairs += pairs
    said: dict[str, object] = {"batch": progress["batchId"], "events": events, "pairs": pairs}
    if dead:
        said["dead_letters"] = dead
    said["milliseconds"] = progress["durationMs"].get("triggerExecution", 0)
    lag = lag_of(progress, job.source.path, job.source.format, checkpoint)
    if lag is not None:
        said[f"{lag[1]}_waiting"] = lag[0]
    return said


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set: the micro-batch that runs is given up, and will be done again."""
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Line:
    """A line on the terminal that changes with every micro-batch; for machines, a line of JSON for each."""

    def __init__(self, json: bool, status: Status | None) -> None:
        self.json = json
        self.status = status

    def __call__(self, batch: dict[str, object], account: RunSummary) -> None:
        if self.json:
            typer.echo(to_json(batch))
        elif self.status is not None:
            self.status.update(describe(batch, account))


def describe(batch: dict[str, Any], account: RunSummary) -> str:
    """A micro-batch in a line: its size, latency, rate and lag, and what there is so far."""
    seconds = batch["milliseconds"] / 1_000
    rate = f" ({batch['events'] / seconds:,.0f} events/s)" if seconds else ""
    waiting = "".join(f", {batch[f'{kind}_waiting']:,} {kind} waiting" for kind in _KINDS if f"{kind}_waiting" in batch)
    return (
        f"batch {batch['batch']}: {batch['events']:,} events in {batch['milliseconds']:,} ms{rate}{waiting}; "
        f"so far {account.events:,} events, {account.pairs:,} pairs"
    )


_KINDS = ("events", "files")


@contextmanager
def _line(json: bool) -> Iterator[_Line]:
    if json or not sys.stderr.isatty():
        yield _Line(json, None)
        return
    from rich.console import Console

    with Console(stderr=True, highlight=False).status("waiting for events (Ctrl-C stops)") as status:
        yield _Line(json, status)
