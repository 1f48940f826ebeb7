"""One Spark session for all tests of the pipeline, small and quiet."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

pyspark = pytest.importorskip("pyspark", reason="the pipeline needs pyspark")

SETTINGS = {
    # Two tasks at a time: as many cores as the machines that run the tests have, and enough for races to show.
    "spark.master": "local[2]",
    # No web page: it costs a second at start and its port may be taken.
    "spark.ui.enabled": "false",
    # Executors and driver find each other without the name of the machine, which may not resolve.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # The data is tiny: each more partition of a shuffle is a task that does nothing.
    "spark.sql.shuffle.partitions": "2",
    # Plans that stay as they were written are faster to make and the same in every run.
    "spark.sql.adaptive.enabled": "false",
    # Compiling Java for each query costs more than it saves on tiny data.
    "spark.sql.codegen.wholeStage": "false",
    # Local times are those of nobody's machine.
    "spark.sql.session.timeZone": "UTC",
    # The quick compiler and the simple collector: a short life needs no others.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # No bar on standard error.
    "spark.ui.showConsoleProgress": "false",
    # The workers of one test serve the next: a Python start costs a second.
    "spark.python.worker.reuse": "true",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """The session; its tables and scratch files are in a directory of the test run."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    home = tmp_path_factory.mktemp("spark")
    builder = SparkSession.builder.appName("whimbrel-tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.sql.warehouse.dir", str(home / "tables"))
    builder = builder.config("spark.local.dir", str(home / "scratch"))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
