"""`whimbrel subscribe`: print events as they come."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from whimbrel.cli.broker.options import DEFAULT_URL, Authority, TokenOption, Url, connect
from whimbrel.cli.terminal.console import to_json


def subscribe(
    filter: Annotated[str | None, typer.Argument(metavar="[FILTER]", help="A filter; only events from now on.")] = None,
    id: Annotated[str | None, typer.Option("--id", help="A durable subscription, instead of a filter.")] = None,
    on: Annotated[
        str | None,
        typer.Option("--on", metavar="events|publications", help="What the filter is about (default: events)."),
    ] = None,
    leave: Annotated[bool, typer.Option("--leave", help="On publications: tell of those that cease to match.")] = False,
    url: Url = DEFAULT_URL,
    token: TokenOption = None,
    ca: Authority = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="End after so many events.")] = None,
) -> None:
    """Print what a subscription matches, one per line.

    It is a filter, or a durable subscription.
    Reconnects by itself. A durable subscription goes on behind the last event that was printed.
    """
    if (filter is None) == (id is None):
        raise typer.BadParameter("Expected either a FILTER or --id")
    if id is not None and (on is not None or leave):
        raise typer.BadParameter("Expected --on and --leave only with a FILTER")
    with connect(url, token, ca) as client:
        for printed, message in enumerate(client.subscribe(filter, id=id, on=on, leave=leave), 1):
            sys.stdout.write(to_json(message.event) + "\n")
            sys.stdout.flush()
            if printed == limit:
                if id is not None:
                    client.acknowledge(id, message.cursor)
                return
