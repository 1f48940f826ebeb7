"""Streaming: the sustained rate with events waiting, and the time of a micro-batch with events at an even rate."""

from __future__ import annotations

import math
import os
import statistics
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whimbrel.lab.measure.pipeline.workbench import Workbench, numbered, write_parts
from whimbrel.lab.measure.timing import ProcessTreeTimes

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_WARM = 3
"""First micro-batches of a query that do not count."""
_WARMING = 0.5
"""The length of the warm-up query before each measurement, as a share of it: Java compiles what it runs often."""
_EVERY = 0.1
"""Seconds between two files of events at an even rate."""
_PATIENCE = 120.0
"""Seconds beyond those asked for until a micro-batch must have ended."""


class NoMicroBatch(RuntimeError):
    """A query ended none of its micro-batches in time."""


def run_stream(bench: Workbench) -> dict[str, object]:
    """Measure both, from files to no sink, so that reading and matching are what is timed."""
    parameters = bench.parameters
    events = numbered(bench.workload().events)
    index, _ = bench.index()
    batch, batches = int(parameters["batch"]), int(parameters["batches"])
    bench.progress("warming up")
    _sustained(bench, _written(bench, "warming", events, batch, math.ceil(batches * _WARMING)), index)
    bench.progress("sustained rate")
    clock, source = ProcessTreeTimes(), _written(bench, "sustained", events, batch, batches)
    full = clock.of(lambda: _sustained(bench, source, index))
    cpu = clock.median_cpu
    rate, seconds = int(parameters["rate"]), float(parameters["seconds"])
    bench.progress(f"{rate:,} events/s for {seconds:g} s")
    _even(bench, "even-warming", events, index, rate, seconds * _WARMING)
    even = _even(bench, "even", events, index, rate, seconds)
    counted, spent = sum(one.rows for one in full), sum(one.ms for one in full) / 1e3
    times = sorted(one.ms for one in even)
    return {
        "figures": {
            "events/s sustained": round(counted / spent),
            "median micro-batch, ms": round(statistics.median(times), 1),
        },
        "sustained": {
            "batches": len(full),
            "events": counted,
            "events_per_batch": batch,
            "seconds": round(spent, 3),
            "cpu_us_per_event": round(cpu * 1e6 / (batch * (batches + _WARM)), 1),
        },
        "even": {
            "rate": rate,
            "seconds": seconds,
            "batches": len(even),
            "events": sum(one.rows for one in even),
            "lowest_ms": times[0],
            "p95_ms": times[min(len(times) - 1, int(len(times) * 0.95))],
            "highest_ms": times[-1],
        },
    }


@dataclass(frozen=True, slots=True)
class _Batch:
    rows: int
    ms: float


@dataclass(slots=True)
class _Watch:
    """Collects the progress reports of a query, of which Spark keeps only the last."""

    query: StreamingQuery
    found: dict[int, _Batch] = field(default_factory=dict)

    def look(self) -> None:
        for progress in self.query.recentProgress:
            one: Any = progress
            if one["numInputRows"]:
                self.found[one["batchId"]] = _Batch(one["numInputRows"], one["durationMs"]["triggerExecution"])

    def batches(self) -> list[_Batch]:
        """All micro-batches but the first, which warm up."""
        self.look()
        return [self.found[number] for number in sorted(self.found)][_WARM:]


def _written(bench: Workbench, name: str, events: pa.Table, batch: int, batches: int) -> Path:
    """A folder with the files of micro-batches of equal size, one file for each core; those that warm up come first."""
    source = bench.scratch / name
    source.mkdir()
    for number in range(batches + _WARM):
        first = number * batch % max(events.num_rows - batch + 1, 1)
        staged = bench.scratch / f"{name}-{number}"
        staged.mkdir()
        write_parts(events.slice(first, batch), staged, os.cpu_count() or 1)
        for file in sorted(staged.iterdir()):
            file.rename(source / f"{number:04}-{file.name}")
    return source


def _sustained(bench: Workbench, source: Path, index: Path) -> list[_Batch]:
    """Match the micro-batches of a folder, one right after the other."""
    stream = _matched(bench, source, source, index, os.cpu_count() or 1)
    checkpoint = str(bench.scratch / f"{source.name}-at")
    query = stream.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    return _Watch(query).batches()


def _even(bench: Workbench, name: str, events: pa.Table, index: Path, rate: int, seconds: float) -> list[_Batch]:
    """Micro-batches while a thread puts files into the source at an even rate."""
    source, staged = bench.scratch / name, bench.scratch / f"{name}-staged"
    source.mkdir()
    staged.mkdir()
    each = max(round(rate * _EVERY), 1)
    parts = max(events.num_rows // each, 1)
    write_parts(events.slice(0, parts * each), staged, parts)
    files = sorted(staged.iterdir())
    stop = threading.Event()

    def feed() -> None:
        begun, number = time.monotonic(), 0
        while not stop.wait(max(begun + number * _EVERY - time.monotonic(), 0)):
            os.link(files[number % len(files)], source / f"{number:06}.parquet")
            number += 1

    stream = _matched(bench, staged, source, index, 1_000)
    query = stream.option("checkpointLocation", str(bench.scratch / f"{name}-at")).start()
    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    watch = _Watch(query)
    try:
        until = time.monotonic() + seconds
        while query.isActive and (time.monotonic() < until or not watch.batches()):
            if time.monotonic() > until + _PATIENCE:
                raise NoMicroBatch(
                    f"expected more than {_WARM} micro-batches in {seconds + _PATIENCE:g} s, got {len(watch.found)}"
                )
            time.sleep(0.5)
            watch.look()
    finally:
        stop.set()
        feeder.join()
        query.stop()
    if (error := query.exception()) is not None:
        raise error
    return watch.batches()


def _matched(bench: Workbench, known: Path, source: Path, index: Path, files: int) -> Any:
    """A writer of the lists for files that come into `source`; `known` has files with the same schema."""
    from whimbrel.pipeline import match_stream

    schema = bench.spark.read.parquet(str(known)).schema
    frame: DataFrame = bench.spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(source))
    return match_stream(frame, index, key="event_id", form="lists").writeStream.format("noop")
