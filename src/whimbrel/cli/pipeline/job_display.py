"""What a job shows while it runs: a bar per stage in a batch, a line per micro-batch in a stream, refused input.

Bars and lines are shown only where standard error is a terminal. On Spark Connect the server reports the stages;
elsewhere Spark's status tracker and status store are asked a few times a second.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer

from whimbrel.cli.terminal.console import say, say_json, to_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from rich.progress import Progress, TaskID
    from rich.status import Status

    from whimbrel.pipeline.jobs.monitor import MicroBatch, RunSummary

_EVERY = 0.2  # seconds between two looks at the stages
_SHOWN = 20  # refused subscriptions


@dataclass(frozen=True, slots=True)
class _StageProgress:
    """A stage: the number of its tasks, of those that are done, and of the rows it has read, if known."""

    id: int
    tasks: int
    done: int
    rows: int = 0


class JobDisplay:
    """Shows a job on the terminal; with `json` only lines of JSON are written."""

    def __init__(self, spark: SparkSession, json: bool) -> None:
        self.spark = spark
        self.json = json
        self._status: Status | None = None

    @contextmanager
    def stages(self, label: str) -> Iterator[None]:
        """Show a bar for every stage of the jobs that run inside."""
        if self.json or not sys.stderr.isatty():
            yield
            return
        bars = _Bars(label)
        try:
            with _reporting(self.spark, bars):
                yield
        finally:
            bars.close()

    def rejected(self, path: str, rejects: DataFrame, count: int) -> None:
        """Say which of the subscriptions of a path were refused, at most the first few."""
        for row in rejects.orderBy("id").limit(_SHOWN).collect():
            if self.json:
                line = {"rejected": "subscription", "file": path, "id": row["id"], "message": row["message"]}
                say_json(line)
            else:
                say(f"whimbrel: {path}: subscription {row['id']}: {row['message']}")
        if count > _SHOWN and not self.json:
            say("whimbrel: further errors are only counted; --rejects PATH writes all of them")

    @contextmanager
    def following(self) -> Iterator[threading.Event]:
        """Show a line that changes with every micro-batch; Ctrl-C and SIGTERM stop the stream."""
        with _stop_signals() as stopped:
            if self.json or not sys.stderr.isatty():
                yield stopped
                return
            from rich.console import Console

            with Console(stderr=True, highlight=False).status("waiting for events (Ctrl-C stops)") as status:
                self._status = status
                yield stopped

    def micro_batch(self, batch: MicroBatch, summary: RunSummary) -> None:
        """Show a micro-batch that has ended."""
        if self.json:
            typer.echo(to_json(batch.to_dict()))
        elif self._status is not None:
            self._status.update(_describe(batch, summary))


def _describe(batch: MicroBatch, summary: RunSummary) -> str:
    """A micro-batch in a line: its size, latency, rate and lag, and the totals so far."""
    seconds = batch.milliseconds / 1_000
    rate = f" ({batch.events / seconds:,.0f} events/s)" if seconds else ""
    waiting = "" if batch.waiting is None else f", {batch.waiting[0]:,} {batch.waiting[1]} waiting"
    return (
        f"batch {batch.number}: {batch.events:,} events in {batch.milliseconds:,} ms{rate}{waiting}; "
        f"so far {summary.events:,} events, {summary.pairs:,} pairs"
    )


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set. The micro-batch that runs is given up and done again by the next run."""
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _reporting(spark: SparkSession, bars: _Bars) -> Iterator[None]:
    if not hasattr(spark, "_jsc"):  # Spark Connect

        def handler(stages: Iterable[Any], inflight_tasks: int, operation_id: str, done: bool) -> None:
            bars.show([_StageProgress(s.stage_id, s.num_tasks, s.num_completed_tasks) for s in stages])

        spark.registerProgressHandler(handler)  # type: ignore[arg-type]  # a protocol without names
        try:
            yield
        finally:
            spark.removeProgressHandler(handler)  # type: ignore[arg-type]
        return
    stop = threading.Event()

    def poll() -> None:
        while not stop.wait(_EVERY):
            bars.show(list(_active_stages(spark)))

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _active_stages(spark: SparkSession) -> Iterator[_StageProgress]:
    tracker = spark.sparkContext.statusTracker()
    store = spark.sparkContext._jsc.sc().statusStore()
    for id in tracker.getActiveStageIds():
        info = tracker.getStageInfo(id)
        if info is None:
            continue
        data = store.lastStageAttempt(id)
        rows = max(data.inputRecords(), data.shuffleReadRecords())
        yield _StageProgress(id, info.numTasks, info.numCompletedTasks, rows)


class _Bars:
    """A bar for each stage that has been seen, with the rows it reads in a second."""

    def __init__(self, label: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f} tasks"),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
        )
        self.label = label
        self.progress: Progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self.seen: dict[int, tuple[TaskID, float]] = {}
        self.progress.start()

    def show(self, stages: list[_StageProgress]) -> None:
        now = time.monotonic()
        for gone in self.seen.keys() - {stage.id for stage in stages}:
            self.progress.remove_task(self.seen.pop(gone)[0])
        for stage in stages:
            if stage.id not in self.seen:
                task = self.progress.add_task(f"{self.label}: stage {stage.id}", total=stage.tasks, rate="")
                self.seen[stage.id] = task, now
            task, since = self.seen[stage.id]
            rate = f"{stage.rows / (now - since):,.0f} rows/s" if stage.rows and now > since else ""
            self.progress.update(task, completed=stage.done, total=stage.tasks, rate=rate)

    def close(self) -> None:
        self.progress.stop()
