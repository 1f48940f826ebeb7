"""`whimbrel pipeline explain`: how a run would match."""

from __future__ import annotations

from typing import Annotated

import typer

from whimbrel.cli.pipeline.options import (
    Config,
    Events,
    EventsFrom,
    Form,
    FormOption,
    Key,
    Master,
    PlanChoice,
    PlanOption,
    Schema,
    Settings,
)
from whimbrel.cli.terminal.options import names_of


def explain(
    events: Events,
    subscriptions: Annotated[
        str, typer.Option("--index", "--subscriptions", "-s", metavar="DIR", help="The directory of a compiled index.")
    ],
    config: Config = None,
    key: Key = "",
    form: FormOption = Form.PAIRS,
    plan: PlanOption = PlanChoice.AUTO,
    schema: Schema = None,
    from_: EventsFrom = None,
    master: Master = None,
    settings: Settings = None,
) -> None:
    """Show how `run` would match: the index version, the plan and why, and the columns that are read."""
    from whimbrel.cli.pipeline.session import running_spark, settings_of
    from whimbrel.pipeline.connectors.files import recognise
    from whimbrel.pipeline.jobs.event_source import EventSource, read_events

    source = EventSource(events, recognise(events, from_), list(names_of(key)) or None, schema)
    with running_spark(master, settings_of(settings), "whimbrel pipeline explain") as spark:
        from whimbrel.pipeline import explain as explain_match

        read = read_events(spark, source)
        text = explain_match(read.valid, subscriptions, key=read.key, form=form.value, plan=plan.value, json=read.json)
    typer.echo(text)
