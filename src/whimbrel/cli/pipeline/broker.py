"""`whimbrel pipeline broker`: match the events of a broker on Spark."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import Annotated

import typer

from whimbrel.cli.broker.options import DEFAULT_URL, Authority, TokenOption, Url
from whimbrel.cli.pipeline import options
from whimbrel.cli.pipeline.job_display import JobDisplay
from whimbrel.cli.pipeline.session import running_spark, settings_of
from whimbrel.cli.terminal.console import say, to_json
from whimbrel.cli.terminal.options import Json


def broker(
    url: Url = DEFAULT_URL,
    token: TokenOption = None,
    ca: Authority = None,
    pinned: Annotated[
        bool, typer.Option("--pinned", help="The certificate of --ca is the broker's own, whatever its name says.")
    ] = False,
    log: Annotated[
        str | None,
        typer.Option("--log", metavar="DIR", help="Read the log from here, on the broker's host, not over HTTP."),
    ] = None,
    index: Annotated[
        str | None,
        typer.Option("--index", metavar="DIR", help="Where the index is compiled to; all workers must see it."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Stop when nothing waits.")] = False,
    supervised: Annotated[bool, typer.Option("--supervised", hidden=True, help="End with standard input.")] = False,
    master: options.Master = None,
    settings: options.Settings = None,
    json: Json = False,
) -> None:
    """Match the events of a broker on Spark.

    The broker runs with --engine spark, and gets the match lists; `whimbrel serve --engine spark` starts this by
    itself. The token needs the scope match. Any number may run: the broker takes each range once.
    """
    from whimbrel.pipeline.connectors.log_place import BrokerAddress, LogPlace
    from whimbrel.pipeline.jobs.broker_job import BrokerJob, run_broker_job

    if supervised:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    address = BrokerAddress(url, token, ca, pinned)
    place = LogPlace(address if log is None else str(Path(log).absolute()))
    with tempfile.TemporaryDirectory(prefix="whimbrel-broker-index-") as scratch:
        job = BrokerJob(address, place, Path(index or scratch).absolute() / "versions", once)
        with running_spark(master, settings_of(settings), "whimbrel pipeline broker", json) as spark:
            summary = run_broker_job(spark, job, JobDisplay(spark, json))
    counts = {"batches": summary.batches, "entries": summary.events, "pairs": summary.pairs}
    if json:
        typer.echo(to_json(counts))
    else:
        say(f"{summary.batches:,} ranges with {summary.events:,} entries matched, {summary.pairs:,} pairs")


def _end_with_parent() -> None:
    """End this process when its standard input is closed; Spark's other processes then end by themselves."""
    while sys.stdin.buffer.read(1):
        pass
    os._exit(1)
