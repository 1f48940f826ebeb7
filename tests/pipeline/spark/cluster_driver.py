"""The driver of the cluster tests: a batch, then two streams at once, with a library that executors get from it.

    python -m tests.pipeline.spark.cluster_driver FOLDER MASTER

compiles FOLDER/subscriptions and matches FOLDER/events by both plans, unless that was done before. Then it matches the
log FOLDER/match/log by `match_stream`, and reads the updates FOLDER/transitions/in by `transitions`, to their ends.
Each stream has its index, checkpoint and output in its folder.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.pipeline.spark.clusters import JAVA
from tests.publications.model import SCHEMA
from whimbrel.pipeline import TransitionOptions, compile_index, match, match_stream, session, ship, transitions
from whimbrel.pipeline.connectors.log_source import WhimbrelSource
from whimbrel.pipeline.spark.session import CHECKPOINT

PER_BATCH = 500
"""Events of the log in a micro-batch."""
_SETTINGS = {
    # What is killed is what sessions on one machine do; by itself a cluster would not have these.
    **CHECKPOINT,
    # Everything is on this machine, whose name need not resolve.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.executor.extraJavaOptions": JAVA,
    # Two executors, each in a process and a directory of its own: one goes on when the other is killed.
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    # A lost executor is noticed by its connection; its tasks may be tried as often as the test kills.
    "spark.task.maxFailures": "20",
    # The data is tiny: compiling Java for each query would cost more than it saves.
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
}


def main() -> None:
    """Run the batch and the streams."""
    folder = Path(sys.argv[1])
    spark = session(sys.argv[2], name="cluster", settings=_SETTINGS)
    ship(spark)
    if not (folder / "homes.json").exists():
        _match_batch(spark, folder)
        rows = spark.range(0, 8, numPartitions=8).mapInArrow(_homes, "home string, root string").distinct().collect()
        (folder / "homes.json").write_text(json.dumps([row.asDict() for row in rows]))
    queries = [_match_log(spark, folder / "match"), _tell_transitions(spark, folder / "transitions")]
    for query in queries:
        query.awaitTermination()
    spark.stop()


def _match_batch(spark: SparkSession, folder: Path) -> None:
    compiled = compile_index(spark.read.parquet(f"{folder}/subscriptions"), folder / "index", shards=3)
    assert (compiled.version, compiled.rejected) == (1, 0), compiled
    events = spark.read.parquet(f"{folder}/events")
    for plan in ("replicate", "shard"):
        match(events, folder / "index", plan=plan).write.parquet(f"{folder}/{plan}")


def _homes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Where a worker has the library, and the directory of its executor."""
    import os

    from pyspark import SparkFiles

    import whimbrel

    for _ in batches:
        home, root = os.path.abspath(str(whimbrel.__file__)), os.path.abspath(SparkFiles.getRootDirectory())
        yield pa.RecordBatch.from_pydict({"home": [home], "root": [root]})


def _match_log(spark: SparkSession, folder: Path) -> StreamingQuery:
    spark.dataSource.register(WhimbrelSource)
    reader = spark.readStream.format("whimbrel").schema("offset BIGINT, event STRING").option("path", f"{folder}/log")
    reader = reader.option("maxEventsPerTrigger", PER_BATCH).option("eventsPerPartition", PER_BATCH // 2)
    return _start(match_stream(reader.load(), folder / "index", key="offset", json="event"), folder)


def _tell_transitions(spark: SparkSession, folder: Path) -> StreamingQuery:
    updates = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(f"{folder}/in")
    options = TransitionOptions(unset="un", buckets=4)
    names = {"key": "key", "sequence": "n", "deleted": "gone"}
    return _start(transitions(updates, folder / "index", **names, partial=True, leave=True, options=options), folder)


def _start(frame: DataFrame, folder: Path) -> StreamingQuery:
    writer = frame.writeStream.format("parquet").option("path", f"{folder}/out")
    return writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()


if __name__ == "__main__":
    # Functions of a module are sent by its name, which executors do not have; those of __main__ are sent whole.
    main()
