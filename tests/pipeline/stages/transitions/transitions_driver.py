"""A driver of its own for the kill tests: files of updates through `transitions` into files.

    python -m tests.pipeline.stages.transitions.transitions_driver FOLDER MASTER

reads FOLDER/in, one file for each micro-batch, matches against FOLDER/index, writes to FOLDER/out with
FOLDER/checkpoint, and ends when it has read all files that were there when it started.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.conftest import SPARK_SETTINGS
from tests.publications.model import SCHEMA
from whimbrel.pipeline import TransitionOptions, session, transitions

_SETTINGS = {
    **{name: value for name, value in SPARK_SETTINGS.items() if name != "spark.master"},
    # For executors in processes of their own; tasks may be tried as often as the test kills.
    "spark.executor.extraJavaOptions": SPARK_SETTINGS["spark.driver.extraJavaOptions"],
    "spark.executor.memory": "512m",
    "spark.task.maxFailures": "20",
}


def main() -> None:
    """Run the stream to the end of the files."""
    folder, master = Path(sys.argv[1]), sys.argv[2]
    spark = session(master, name="kill", settings=_SETTINGS)
    updates = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(f"{folder}/in")
    told = transitions(
        updates,
        folder / "index",
        key="key",
        sequence="n",
        deleted="gone",
        partial=True,
        leave=True,
        options=TransitionOptions(unset="un", buckets=4),
    )
    writer = told.writeStream.format("parquet").option("path", f"{folder}/out")
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
