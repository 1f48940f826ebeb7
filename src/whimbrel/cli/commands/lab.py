"""`whimbrel lab`: the algorithms of the papers, and which of them suits a sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from whimbrel.cli.terminal.console import progress, to_json
from whimbrel.cli.terminal.options import From, Json, Timestamps, names_of
from whimbrel.cli.terminal.rejects import RejectReport

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from whimbrel.model.event import Event
    from whimbrel.model.filter import Filter
    from whimbrel.model.subscription import Id
    from whimbrel.readers.source import Format

T = TypeVar("T")

lab = typer.Typer(help="The matchers of the papers, side by side.", no_args_is_help=True, rich_markup_mode=None)


@lab.command()
def matchers(json: Json = False) -> None:
    """List every matcher with the section of the digest that it follows and what it supports."""
    from whimbrel.lab.catalogue import catalogue

    entries = catalogue()
    if json:
        for entry in entries:
            typer.echo(to_json(entry.to_dict()))
        return
    rows = [("matcher", "papers", "section", "supports")]
    rows += [(entry.name, ", ".join(entry.papers), entry.section, entry.scope) for entry in entries]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        typer.echo("  ".join([*cells, row[3]]))


@lab.command()
def advise(
    subscriptions: Annotated[
        str, typer.Option("--subscriptions", "-s", metavar="FILE", help="File of id, filter and optionally dialect.")
    ],
    events: Annotated[str, typer.Option("--events", "-e", metavar="FILE", help="File of events.")],
    seconds: Annotated[float, typer.Option("--seconds", min=1.0, help="About how long to measure.")] = 30.0,
    most: Annotated[
        int, typer.Option("--most", min=1, help="At most so many subscriptions; more are thinned out evenly.")
    ] = 20_000,
    most_events: Annotated[
        int, typer.Option("--most-events", min=1, help="At most so many events; more are thinned out evenly.")
    ] = 1_000,
    member: Annotated[
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
    from whimbrel.matchers import MATCHERS

    if subscriptions == events == "-":
        raise typer.BadParameter("Expected - only once, because standard input can be read only once")
    for name in member or ():
        if name not in MATCHERS:
            raise typer.BadParameter(f"Expected a matcher of {', '.join(MATCHERS)}, but got {name!r}")
    names = names_of(timestamps)
    with RejectReport(json) as report:
        filters = _read_filters(subscriptions, from_, report)
        mentioned = {name for _, filter in filters for name in filter.attributes}
        found = _read_events(events, from_, mentioned, names, report)
        with progress("Measuring", total=1.0, quiet=json) as bar:
            advice = measure(
                _thinned(filters, most),
                _thinned(found, most_events),
                seconds,
                member,
                names,
                lambda name, share: bar.update(share, name),
            )
        typer.echo(to_json(advice.to_dict()) if json else advice.text)
        if report.rejected or advice.recommended is None:
            raise typer.Exit(1)


def _read_filters(file: str, fallback: Format | None, report: RejectReport) -> list[tuple[Id, Filter]]:
    from whimbrel.model.errors import WhimbrelError
    from whimbrel.model.filter import Filter
    from whimbrel.readers.errors import InputError, RefusedInput
    from whimbrel.readers.subscriptions import read_subscriptions

    out: dict[Id, Filter] = {}
    for place, item in read_subscriptions(file, fallback):
        if isinstance(item, InputError):
            report.reject("subscription", item)
            continue
        try:
            filter = Filter.parse(item.filter, item.dialect)
            filter.conjunctions  # noqa: B018 - expands the filter, which may pass a limit
        except WhimbrelError as error:
            report.reject("subscription", RefusedInput(place, error, str(item.filter)))
            continue
        out[item.id] = filter
    return list(out.items())


def _read_events(
    file: str, fallback: Format | None, attributes: Collection[str], timestamps: tuple[str, ...], report: RejectReport
) -> list[Event]:
    from whimbrel.model.errors import WhimbrelError
    from whimbrel.model.event_tables import read_events as to_events
    from whimbrel.readers.errors import InputError, RefusedInput
    from whimbrel.readers.events import read_events

    out: list[Event] = []
    for batch in read_events([file], fallback, attributes):
        if isinstance(batch, InputError):
            report.reject("event", batch)
            continue
        try:
            out += list(to_events(batch.events, attributes, timestamps))
            continue
        except WhimbrelError:
            pass  # some event of the batch: look at them one by one
        for row in range(len(batch)):
            try:
                out += list(to_events(batch.slice(row, row + 1).events, attributes, timestamps))
            except WhimbrelError as error:
                report.reject("event", RefusedInput(batch.place(row), error, batch.text(row)))
    return out


def _thinned(items: Sequence[T], most: int) -> list[T]:
    if len(items) <= most:
        return list(items)
    return [items[place * len(items) // most] for place in range(most)]
