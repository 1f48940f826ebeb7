"""`whimbrel backtest`: what would a filter have matched?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from whimbrel.cli.pipeline.options import Events, EventsFrom, Master, Schema, Settings, SubscriptionsFrom
from whimbrel.cli.terminal.console import plain, say, to_json
from whimbrel.cli.terminal.options import Json, Timestamps, names_of
from whimbrel.model.filter import Filter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from whimbrel.pipeline.connectors.files import InputFormat
    from whimbrel.pipeline.jobs.backtest import Backtest

_BAR = 40
_WIDTH = 160


def backtest(
    filter: Annotated[str, typer.Argument(metavar="FILTER", help="The filter to try, as text.")],
    events: Events,
    subscriptions: Annotated[
        str | None,
        typer.Option("--subscriptions", "-s", metavar="PATH", help="Files of id and filter to compare with."),
    ] = None,
    index: Annotated[
        str | None, typer.Option("--index", metavar="DIR", help="A compiled index to compare with, instead of files.")
    ] = None,
    time: Annotated[
        str | None, typer.Option("--time", metavar="COLUMN", help="The time of an event: hits are counted by its day.")
    ] = None,
    dialect: Annotated[str, typer.Option("--dialect", help="The language of the filter.")] = "sql",
    samples: Annotated[int, typer.Option("--samples", metavar="N", min=0, help="Matches to show.")] = 5,
    overlaps: Annotated[
        int, typer.Option("--overlaps", metavar="N", min=1, help="Subscriptions to show that match the same.")
    ] = 20,
    schema: Schema = None,
    timestamps: Timestamps = "",
    from_: EventsFrom = None,
    subscriptions_from: SubscriptionsFrom = None,
    master: Master = None,
    settings: Settings = None,
    json: Json = False,
) -> None:
    """Try a filter on past events before subscribing with it.

    Shows hits per day, their share of all events, some of them, and which subscriptions match the same events already.
    """
    from whimbrel.cli.pipeline.session import running_spark, settings_of
    from whimbrel.pipeline.connectors.files import recognise
    from whimbrel.pipeline.jobs.event_source import EventInput, read_events

    if subscriptions is not None and index is not None:
        raise typer.BadParameter("Expected either --subscriptions or --index, but got both")
    Filter.parse(filter, dialect)  # a mistake is shown before Spark is started
    source = EventInput(events, recognise(events, from_), [], schema)
    with running_spark(master, settings_of(settings), "whimbrel backtest", json) as spark:
        from whimbrel.pipeline import backtest as run

        read = read_events(spark, source)
        others, refused = _others(spark, subscriptions, index, subscriptions_from)
        result = run(
            filter, read.valid, others, dialect=dialect, time=time, json=read.json, timestamps=names_of(timestamps),
            samples=samples, overlaps=overlaps,
        )  # fmt: skip
        dead = None if read.dead_letters is None else read.dead_letters.count()
        refused_rows = 0 if refused is None else refused.count()
    if json:
        more = {"refused_events": dead or 0, "refused_subscriptions": result.rejected + refused_rows}
        typer.echo(to_json({**result.to_dict(), **more}))
        return
    _show(result)
    for count, what in ((dead, "events"), (result.rejected + refused_rows, "subscriptions")):
        if count:
            say(f"{count:,} {what} were refused and left out")


def _others(
    spark: SparkSession, subscriptions: str | None, index: str | None, format: InputFormat | None
) -> tuple[DataFrame | str | None, DataFrame | None]:
    """The subscriptions or the index to compare with, and the rows of a file that are no subscriptions."""
    if subscriptions is None:
        return index, None
    from whimbrel.pipeline.connectors.subscription_files import read_subscriptions

    found = read_subscriptions(spark, subscriptions, format)
    return found.rows, found.refused


def _show(result: Backtest) -> None:
    typer.echo(plain(f"{result.filter}\nmatches {result.hits:,} of {result.events:,} events ({result.share:.2%})"))
    if result.days:
        typer.echo("\nhits per day:")
        most = max(1, *(day.hits for day in result.days))
        width = len(f"{most:,}")
        for day in result.days:
            share = day.hits / day.events if day.events else 0
            bar = "#" * round(_BAR * day.hits / most)
            typer.echo(
                f"  {day.day or 'no time   '}  {day.hits:>{width},} of {day.events:,} ({share:.2%})  {bar}".rstrip()
            )
    if result.samples:
        typer.echo("\nsome of them:")
        for event in result.samples:
            typer.echo("  " + plain(event if len(event) <= _WIDTH else event[:_WIDTH] + "..."))
    if result.subscriptions is not None:
        _show_overlaps(result)


def _show_overlaps(result: Backtest) -> None:
    share = f" ({result.known / result.hits:.2%})" if result.known and result.hits else ""
    typer.echo(f"\n{result.known:,} of the hits{share} match one of {result.subscriptions:,} subscriptions already")
    for overlap in result.overlaps:
        shared = f"{overlap.hits:,} hits ({overlap.hits / result.hits:.2%})"
        typer.echo(plain(f"  {overlap.subscription}: {shared}, {_WORDS[overlap.relation]}: {overlap.filter}"))


_WORDS = {
    "same": "the same filter",
    "covers": "covers it",
    "covered by": "is covered by it",
    "overlaps": "overlaps",
}
