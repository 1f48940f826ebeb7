"""A Spark session with settings that suit matching, and are safe on a laptop and on a cluster.

Settings of the caller take precedence. The master is the one that is given, else the one that Spark is configured
with, else all cores of this machine. `sc://host:port` connects to a Spark Connect server.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING

from whimbrel.model.errors import MissingExtra
from whimbrel.pipeline.errors import check_type
from whimbrel.pipeline.spark.java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Settings = Mapping[str, str]

_CONNECT = {
    "grpcio": "grpc",
    "grpcio-status": "grpc_status",
    "googleapis-common-protos": "google.rpc",
    "zstandard": "zstandard",
}
"""Packages that a client of Spark Connect imports, and their modules."""
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

QUERY: Settings = {
    # A timestamp without a zone is UTC, as in the semantics; not what the machine happens to be set to.
    "spark.sql.session.timeZone": "UTC",
    # Rows that go to a Python worker at once. The engine sorts the probes of a block of events, so larger batches than
    # Spark's 10,000 help; the bytes bound memory where events are long texts.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
    # toPandas and createDataFrame go by columns as well.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""Settings of queries, which a Spark Connect server takes too."""

CONTEXT: Settings = {
    # Python workers stay between tasks and micro-batches, and with them the opened index.
    "spark.python.worker.reuse": "true",
    # No web page, which would listen on every network interface; set it to true to look inside a run.
    "spark.ui.enabled": "false",
    # No bars of Spark's own on standard error.
    "spark.ui.showConsoleProgress": "false",
}
"""Settings of the context, fixed when it starts."""

CHECKPOINT: Settings = {
    # A micro-batch writes two or three small files of its progress, each to a temporary name that is then renamed.
    # Spark's default manager starts child processes for that and writes a checksum file beside each file, which takes
    # most of the time of a small micro-batch. This one, Spark's own fallback, writes in the same order and survives a
    # killed driver too.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # RawLocalFileSystem would write no `.crc` files either, but the RocksDB state store of `transitions` fails on it
    # with a ClassCastException.
    # Asynchronous progress tracking stays off: it may replay batches that were written, so nothing is exactly once.
}
"""Settings of checkpoints in the local file system, for sessions on one machine."""

LOCAL: Settings = {
    **CHECKPOINT,
    # Only this machine talks to this session, and its name need not resolve.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Executors live in the driver's process, which gets 1 GB otherwise.
    "spark.driver.memory": "2g",
    # The level of the log can be set only when the session has started; this file silences it before.
    _JAVA_OPTIONS: f'-Dlog4j2.configurationFile="{Path(__file__).with_name("quiet.properties")}"',
    # Some tasks per core; the default of 200 is for clusters, and streams never have it lowered for them.
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
}
"""Settings of a session that runs in one process."""


def session(master: str | None = None, *, name: str = "whimbrel", settings: Settings | None = None) -> SparkSession:
    """The Spark session, started if there is none: on `master`, with the settings above and then those given.

    A session that runs already is returned with the settings of queries changed; the others take effect only at start.
    """
    from pyspark.sql import SparkSession

    check_type("master", master, (str, NoneType), "the address of a master")
    check_type("settings", settings, (Mapping, NoneType), "settings of Spark by name")
    given = dict(settings or {})
    master = given.pop("spark.master", master)
    if master is not None and master.startswith("sc://"):
        _ensure_connect()
        return SparkSession.builder.remote(master).config(map={**QUERY, **given}).getOrCreate()
    ensure_java()
    # Workers run the Python that runs this, unless the environment says where another one is on the cluster's machines.
    for role in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        os.environ.setdefault(role, sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    local = LOCAL if _is_local(master) else {}
    if _JAVA_OPTIONS in given and _JAVA_OPTIONS in local:
        given[_JAVA_OPTIONS] = f"{local[_JAVA_OPTIONS]} {given[_JAVA_OPTIONS]}"
    spark = builder.config(map={**QUERY, **CONTEXT, **local, **given}).getOrCreate()
    if "spark.log.level" not in given:
        # What goes wrong is raised to the caller; the log repeats it for every attempt of every task.
        spark.sparkContext.setLogLevel("OFF")
    return spark


@contextmanager
def running_session(
    master: str | None = None, *, name: str = "whimbrel", settings: Settings | None = None
) -> Iterator[SparkSession]:
    """Use the session that the program has, or start one and stop it at the end."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    spark = active or session(master, name=name, settings=settings)
    try:
        yield spark
    finally:
        if active is None:
            spark.stop()


def _ensure_connect() -> None:
    """Name a missing package of Spark Connect; pyspark would end a program of `python -c` with status 0 instead."""
    for package, module in _CONNECT.items():
        try:
            import_module(module)
        except ImportError as missing:
            raise MissingExtra(package, "spark") from missing


def _is_local(master: str | None) -> bool:
    """Whether the session runs in one process. Without a master Spark's configuration may name a cluster."""
    if master is None:
        return not any(name in os.environ for name in ("MASTER", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"))
    return master == "local" or master.startswith("local[")
