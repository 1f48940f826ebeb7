"""`whimbrel explain`: why does an event match a subscription, or why not?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from whimbrel.cli.terminal.console import plain, to_json
from whimbrel.cli.terminal.options import From, Json, SchemaOption, Timestamps, names_of
from whimbrel.cli.terminal.rejects import RejectReport
from whimbrel.model.errors import UnknownId
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter

if TYPE_CHECKING:
    from whimbrel.engine.index import Index
    from whimbrel.model.subscription import Id


def explain(
    event: Annotated[
        str, typer.Argument(metavar="EVENT", help="A JSON object, or a file of events; - is standard input.")
    ],
    subscriptions: Annotated[
        str | None, typer.Option("--subscriptions", "-s", metavar="FILE", help="File of subscriptions.")
    ] = None,
    id: Annotated[str | None, typer.Option("--id", help="The subscription to explain.")] = None,
    filter: Annotated[
        str | None, typer.Option("--filter", metavar="TEXT", help="A filter to explain, instead of a file.")
    ] = None,
    row: Annotated[int, typer.Option("--row", min=0, help="Which event of the file, from 0.")] = 0,
    limit: Annotated[int, typer.Option("--limit", min=0, help="How many near misses to show.")] = 10,
    from_: From = None,
    timestamps: Timestamps = "",
    schema: SchemaOption = None,
    json: Json = False,
) -> None:
    """Explain why an event matches, or why not.

    Shows every constraint of the filter or subscription, + where it held and - where it did not, with the values
    seen. With --subscriptions alone, lists the subscriptions that the event matches and those it misses by least.
    """
    from whimbrel.cli.terminal.loading import load_index
    from whimbrel.model.schema import Schema
    from whimbrel.readers.events import read_event

    if (subscriptions is None) == (filter is None):
        raise typer.BadParameter("Expected either --subscriptions FILE or --filter TEXT")
    if id is not None and filter is not None:
        raise typer.BadParameter("Expected --id with --subscriptions, but got it with --filter")
    if subscriptions == event == "-":
        raise typer.BadParameter("Expected - only once, because standard input can be read only once")
    if filter is not None:
        typed = None if schema is None else Schema.load(schema)
        parsed = Filter.parse(filter, schema=typed)
        _show_filter(None, parsed, read_event(event, row, from_, names_of(timestamps)), json)
        return
    assert subscriptions is not None
    with RejectReport(json) as report:
        index = load_index(subscriptions, from_, names_of(timestamps), report, schema)
        seen = read_event(event, row, from_, names_of(timestamps))
        if id is None:
            _show_all(index, seen, limit, json)
        else:
            key = _id_of(id, index)
            _show_filter(key, index[key].filter, seen, json)
        if report.rejected:
            raise typer.Exit(1)


def _id_of(text: str, index: Index) -> Id:
    """The id in the kind that the ids of the index have."""
    if isinstance(next(iter(index), 0), str):
        return text
    try:
        return int(text)
    except ValueError:
        raise UnknownId(text) from None


def _show_filter(id: Id | None, filter: Filter, event: Event, json: bool) -> None:
    from whimbrel.model.explain import explain as explain_filter

    explanation = explain_filter(filter, event if filter.schema is None else filter.schema.read(event))
    if json:
        named = {} if id is None else {"subscription": id}
        typer.echo(to_json({**named, "filter": str(filter), **explanation.to_dict()}))
        return
    typer.echo(plain(f"{filter}\n{explanation}" if id is None else f"{id}: {filter}\n{explanation}"))


def _show_all(index: Index, event: Event, limit: int, json: bool) -> None:
    matches = index.match(event)
    misses = index.near_misses(event, limit)
    if json:
        typer.echo(to_json({"matches": matches, "near_misses": [miss.to_dict() for miss in misses]}))
        return
    typer.echo(f"matches {len(matches):,} of {len(index):,} subscriptions" + (":" if matches else ""))
    for id in matches:
        typer.echo(plain(f"  {id}"))
    if misses:
        typer.echo("near misses:")
    for miss in misses:
        typer.echo("\n".join(f"  {line}" for line in plain(str(miss)).split("\n")))
