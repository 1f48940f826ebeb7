"""`whimbrel schema`: check, show and compare schemas, infer one from events, fetch and extend that of a broker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whimbrel.cli.broker.options import DEFAULT_URL, Authority, TokenOption, Url, connect
from whimbrel.cli.terminal.console import plain, progress, say, say_json, to_json
from whimbrel.cli.terminal.options import From, Json, OnErrorOption, Rejects, names_of
from whimbrel.cli.terminal.outputs import check_outputs, text_output
from whimbrel.cli.terminal.rejects import OnError, RejectReport, Stopped

if TYPE_CHECKING:
    from whimbrel.model.schema import Schema
    from whimbrel.readers.source import Format

schema = typer.Typer(help="Schemas: what events look like.", no_args_is_help=True, rich_markup_mode=None)

SchemaFile = Annotated[Path, typer.Argument(metavar="SCHEMA", help="A schema in TOML, or in JSON if its name ends so.")]


@schema.command()
def check(
    file: SchemaFile,
    events: Annotated[list[str] | None, typer.Argument(metavar="[EVENTS]...", help="Files of events.")] = None,
    subscriptions: Annotated[
        str | None, typer.Option("--subscriptions", "-s", metavar="FILE", help="File of subscriptions.")
    ] = None,
    rejects: Rejects = None,
    on_error: OnErrorOption = OnError.SKIP,
    from_: From = None,
    json: Json = False,
) -> None:
    """Check a schema, and by it the filters of subscriptions and events.

    Tells every problem: definitions that do not hold together, filters that do not fit with the place in their text,
    events with all rules that they break.

    Exit status: 0 if all is good, 1 if not.
    """
    check_outputs({"--rejects": rejects}, [file, subscriptions, *(events or ())])
    loaded = _load(file)
    counts = {"types": len(loaded.types), "attributes": len(loaded.attributes)}
    with RejectReport(json, on_error, rejects) as report:
        try:
            if subscriptions is not None:
                counts["subscriptions"] = _check_subscriptions(loaded, subscriptions, from_, report)
            if events:
                counts["events"] = _check_events(loaded, events, from_, report)
        except Stopped:
            pass
        report.finish(dict(counts), ", ".join(f"{count:,} {name}" for name, count in counts.items()))


@schema.command()
def show(
    file: SchemaFile,
    types: Annotated[
        str, typer.Option("--view", metavar="A,B", help="Show what an event of all of these types has.")
    ] = "",
    json: Json = False,
) -> None:
    """Show a schema in full, or the view of some event types."""
    from whimbrel.model.schema.documents import to_text

    loaded = _load(file)
    if not types:
        typer.echo(to_text(loaded.to_document(), json), nl=False)
        return
    view = loaded.view(names_of(types))
    if json:
        typer.echo(to_json({name: str(use) for name, use in view.items()}))
        return
    width = max(map(len, view), default=0)
    for name, use in view.items():
        typer.echo(plain(f"{name.ljust(width)}  {str(use).ljust(18)}  {loaded.attributes[name]}"))


@schema.command()
def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="The older schema.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The newer schema.")],
    json: Json = False,
) -> None:
    """Show what changes from one schema to another.

    Exit status: 0 if the newer one extends the older (all that was valid stays valid), 1 if not.
    """
    changes = _load(old).diff(_load(new))
    for change in changes:
        typer.echo(to_json(change.to_dict()) if json else plain(str(change)))
    extends = all(change.is_extension for change in changes)
    if json:
        say_json({"changes": len(changes), "extension": extends})
    elif not extends:
        say(f"{new} does not extend {old}")
    raise typer.Exit(0 if extends else 1)


@schema.command()
def infer(
    events: Annotated[list[str], typer.Argument(metavar="EVENTS...", help="Files of events; - is standard input.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where the schema goes (default: standard output)."),
    ] = None,
    type_attribute: Annotated[
        str, typer.Option("--type-attribute", metavar="NAME", help="The attribute that holds the types.")
    ] = "event_type",
    default_type: Annotated[
        str, typer.Option("--default-type", metavar="NAME", help="The type of events that name none.")
    ] = "event",
    values: Annotated[
        int, typer.Option("--values", min=0, help="Enumerate the values of texts with at most this many.")
    ] = 0,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Look at no more events than this.")] = 100_000,
    from_: From = None,
    json: Json = False,
) -> None:
    """Infer a schema from a sample of events.

    All of them are valid in it.
    """
    from itertools import islice

    from whimbrel.model.schema import Schema
    from whimbrel.model.schema.documents import to_text
    from whimbrel.readers.events import read_events

    check_outputs({"--output": output}, events)
    with RejectReport(json) as report:
        sample = (event for batch in report.accepted("event", read_events(events, from_)) for event in batch.each())
        found = Schema.infer(islice(sample, limit), type_attribute, default_type, values)
        as_json = json if output is None or str(output) == "-" else output.name.endswith(".json")
        with text_output(output) as stream:
            stream.write(to_text(found.to_document(), as_json))
        if report.rejected:
            raise typer.Exit(1)


@schema.command()
def fetch(url: Url = DEFAULT_URL, token: TokenOption = None, ca: Authority = None, json: Json = False) -> None:
    """Print the schema of a broker.

    With its extensions, as a file that `serve --schema` takes.
    """
    from whimbrel.model.schema.documents import to_text

    with connect(url, token, ca) as client:
        typer.echo(to_text(client.schema(), json), nl=False)


@schema.command()
def extend(
    file: Annotated[Path, typer.Argument(metavar="SCHEMA", help="What is to be there, in TOML or JSON.")],
    url: Url = DEFAULT_URL,
    token: TokenOption = None,
    ca: Authority = None,
    json: Json = False,
) -> None:
    """Extend the schema of a broker by what a file has.

    All that it has not yet is added, or nothing. A file may hold new domains, attributes and types alone. Needs a
    token with the scope `schema`.
    """
    from whimbrel.model.schema import documents
    from whimbrel.model.schema.diff import missing_extensions

    wanted = documents.load(file)
    if not isinstance(wanted, Mapping):
        raise typer.BadParameter(f"Expected a table of domains, attributes and types - at {file}")
    with connect(url, token, ca) as client:
        extensions = missing_extensions(client.schema(), wanted)
        offsets = [offset for offset in client.extend_schema(extensions) if offset is not None] if extensions else []
    if json:
        say_json({"extensions": len(offsets), "offsets": offsets})
    else:
        say(f"whimbrel: {len(offsets):,} extensions")


def _load(file: Path) -> Schema:
    from whimbrel.model.schema import Schema

    return Schema.load(file)


def _check_subscriptions(schema: Schema, file: str, fallback: Format | None, report: RejectReport) -> int:
    """Report the subscriptions that do not fit the schema. Return how many subscriptions were read."""
    from whimbrel.readers.errors import InputError
    from whimbrel.readers.subscription_rows import parse_filter, read_subscriptions

    count = 0
    with progress("Checking subscriptions", quiet=report.json) as bar:
        for place, item in read_subscriptions(file, fallback):
            if isinstance(item, InputError):
                report.reject("subscription", item)
                continue
            count += 1
            found = parse_filter(place, item, schema)
            if isinstance(found, InputError):
                report.reject("subscription", found)
            if count % 1_000 == 0:
                bar.update(count, f"{count:,}")
    return count


def _check_events(schema: Schema, files: list[str], fallback: Format | None, report: RejectReport) -> int:
    """Report the events that are not valid in the schema. Return how many events were read."""
    from whimbrel.model.errors import WhimbrelError
    from whimbrel.readers.errors import RefusedInput
    from whimbrel.readers.events import read_events

    count = 0
    with progress("Checking events", quiet=report.json) as bar:
        for batch in report.accepted("event", read_events(files, fallback)):
            for place, event in enumerate(batch.each()):
                try:
                    schema.read(event)
                except WhimbrelError as error:
                    report.reject("event", RefusedInput(batch.place(place), error, batch.text(place)))
            count += len(batch)
            bar.update(count, f"{count:,}")
    return count
