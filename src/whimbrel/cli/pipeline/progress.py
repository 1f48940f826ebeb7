"""What the pipeline shows while it works: a bar per stage in batch, a line per micro-batch in a stream.

Nothing is shown where standard error is not a terminal. On Spark Connect the server reports the stages; elsewhere
Spark's status tracker and status store are asked a few times a second.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.progress import Progress, TaskID

_EVERY = 0.2


@dataclass(frozen=True, slots=True)
class StageProgress:
    """How far a stage is: its tasks, those that are done, and the rows it has read where they are known."""

    id: int
    tasks: int
    done: int
    rows: int = 0


@contextmanager
def stage_bars(spark: SparkSession, label: str, quiet: bool = False) -> Iterator[None]:
    """Show a bar for every stage of the jobs that run inside."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    bars = _Bars(label)
    try:
        with _reporting(spark, bars):
            yield
    finally:
        bars.close()


@contextmanager
def _reporting(spark: SparkSession, bars: _Bars) -> Iterator[None]:
    if not hasattr(spark, "_jsc"):  # Spark Connect

        def handler(stages: Iterable[Any], inflight_tasks: int, operation_id: str, done: bool) -> None:
            bars.show([StageProgress(s.stage_id, s.num_tasks, s.num_completed_tasks) for s in stages])

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


def _active_stages(spark: SparkSession) -> Iterator[StageProgress]:
    tracker = spark.sparkContext.statusTracker()
    store = spark.sparkContext._jsc.sc().statusStore()
    for id in tracker.getActiveStageIds():
        info = tracker.getStageInfo(id)
        if info is None:
            continue
        data = store.lastStageAttempt(id)
        rows = max(data.inputRecords(), data.shuffleReadRecords())
        yield StageProgress(id, info.numTasks, info.numCompletedTasks, rows)


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

    def show(self, stages: list[StageProgress]) -> None:
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
