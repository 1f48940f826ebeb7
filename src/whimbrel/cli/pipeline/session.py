"""The Spark session of a command: its log is kept off the terminal, and it is stopped in any case."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from whimbrel.pipeline.spark.failures import plain_failures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


def check_output(path: str, option: str, overwrite: bool) -> None:
    """Refuse the path of an option if nothing can be written there; a usage error."""
    from whimbrel.pipeline.connectors.staged_outputs import StagedOutputs

    problem = StagedOutputs(overwrite).problem(path)
    if problem is not None:
        raise typer.BadParameter(problem, param_hint=option)


@contextmanager
def running_spark(
    master: str | None, settings: dict[str, str], name: str, quiet: bool = False
) -> Iterator[SparkSession]:
    """A session; what Spark and its workers write goes to a file, which is kept if the command fails.

    In a program that has a session already, that one is used and left running. A wrong schema is a usage error.
    """
    from whimbrel.pipeline.jobs.event_source import BadSchemaText

    with _session(master, settings, name, quiet) as spark:
        try:
            yield spark
        except BadSchemaText as error:
            raise typer.BadParameter(str(error), param_hint="--schema") from None


@contextmanager
def _session(master: str | None, settings: dict[str, str], name: str, quiet: bool) -> Iterator[SparkSession]:
    from whimbrel.pipeline import session  # isort: skip - says what to install if Spark is missing
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        with plain_failures():
            yield active
        return
    number, log = tempfile.mkstemp(prefix="whimbrel-spark-", suffix=".log")
    failed = True
    try:
        with plain_failures(log):
            with _waiting(quiet), _standard_error_to(number):
                spark = session(master, name=name, settings={"spark.log.level": "WARN", **settings})
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
    """Show on the terminal that Spark is starting, by a copy of standard error, which is about to be redirected."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with os.fdopen(os.dup(2), "w") as terminal, Console(file=terminal).status("Starting Spark"):
        yield


@contextmanager
def _standard_error_to(number: int) -> Iterator[None]:
    """Processes that are started inside write their standard error there as long as they live."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(number, 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
