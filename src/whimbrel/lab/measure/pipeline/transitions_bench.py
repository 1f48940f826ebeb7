"""How fast transitions of keyed publications on Spark are: `whimbrel.pipeline.transitions` reads files.

Taxis in a hundred towns move over squares of their town; half of the squares ask for a free one. A taxi is in about
five of them. All keys are published first, which is not counted. Then come updates of keys chosen at random, each a
move by less than a tenth of a side, in large micro-batches and then in small ones. The first ones of each kind are not
counted either: workers start, and Java compiles itself for a minute.

Rows per second are rows of a micro-batch by its whole time as Spark reports it: reading, matching, state, commit and
log. The CPU time beside it is that of Java and of all Python workers, without other work on the machine. It is read
when the next micro-batch has begun, so a little is counted in the wrong one. Notifications are counted and not written.
Bias: Parquet files on a local disk, one file for each core and micro-batch, one partition of the state for each core,
and no bound on the bytes of a batch for Python, which short rows do not need.
"""

from __future__ import annotations

import math
import os
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from whimbrel.lab.measure.benchmark_results import Progress, Verdict, no_progress, report
from whimbrel.lab.measure.machine import card
from whimbrel.lab.measure.timing import child_cpu_seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLUMNS = "taxi STRING, n BIGINT, town STRING, x DOUBLE, y DOUBLE, status STRING, speed INT"
_TOWNS = 100
_MATCHES = 6
"""Squares around a point. A quarter of them ask for another status than the point has."""
_STATUS = pa.array(["free", "taken", "off"])
_TARGET = 150_000
_LOOK = 0.05
"""Seconds between two looks at the query."""
_SETTINGS = {
    # With a bound on bytes Spark adds up the sizes of all columns at each row, half of the time of handing rows over.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
}


@dataclass(frozen=True, slots=True)
class TransitionSizes:
    """The sizes of one run: rows and number of large and of small micro-batches; `warm` of each are not counted."""

    keys: int
    filters: int
    large: int
    larges: int
    small: int
    smalls: int
    warm: int


SMALL = TransitionSizes(keys=50_000, filters=1_000, large=20_000, larges=5, small=1_000, smalls=5, warm=2)
FULL = TransitionSizes(keys=1_000_000, filters=10_000, large=200_000, larges=9, small=5_000, smalls=9, warm=10)


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """Micro-batches of one size. Milliseconds (wall and CPU) and rows per second are medians."""

    rows: int
    batches: int
    ms: float
    cpu_ms: float | None
    lowest_ms: float
    highest_ms: float
    rows_per_second: int
    notifications: int


def run(sizes: TransitionSizes, progress: Progress = no_progress) -> dict[str, Any]:
    """Measure, and return JSON-ready data with the machine card. If the program has a session, that one is used."""
    from whimbrel.pipeline.spark.session import running_session

    machine = card()
    cores = os.cpu_count() or 1
    settings = {**_SETTINGS, "spark.sql.shuffle.partitions": str(cores)}
    with (
        running_session(f"local[{cores}]", settings=settings) as spark,
        tempfile.TemporaryDirectory(prefix="whimbrel-transitions-", ignore_cleanup_errors=True) as folder,
    ):
        rows = _measure(sizes, spark, Path(folder), cores, progress)
    rates = [row.rows_per_second for row in rows]
    verdicts = [Verdict(f"transitions: rows/s, batches of {sizes.large:,}", _TARGET, rates[0])]
    return report(machine, verdicts, sizes=asdict(sizes), transitions=[asdict(row) for row in rows])


def _measure(
    sizes: TransitionSizes, spark: SparkSession, folder: Path, cores: int, progress: Progress
) -> list[BatchTimes]:
    from whimbrel.pipeline import compile_index

    progress("transitions: compiling filters")
    rng = np.random.default_rng(22)
    side = math.sqrt(_MATCHES * _TOWNS / sizes.filters)
    filters = [(f"zone-{number}", text) for number, text in enumerate(_filters(sizes.filters, side, rng))]
    compile_index(spark.createDataFrame(filters, "id STRING, filter STRING"), folder / "index")
    progress("transitions: publishing all keys, then moving them")
    loads = math.ceil(sizes.keys / sizes.large)
    counts = [sizes.large] * (loads + sizes.warm + sizes.larges) + [sizes.small] * (sizes.warm + sizes.smalls)
    _write(folder / "updates", counts, loads, sizes, side, cores, rng)
    batches = _stream(spark, folder, cores)
    first = loads + sizes.warm
    large, small = slice(first, first + sizes.larges), slice(len(counts) - sizes.smalls, None)
    return [_row(counts[part.start], batches[part]) for part in (large, small)]


