"""Clusters of real processes on this machine, and the programs that are run on them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
# Small heaps, the quick compiler and the simple collector: several JVMs share two cores.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_START = 120.0


def free_port() -> int:
    """A port of the loopback interface that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def bare_python(folder: Path) -> Path:
    """An interpreter that has this environment's packages but not Whimbrel, which is installed by a .pth file."""
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    path = folder / "bare-python"
    path.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n')
    path.chmod(0o755)
    return path


@contextmanager
def process(folder: Path, name: str, *command: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of a cluster, stopped by its id; its output is in a file of that name."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    settings = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": JAVA, "SPARK_LOCAL_IP": "127.0.0.1"}
    with (folder / name).open("wb") as log:
        running = subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), *command],
            cwd=folder,
            env={**kept, **settings, **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield running
        finally:
            running.terminate()
            running.wait(30)


def wait_for(running: subprocess.Popen[bytes], log: Path, text: str) -> None:
    """Wait until the process has said something."""
    end = time.monotonic() + _START
    while text not in log.read_text(errors="replace"):
        assert running.poll() is None, log.read_text(errors="replace")
        assert time.monotonic() < end, f"{text!r} is not in {log.read_text(errors='replace')}"
        time.sleep(0.1)


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """A master and a worker of two cores; its URL."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    place = ("--host", "127.0.0.1", "--webui-port", "0")
    package = "org.apache.spark.deploy"
    size = ("--cores", "2", "--memory", "2g", "--work-dir", str(folder / "work"))
    with process(folder, "master.log", f"{package}.master.Master", *place, "--port", str(port)) as master:
        wait_for(master, folder / "master.log", "New state: ALIVE")
        with process(folder, "worker.log", f"{package}.worker.Worker", *place, *size, url) as worker:
            wait_for(worker, folder / "worker.log", "Successfully registered with master")
            yield url


@contextmanager
def connect_server(folder: Path, **environment: str) -> Iterator[str]:
    """A Spark Connect server with two cores; its URL."""
    port = free_port()
    settings = {
        "spark.master": "local[2]",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": JAVA,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.warehouse.dir": str(folder / "tables"),
    }
    options = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    server = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal")
    name = "connect.log"
    command = ("org.apache.spark.deploy.SparkSubmit", *options, *server)
    with process(folder, name, *command, SPARK_DAEMON_MEMORY="1g", **environment) as running:
        wait_for(running, folder / name, "Spark Connect server started")
        yield f"sc://127.0.0.1:{port}"


def run(folder: Path, program: str, **environment: str) -> str:
    """What a program prints that runs in a process of its own, a driver of the cluster."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=folder,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    said = [line for line in done.stderr.splitlines() if not line.startswith("\tat ")]
    assert done.returncode == 0, "\n".join(said[-60:])
    return done.stdout
