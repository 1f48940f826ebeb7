"""`whimbrel pipeline run` on a batch: subscriptions and events in, pairs out."""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from whimbrel.cli.pipeline.compile import CompileJob, compile_to
from whimbrel.cli.pipeline.events import EventSource, read_events
from whimbrel.cli.pipeline.inputs import InputFormat
from whimbrel.cli.pipeline.outputs import OutputFormat, Outputs, format_of
from whimbrel.cli.pipeline.progress import stage_bars

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


@dataclass(frozen=True, slots=True)
class RunJob:
    """What is to be done: the options of the command."""

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
    quiet: bool


@dataclass(slots=True)
class RunSummary:
    """What came of it, for the summary."""

    subscriptions: int = 0
    rejected: int = 0
    version: int = 0
    events: int = 0
    dead_letters: int = 0
    pairs: int = 0
    batches: int | None = None
    compile_seconds: float = 0.0
    match_seconds: float = 0.0
    output: str = ""

    def is_good(self) -> bool:
        """Whether nothing was refused."""
        return not self.rejected and not self.dead_letters


def is_index(path: str) -> bool:
    """Whether the path is that of a compiled index."""
    return (Path(path) / "versions").is_dir()


def run_batch(spark: SparkSession, job: RunJob) -> RunSummary:
    """Match all events there are now; outputs appear when all of them are complete."""
    account = RunSummary(output=job.output)
    outputs = Outputs(job.overwrite)
    home = None if job.index or is_index(job.subscriptions) else Path(tempfile.mkdtemp(prefix="whimbrel-index-"))
    try:
        index = job.subscriptions if is_index(job.subscriptions) else job.index or str(home)
        if index != job.subscriptions:
            compile_for(spark, job, index, account, outputs)
        _match(spark, job, index, account, outputs)
        outputs.commit()
    finally:
        outputs.discard()
        if home is not None:
            shutil.rmtree(home, ignore_errors=True)
    return account


def compile_for(spark: SparkSession, job: RunJob, index: str, account: RunSummary, outputs: Outputs) -> None:
    """Compile the subscriptions of a job into the index."""
    work = CompileJob(
        job.subscriptions, job.subscriptions_from, index, None, None, job.rejects, job.overwrite, job.quiet
    )
    done = compile_to(spark, work, outputs)
    account.rejected, account.compile_seconds = done.rejected, done.seconds


def _match(spark: SparkSession, job: RunJob, index: str, account: RunSummary, outputs: Outputs) -> None:
    from pyspark.sql import Observation

    from whimbrel.pipeline import IndexStore, match

    manifest = IndexStore(index).manifest()
    account.subscriptions, account.version = manifest.count, manifest.version
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
    with stage_bars(spark, "Matching", job.quiet):
        outputs.write(pairs.observe(found, count_of_pairs(job.form)), job.output, format_of(job.output, job.format))
    account.match_seconds = time.perf_counter() - started
    account.events, account.dead_letters = seen.get["events"], seen.get["dead"]
    account.pairs = found.get["pairs"]
    dead = events.dead_letters
    if job.dead_letters is not None and dead is not None:
        with stage_bars(spark, "Dead letters", job.quiet):
            outputs.write(dead, job.dead_letters, format_of(job.dead_letters, None))


def count_of_pairs(form: str) -> Column:
    """The metric `pairs` of the result of a match."""
    from pyspark.sql import functions as sf

    count = sf.count(sf.lit(1)) if form == "pairs" else sf.coalesce(sf.sum(sf.size("subscriptions")), sf.lit(0))
    return count.alias("pairs")
