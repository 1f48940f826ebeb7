"""The Spark session of a command: started with its log kept off the terminal, stopped whatever happens."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from whimbrel.cli.pipeline.errors import spoken_plainly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where Spark runs and how it is set."""

    master: str | None
    settings: dict[str, str]


def settings_of(options: list[str] | None) -> dict[str, str]:
    """The settings of `--settings NAME=VALUE`."""
    found = {}
    for option in options or []:
        name, equals, value = option.partition("=")
        if not equals or not name.startswith("spark."):
            problem = f"Expected NAME=VALUE with a name that begins with 'spark.', but got {option!r}"
            raise typer.BadParameter(problem, param_hint="--settings")
        found[name] = value
    return found


@contextmanager
def running_spark(cluster: Cluster, name: str, quiet: bool = False) -> Iterator[SparkSession]:
    """A session; what Spark and its workers write goes to a file, which is kept if the command fails.

    In a program that has a session already, that one is used and left running.
    """
    from pyspark.sql import SparkSession

    from whimbrel.pipeline import session  # says what to install if it is not there

    active = SparkSession.getActiveSession()
    if active is not None:
        with spoken_plainly():
            yield active
        return
    number, log = tempfile.mkstemp(prefix="whimbrel-spark-", suffix=".log")
    settings = {"spark.log.level": "WARN", **cluster.settings}
    failed = True
    try:
        with spoken_plainly(log):
            with _waiting(quiet), _standard_error_to(number):
                spark = session(cluster.master, name=name, settings=settings)
            try:
                yield spark
            finally:
                spark.stop()
        failed = False
    except typer.Exit:
        failed = False
        raise
    finally:
        os.close(number)
        if not failed or not Path(log).stat().st_size:
            Path(log).unlink(missing_ok=True)


@contextmanager
def _waiting(quiet: bool) -> Iterator[None]:
    """Say on the terminal that Spark is starting; the standard error of now, as it is about to lead elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with os.fdopen(os.dup(2), "w") as terminal, Console(file=terminal).status("Starting Spark"):
        yield


@contextmanager
def _standard_error_to(number: int) -> Iterator[None]:
    """What is started inside writes its errors there, for as long as it lives."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(number, 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
