"""`whimbrel pipeline explain`: how a run would match."""

from __future__ import annotations

from typing import Annotated

import typer

from whimbrel.cli.pipeline import options
from whimbrel.cli.terminal.options import names_of


def explain(
    events: options.Events,
    subscriptions: Annotated[
        str, typer.Option("--index", "--subscriptions", "-s", metavar="DIR", help="The directory of a compiled index.")
    ],
    config: options.Config = None,
    key: options.Key = "",
    form: options.FormOption = options.Form.PAIRS,
    plan: options.PlanOption = options.PlanChoice.AUTO,
    schema: options.Schema = None,
    from_: options.EventsFrom = None,
    master: options.Master = None,
    settings: options.Settings = None,
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
