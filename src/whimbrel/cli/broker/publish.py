"""`whimbrel publish`: send events to a broker."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from whimbrel.cli.broker.options import DEFAULT_URL, Authority, TokenOption, Url, connect, read_object
from whimbrel.cli.terminal.console import plain, say, say_json
from whimbrel.cli.terminal.options import Json


def publish(
    events: Annotated[str, typer.Argument(metavar="EVENTS", help="JSON lines: a file, or - for standard input.")] = "-",
    url: Url = DEFAULT_URL,
    token: TokenOption = None,
    ca: Authority = None,
    batch: Annotated[int, typer.Option("--batch", min=1, max=10_000, help="Events of one request.")] = 100,
    source: Annotated[str, typer.Option("--source", help="The source of events that name none.")] = "whimbrel-cli",
    json: Json = False,
) -> None:
    """Publish events to a broker.

    They are CloudEvents, or objects that become the data of one.
    Ends when everything is on the broker's disk. Exit status: 1 if some event was refused.
    """
    taken = repeated = refused = 0
    with connect(url, token, ca, source) as client:
        lines = _read(events)
        while group := list(islice(lines, batch)):
            for result in client.publish(group):
                taken += result.error is None and not result.duplicate
                repeated += result.duplicate
                if result.error is not None:
                    refused += 1
                    message = str(result.error["message"])
                    if json:
                        say_json({"refused": message})
                    else:
                        say(f"refused: {plain(message)}")
    counts = {"published": taken, "duplicates": repeated, "refused": refused}
    if json:
        say_json(counts)
    else:
        say(f"{taken:,} published, {repeated:,} were there before, {refused:,} refused")
    raise typer.Exit(1 if refused else 0)


def _read(path: str) -> Iterator[dict[str, Any]]:
    """The objects of a file, line by line."""
    stream = sys.stdin.buffer if path == "-" else Path(path).open("rb")  # noqa: SIM115
    with stream:
        for number, line in enumerate(stream, 1):
            if line.strip():
                yield read_object(line, f" in line {number}")
