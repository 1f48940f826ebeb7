"""A driver of its own for the kill tests: the log through `match_stream` into files, on a cluster of processes.

    python -m tests.pipeline.stages.match.stream_driver FOLDER EVENTS_PER_BATCH EXECUTORS

reads FOLDER/log, matches against FOLDER/index, writes to FOLDER/out with FOLDER/checkpoint, and ends when it has read
all that the log held when it started.
"""

from __future__ import annotations

import sys
from pathlib import Path

from whimbrel.pipeline import match_stream, session
from whimbrel.pipeline.connectors.log_source import WhimbrelSource
from whimbrel.pipeline.spark.session import CHECKPOINT

_SETTINGS = {
    # What is killed is what sessions on one machine do; by itself a cluster would not have these.
    **CHECKPOINT,
    # Everything is on this machine, whose name need not resolve.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Java starts quickly and stays small: there are three of them.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.memory": "512m",
    # A lost executor is noticed by its connection; its tasks may be tried as often as the test kills.
    "spark.task.maxFailures": "20",
    "spark.sql.shuffle.partitions": "2",
}


def main() -> None:
    """Run the stream to the end of the log."""
    folder = Path(sys.argv[1])
    spark = session(f"local-cluster[{sys.argv[3]},1,1024]", name="kill", settings=_SETTINGS)
    spark.dataSource.register(WhimbrelSource)
    reader = spark.readStream.format("whimbrel").schema("offset BIGINT, event STRING").option("path", f"{folder}/log")
    reader = reader.option("maxEventsPerTrigger", sys.argv[2]).option("eventsPerPartition", int(sys.argv[2]) // 4)
    pairs = match_stream(reader.load(), folder / "index", key="offset", json="event")
    writer = pairs.writeStream.format("parquet").option("path", f"{folder}/out")
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