@dataclass(frozen=True, slots=True)
class _Batch:
    ms: float
    cpu_ms: float | None
    told: int


def _row(rows: int, batches: list[_Batch]) -> BatchTimes:
    ms = [batch.ms for batch in batches]
    cpu = [batch.cpu_ms for batch in batches if batch.cpu_ms is not None]
    told = round(statistics.median(batch.told for batch in batches))
    median, work = statistics.median(ms), round(statistics.median(cpu)) if cpu else None
    return BatchTimes(rows, len(ms), median, work, min(ms), max(ms), round(rows / median * 1e3), told)


def _filters(count: int, side: float, rng: np.random.Generator) -> list[str]:
    out = []
    for number, (x, y) in enumerate((rng.random((count, 2)) - side / 2).tolist()):
        text = f"town = 'town-{number % _TOWNS}' AND x BETWEEN {x} AND {x + side} AND y BETWEEN {y} AND {y + side}"
        out.append(text + (" AND status = 'free'" if number // _TOWNS % 2 else ""))
    return out


def _write(
    folder: Path,
    counts: list[int],
    loads: int,
    sizes: TransitionSizes,
    side: float,
    cores: int,
    rng: np.random.Generator,
) -> None:
    """Write the files of all micro-batches; their modification times give the order."""
    folder.mkdir()
    at = rng.random((2, sizes.keys))
    begun = time.time() - 3_600
    for batch, count in enumerate(counts):
        if batch < loads:
            keys = np.arange(batch * count, min((batch + 1) * count, sizes.keys))
        else:
            keys = rng.choice(sizes.keys, count, replace=False)
            at[:, keys] = np.clip(at[:, keys] + rng.uniform(-side / 10, side / 10, (2, count)), 0, 1)
        status = rng.integers(0, len(_STATUS), len(keys)) * (rng.random(len(keys)) < 0.1)
        columns = {
            "taxi": pa.array(np.char.add("taxi-", keys.astype("U10"))),
            "n": np.full(len(keys), batch),
            "town": pa.array(np.char.add("town-", (keys % _TOWNS).astype("U10"))),
            "x": at[0, keys],
            "y": at[1, keys],
            "status": _STATUS.take(pa.array(status)),
            "speed": pa.array(rng.integers(0, 120, len(keys)), pa.int32()),
        }
        table = pa.table(columns)
        for part in range(cores):
            first, stop = len(keys) * part // cores, len(keys) * (part + 1) // cores
            file = folder / f"{batch:04}-{part}.parquet"
            pq.write_table(table.slice(first, stop - first), file)
            os.utime(file, (begun + batch, begun + batch))


def _stream(spark: SparkSession, folder: Path, cores: int) -> list[_Batch]:
    """Run the stream to its end and return the micro-batches that had rows."""
    from pyspark.sql import functions as f

    from whimbrel.pipeline import transitions

    reader = spark.readStream.schema(_COLUMNS).option("maxFilesPerTrigger", cores)
    updates = reader.parquet(str(folder / "updates"))
    found = transitions(updates, folder / "index", key="taxi", sequence="n", leave=True)
    counted = found.observe("told", f.count(f.lit(1)).alias("told"))
    writer = counted.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    spent: dict[int, float] = {}
    while query.isActive:
        time.sleep(_LOOK)
        last: Any = query.lastProgress
        if last is not None and (now := child_cpu_seconds()) is not None:
            spent.setdefault(last["batchId"], now)
    query.awaitTermination()  # raises what went wrong
    progress: list[Any] = [one for one in query.recentProgress if one["numInputRows"]]
    out = []
    for one in progress:
        number, told = one["batchId"], one["observedMetrics"]["told"]["told"]
        seen = number in spent and number - 1 in spent
        work = (spent[number] - spent[number - 1]) * 1e3 if seen else None
        out.append(_Batch(one["durationMs"]["triggerExecution"], work, told))
    return out
