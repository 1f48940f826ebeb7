"""Points of a grid as Spark jobs: one job per point, as many at once as Spark has cores."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from whimbrel.lab.harness.experiment import Point
from whimbrel.lab.harness.measures import Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Counted = Callable[[Point], Iterable[Row]]
Rows = list[dict[str, Any]]


def counted_rows(counted: Counted, point: Point) -> Rows:
    """The rows of the table at one point."""
    return [row.to_dict(point) for row in counted(point)]


def run_points(spark: SparkSession, points: Sequence[tuple[Counted, Point]]) -> Iterator[tuple[int, Rows]]:
    """Run every point as a job; yield the number of each and its rows as they are done, in any order."""
    pool = ThreadPoolExecutor(max(1, spark.sparkContext.defaultParallelism))
    try:
        waiting = {pool.submit(_run_job, spark, *point): number for number, point in enumerate(points)}
        for done in as_completed(waiting):
            yield waiting[done], done.result()
    except BaseException:
        spark.sparkContext.cancelAllJobs()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _run_job(spark: SparkSession, counted: Counted, point: Point) -> Rows:
    found = spark.range(1, numPartitions=1).mapInArrow(partial(_task, counted, point), "rows string").collect()
    rows: Rows = json.loads(found[0]["rows"])
    return rows


def _task(counted: Counted, point: Point, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a worker of Spark does: measure one point."""
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"rows": [json.dumps(counted_rows(counted, point))]})
