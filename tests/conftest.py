"""Hypothesis profiles, chosen with --hypothesis-profile, and one small and quiet Spark session for all tests."""

import gc
import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Time limits per example measure how busy the machine is, not the code: speed belongs in benchmarks/.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("default", _COMMON, max_examples=60)
settings.register_profile("ci", _COMMON, max_examples=60, derandomize=True, database=None, print_blob=True)
settings.register_profile("soak", _COMMON, max_examples=5_000, stateful_step_count=200, print_blob=True)
settings.load_profile("default")

# Every Spark that a test starts, also those of commands and of the pages, lives for seconds: compiling Java well, and
# compiling Java for each query, would take more of two cores than the tests themselves.
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dspark.sql.codegen.wholeStage=false -Dspark.sql.adaptive.enabled=false",
)

# While a second process compiles kernels, small indexes have no segments, and tests look at segments. Tests of that
# process switch it on.
os.environ.setdefault("WHIMBREL_WARM_UP", "0")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """Collect garbage before plugins import modules: CPython 3.11 cannot parse one while a finalizer parses another."""
    gc.collect()


SPARK_SETTINGS = {
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
    pytest.importorskip("pyspark", reason="Spark needs pyspark")
    from pyspark.sql import SparkSession

    from whimbrel.pipeline.spark.session import CHECKPOINT

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    home = tmp_path_factory.mktemp("spark")
    builder = SparkSession.builder.appName("whimbrel-tests")
    for name, value in {**SPARK_SETTINGS, **CHECKPOINT}.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.sql.warehouse.dir", str(home / "tables"))
    builder = builder.config("spark.local.dir", str(home / "scratch"))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
