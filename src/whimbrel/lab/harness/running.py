"""Runs experiments: counted points first, as Spark jobs; then timed points, alone, on one core, in turns.

What is done is on disk after every point. The verdict, table and plot of an experiment follow when all of its points
are done.
"""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from whimbrel.lab.harness.claims import verdict_of
from whimbrel.lab.harness.code_version import code_version
from whimbrel.lab.harness.experiment import Experiment, Point, Scale, Timed
from whimbrel.lab.harness.measures import Measures, Row
from whimbrel.lab.harness.panels import check_matplotlib, draw
from whimbrel.lab.harness.result_store import MeasuredPoint, ResultStore
from whimbrel.lab.measure.benchmark_results import check_names
from whimbrel.lab.measure.machine import card, load
from whimbrel.lab.measure.timing import Times
from whimbrel.model.errors import WhimbrelError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPEATS: dict[Scale, int] = {"tiny": 1, "small": 3, "paper": 5, "full": 5}
"""How often each work is timed."""
SHARE_OF_MEMORY = 0.8
"""The share of the free memory that a point may take."""

Rows = list[dict[str, Any]]
Counted = Callable[[Point], Iterable[Row]]
Notice = Callable[[float, str, str], None]
"""Told the share that is done, the experiment that is being measured, and the time left in words."""


class ScaleTooLarge(WhimbrelError):
    """A scale does not fit into memory: the `experiment`, the bytes `needed` by its largest point, those `free`."""

    def __init__(self, experiment: str, scale: str, needed: float, free: float) -> None:
        self.experiment, self.scale, self.needed, self.free = experiment, scale, needed, free
        super().__init__(
            f"Expected scale {scale!r} of {experiment} to fit into {SHARE_OF_MEMORY:.0%} of the free memory "
            f"({free * SHARE_OF_MEMORY / 1e9:.1f} GB), but its largest point is estimated to take {needed / 1e9:.1f} GB"
        )


class ExperimentsFailed(WhimbrelError):
    """Some experiments could not be timed: the error of each by name. All others were run."""

    def __init__(self, errors: Mapping[str, Exception]) -> None:
        self.errors = dict(errors)
        found = "; ".join(f"{name}: {error}" for name, error in errors.items())
        super().__init__(f"Expected every experiment to run, but {len(errors)} did not: {found}")


@dataclass(slots=True)
class _Job:
    """One point of one kind, still to be measured."""

    experiment: Experiment
    store: ResultStore
    kind: str
    point: Point
    measured: MeasuredPoint | None = None

    @property
    def weight(self) -> float:
        """About how long the point takes, in no unit: it grows with the subscriptions."""
        return 1.0 + max([float(self.point.get(name, 0)) for name in ("n", "subscriptions")]) / 1e5

    def finish(self, rows: Rows, machine: dict[str, object]) -> None:
        """Keep the rows, with the machine as it is now."""
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        self.measured = MeasuredPoint(rows, {**machine, "date": now, "load": load()})
        self.store.keep(self.kind, self.point, self.measured)


@dataclass(slots=True)
class _Clock:
    """How much of the work is done, by the weight of its points, and since when."""

    total: float
    notice: Notice
    done: float = 0.0
    since: float = field(default_factory=time.monotonic)

    def tell(self, name: str) -> None:
        left = ""
        if self.done:
            left = left_text((time.monotonic() - self.since) * (self.total - self.done) / self.done)
        self.notice(self.done / self.total if self.total else 1.0, name, left)


def left_text(seconds: float) -> str:
    """Say how much time is left.

    >>> left_text(4), left_text(170)
    ('4 s left', '3 min left')
    """
    return f"{seconds:.0f} s left" if seconds < 90 else f"{seconds / 60:.0f} min left"


def run_experiments(
    experiments: Sequence[Experiment],
    scale: Scale,
    output: Path,
    start_spark: Callable[[], SparkSession] | None = None,
    notice: Notice = lambda share, name, left: None,
    on_result: Callable[[dict[str, Any]], None] = lambda record: None,
) -> list[dict[str, Any]]:
    """Run the experiments at a scale and return their records, which are also in the output folder.

    Points that the same version of the code has measured are read back. `start_spark` is called when there is something
    to count, and what it returns is stopped before anything is timed; without it, counting runs in this process.
    Raises `PlottingMissing`, `ScaleTooLarge` or `UnknownName` before anything is measured, and `ExperimentsFailed` at
    the end.
    """
    _check(experiments, scale)
    machine = card()
    jobs = {experiment.name: _jobs(experiment, scale, output) for experiment in experiments}
    waiting = [job for found in jobs.values() for job in found if job.measured is None]
    clock = _Clock(sum(job.weight for job in waiting), notice)
    _count([job for job in waiting if job.kind == "counted"], machine, start_spark, clock)
    records, errors = list[dict[str, Any]](), dict[str, Exception]()
    for experiment in experiments:
        try:
            for job in jobs[experiment.name]:
                if job.measured is None:
                    clock.tell(experiment.name)
                    job.finish(_timed_rows(experiment, job.point, REPEATS[scale]), machine)
                    clock.done += job.weight
        except WhimbrelError as error:
            errors[experiment.name] = error
            continue
        record = _finish(experiment, scale, jobs[experiment.name])
        on_result(record)
        records.append(record)
    if errors:
        raise ExperimentsFailed(errors)
    return records


