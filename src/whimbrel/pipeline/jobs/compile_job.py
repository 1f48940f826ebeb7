"""Compile a file of subscriptions into a new version of an index; refused subscriptions are reported and kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from whimbrel.pipeline.connectors.files import InputFormat, read
from whimbrel.pipeline.connectors.staged_outputs import StagedOutputs, format_of
from whimbrel.pipeline.connectors.subscription_files import read_subscriptions
from whimbrel.pipeline.jobs.monitor import JobMonitor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


def run_compile(spark: SparkSession, job: CompileJob, monitor: JobMonitor) -> Compiled:
    """Publish a version of the index. Rejects appear at their place when they are complete."""
    outputs = StagedOutputs(job.overwrite)
    try:
        compiled = compile_to(spark, job, outputs, monitor)
        outputs.commit()
    finally:
        outputs.discard()
    return compiled


def compile_to(spark: SparkSession, job: CompileJob, outputs: StagedOutputs, monitor: JobMonitor) -> Compiled:
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
