"""Match the log of a broker: the job behind `whimbrel serve --engine spark`, also from another machine.

The broker's watermark is the only record of how far the job is. It asks what waits, matches that range in parallel, and
posts the lists as one commit, which the broker takes iff the range begins at the watermark. Whatever happens to the
job, and whatever it has lost, no event is counted twice and none is left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from whimbrel.log import EVENT
from whimbrel.log.match_commit import COMMIT_BYTES, MatchCommit, MatchStatus
from whimbrel.log.match_list import decode_all
from whimbrel.model.schema import Schema
from whimbrel.pipeline.connectors.broker_link import BrokerLink, EventReading
from whimbrel.pipeline.connectors.log_place import BrokerAddress, LogPlace
from whimbrel.pipeline.index.version_index import CompiledVersions, VersionIndex
from whimbrel.pipeline.index.workers import settle
from whimbrel.pipeline.jobs.monitor import JobMonitor, MicroBatch, RunSummary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RANGE_ENTRIES = 50_000
"""Entries that are matched and committed at once, at most."""
TASK_ENTRIES = 2_000
"""Entries that are worth a task of their own."""
WAIT_SECONDS = 5.0
"""How long the broker may hold a question for work before it answers that there is none."""
_CHUNK = 1_024  # entries that a task reads at once
_SCHEMA = "offset bigint, matches binary"


@dataclass(frozen=True, slots=True)
class BrokerJob:
    """A job that matches the log at `place`, of the broker at `address`; `index` is a directory that workers share.

    With `once` the job ends when nothing waits.
    """

    address: BrokerAddress
    place: LogPlace
    index: Path
    once: bool = False


@dataclass(frozen=True, slots=True)
class RangeTask:
    """Sent to the workers: reads ranges of the log, by their numbers, and gives the lists of events that match."""

    place: LogPlace
    versions: CompiledVersions
    bounds: tuple[int, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        indexes, ranges = self.versions.open()
        with self.place.open() as log:
            for part in (part for batch in batches for part in batch.column(0).to_pylist()):
                for chunk in log.chunks(self.bounds[part], self.bounds[part + 1], _CHUNK):
                    waiting = [row for row in chunk if row[2] == EVENT and row[4] is None]
                    offsets, lists = ranges.match(indexes, [row[0] for row in waiting], [row[3] for row in waiting])
                    columns = [pa.array(offsets, pa.int64()), pa.array(lists, pa.binary())]
                    yield pa.RecordBatch.from_arrays(columns, ["offset", "matches"])
        settle()


class LogMatcher:
    """Matches what waits at a broker, a range at a time."""

    def __init__(self, spark: SparkSession, job: BrokerJob, link: BrokerLink) -> None:
        self._spark = spark
        self._job = job
        self._link = link
        self._origin: tuple[str, EventReading] | None = None
        self._known = -1  # versions are known up to this offset
        self.index: VersionIndex

    def run(self, status: MatchStatus) -> tuple[int, int]:
        """Match and commit the next range: how many entries and pairs. None are committed if another job was faster."""
        first = status.watermark
        until = min(status.until, first + RANGE_ENTRIES)
        self._follow(status)
        offsets, lists = self._match(first, until)
        for part in MatchCommit.of(status.log, first, until, offsets, lists).split(COMMIT_BYTES):
            if self._link.commit(part) is None:
                return 0, 0
        return until - first, len(decode_all(lists)[1])

    def _follow(self, status: MatchStatus) -> None:
        """Bring the index up to the entries that wait."""
        if self._known >= status.changed and self._origin is not None and self._origin[0] == status.log:
            return
        origin = status.log, self._link.reading()
        if origin != self._origin:  # another log, or events are read in another way: start over
            document = origin[1].schema
            schema = None if document is None else Schema.from_document(document)
            self.index = VersionIndex(self._job.index, origin[1].timestamps, schema)
            self._origin, self._known = origin, -1
        start, since = (status.watermark, 0) if self._known < 0 else (min(self._known, status.watermark), self._known)
        self.index.follow(self._link.versions(start, status.end, since), status.watermark)
        self._known = status.end

    def _match(self, first: int, until: int) -> tuple[np.ndarray, list[bytes]]:
        """The offsets and lists of the events in [first, until) that match something."""
        most = 4 * int(self._spark.conf.get("spark.default.parallelism", "0") or 0) or 64
        parts = max(1, min(most, (until - first) // TASK_ENTRIES))
        bounds = tuple(first + (until - first) * part // parts for part in range(parts + 1))
        task = RangeTask(self._job.place, self.index.compiled, bounds)
        found = self._spark.range(0, parts, 1, parts).mapInArrow(task, _SCHEMA).toArrow()
        order = np.argsort(offsets := found["offset"].to_numpy())
        lists = found["matches"].to_pylist()
        return offsets[order], [lists[place] for place in order.tolist()]


def run_broker_job(spark: SparkSession, job: BrokerJob, monitor: JobMonitor) -> RunSummary:
    """Match what waits and what comes, until the monitor stops it."""
    summary = RunSummary(batches=0)
    with job.address.connect() as link, monitor.following() as stopped:
        matcher = LogMatcher(spark, job, link)
        while not stopped.is_set():
            status = link.status(0.0 if job.once else WAIT_SECONDS)
            if status.watermark < status.until:
                _run_range(matcher, status, summary, monitor)
            elif job.once:
                break
    return summary


def _run_range(matcher: LogMatcher, status: MatchStatus, summary: RunSummary, monitor: JobMonitor) -> None:
    began = time.perf_counter()
    entries, pairs = matcher.run(status)
    milliseconds = round(1_000 * (time.perf_counter() - began))
    lag = max(0, status.until - status.watermark - entries)
    batch = MicroBatch(summary.batches or 0, entries, pairs, 0, milliseconds, (lag, "events"))
    summary.add(batch)
    summary.match_seconds += milliseconds / 1_000
    summary.subscriptions, summary.version = len(matcher.index), matcher.index.rebuilds
    monitor.micro_batch(batch, summary)
