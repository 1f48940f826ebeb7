"""`whimbrel lab matchers` and `lab advise`: the algorithms of the papers, and which of them suits a sample."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from whimbrel.cli.terminal.console import print_columns, progress, to_json
from whimbrel.cli.terminal.options import From, Json, Timestamps, names_of
from whimbrel.cli.terminal.rejects import RejectReport


def matchers(json: Json = False) -> None:
    """List every matcher with its paper, the place in it, and what it supports."""
    from whimbrel.lab.catalogue import catalogue

    entries = catalogue()
    if json:
        for entry in entries:
            typer.echo(to_json(asdict(entry)))
        return
    rows = [("matcher", "papers", "section", "supports")]
    rows += [(entry.name, ", ".join(entry.papers), entry.section, entry.scope) for entry in entries]
    print_columns(rows)


def advise(
    subscriptions: Annotated[
        str, typer.Option("--subscriptions", "-s", metavar="FILE", help="File of id, filter and optionally dialect.")
    ],
    events: Annotated[str, typer.Option("--events", "-e", metavar="FILE", help="File of events.")],
    seconds: Annotated[float, typer.Option("--seconds", min=1.0, help="About how long to measure.")] = 30.0,
    most: Annotated[
        int, typer.Option("--most", min=1, help="Use at most this many subscriptions, evenly chosen.")
    ] = 20_000,
    most_events: Annotated[
        int, typer.Option("--most-events", min=1, help="Use at most this many events, evenly chosen.")
    ] = 1_000,
    matcher: Annotated[
        list[str] | None, typer.Option("--matcher", help="Measure only this one and naive; may be repeated.")
    ] = None,
    from_: From = None,
    timestamps: Timestamps = "",
    json: Json = False,
) -> None:
    """Measure every matcher on a sample, recommend one and say why.

    Files are JSON lines, CSV or Parquet. Matchers that refuse a subscription or an event of the sample are listed with
    the reason. Exit status: 0 all good, 1 some input was refused or no matcher takes the sample, 2 wrong usage.
    """
    from whimbrel.lab.advisor import advise as measure
    from whimbrel.lab.advisor import thinned
    from whimbrel.lab.measure.benchmark_results import check_names
    from whimbrel.matchers import MATCHERS
    from whimbrel.readers.events import parse_events
    from whimbrel.readers.subscription_rows import parse_subscriptions

    if subscriptions == events == "-":
        raise typer.BadParameter("Expected - only once, because standard input can be read only once")
    check_names("a matcher", matcher or (), MATCHERS)
    names = names_of(timestamps)
    with RejectReport(json) as report:
        filters = dict(report.accepted("subscription", parse_subscriptions(subscriptions, from_)))
        mentioned = {name for filter in filters.values() for name in filter.attributes}
        found = list(report.accepted("event", parse_events([events], from_, mentioned, names)))
        with progress("Measuring", total=1.0, quiet=json) as bar:
            advice = measure(
                thinned(list(filters.items()), most),
                thinned(found, most_events),
                seconds,
                matcher,
                names,
                lambda name, share: bar.update(share, name),
            )
        typer.echo(to_json(asdict(advice)) if json else advice.text)
        if report.rejected or advice.recommended is None:
            raise typer.Exit(1)