def _check(experiments: Sequence[Experiment], scale: Scale) -> None:
    check_matplotlib()
    free = _free_memory()
    for experiment in experiments:
        scales = [name for name, points in experiment.scales.items() if points]
        check_names(f"for {experiment.name} a scale", [scale], scales)
        needed = max(experiment.memory(point) for point in experiment.scales[scale])
        if needed > free * SHARE_OF_MEMORY:
            raise ScaleTooLarge(experiment.name, scale, needed, free)


def _free_memory() -> float:
    """The bytes that a new process could take."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(float(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES"))


def _jobs(experiment: Experiment, scale: Scale, output: Path) -> list[_Job]:
    version = code_version(experiment.counted, experiment.timed)
    store = ResultStore(output / scale / experiment.name, version)
    return [
        _Job(experiment, store, kind, point, store.finished(kind, point))
        for kind in ("counted", "timed")
        if getattr(experiment, kind) is not None
        for point in experiment.scales[scale]
    ]


def _count(
    jobs: Sequence[_Job],
    machine: dict[str, object],
    start_spark: Callable[[], SparkSession] | None,
    clock: _Clock,
) -> None:
    """Measure the counted points and keep them."""
    if not jobs:
        return
    clock.tell("starting Spark" if start_spark else jobs[0].experiment.name)
    jobs = sorted(jobs, key=lambda job: -job.weight)  # the longest first, so that no core waits for it at the end
    spark = start_spark() if start_spark else None
    try:
        here = ((job, _counted_rows(job.experiment.counted, job.point)) for job in jobs)
        for job, rows in here if spark is None else _count_on_spark(spark, jobs):
            job.finish(rows, machine)
            clock.done += job.weight
            clock.tell(job.experiment.name)
    finally:
        if spark is not None:
            spark.stop()


def _counted_rows(counted: Counted | None, point: Point) -> Rows:
    """The rows of the table at one point."""
    assert counted is not None
    return [row.to_dict(point) for row in counted(point)]


def _count_on_spark(spark: SparkSession, jobs: Sequence[_Job]) -> Iterator[tuple[_Job, Rows]]:
    """Run a Spark job for each point, as many at once as Spark has cores; yield them as they are done."""
    pool = ThreadPoolExecutor(max(1, spark.sparkContext.defaultParallelism))
    try:
        waiting = {pool.submit(_run_spark_job, spark, job): job for job in jobs}
        for done in as_completed(waiting):
            yield waiting[done], done.result()
    except BaseException:
        spark.sparkContext.cancelAllJobs()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _run_spark_job(spark: SparkSession, job: _Job) -> Rows:
    task = partial(_task, job.experiment.counted, job.point)
    found = spark.range(1, numPartitions=1).mapInArrow(task, "rows string").collect()
    rows: Rows = json.loads(found[0]["rows"])
    return rows


def _task(counted: Counted | None, point: Point, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a worker of Spark does: measure one point."""
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"rows": [json.dumps(_counted_rows(counted, point))]})


def _timed_rows(experiment: Experiment, point: Point, repeat: int) -> Rows:
    """Run the works of a point in turns. They come warm: what makes them has called each once."""
    assert experiment.timed is not None
    found = list(experiment.timed(point))
    works = [one for one in found if isinstance(one, Timed)]
    rows = [one for one in found if isinstance(one, Row)]
    times = [Times() for _ in works]
    with _one_core():
        for _ in range(repeat):
            for one, taken in zip(works, times, strict=True):
                taken.of(one.work)
                if one.undo is not None:
                    one.undo()
    for one, taken in zip(works, times, strict=True):
        us = sorted(seconds * 1e6 / one.per for seconds in taken.cpu)
        middle = taken.median_cpu * 1e6 / one.per
        rows.append(Row(one.series, "time", middle, one.unit, us[0], us[-1], repeat))
    out = [row.to_dict(point) for row in rows]
    del found, works
    gc.collect()
    return out


@contextmanager
def _one_core() -> Iterator[None]:
    """Keep this process on one core, and the garbage collector away from what is loaded."""
    usual = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()
    gc.collect()
    gc.freeze()
    if usual:
        os.sched_setaffinity(0, {max(usual)})
    try:
        yield
    finally:
        if usual:
            os.sched_setaffinity(0, usual)
        gc.unfreeze()


def _finish(experiment: Experiment, scale: Scale, jobs: Sequence[_Job]) -> dict[str, Any]:
    """Judge the claims, draw, and write everything."""
    points = [job.measured for job in jobs if job.measured is not None]
    measures = Measures(row for point in points for row in point.rows)
    by_date = sorted((point.machine for point in points), key=lambda machine: str(machine["date"]))
    judged = [(claim, claim.test(measures)) for claim in experiment.claims]
    outcomes = [outcome for claim, outcome in judged if not claim.is_ours]
    title = f"{experiment.figure}: {experiment.name}" if experiment.figure else experiment.name
    told = [(claim.text, outcome) for claim, outcome in judged]
    plot = draw(f"{experiment.paper}, {title}", experiment.panels, measures, told, fine=scale != "tiny")
    record = {
        **experiment.to_dict(),
        "why": experiment.why,
        "scale": scale,
        "verdict": verdict_of(outcomes),
        "claims": [{"claim": text, "holds": outcome.holds, "found": outcome.found} for text, outcome in told],
        "has_paper_claims": bool(outcomes),
        "machine": {**by_date[-1], "load": by_date[0]["load"], "load_at_end": by_date[-1]["load"]},
        "command": f"whimbrel lab run {experiment.name} --scale {scale}",
    }
    return jobs[0].store.write(measures, plot, record)
