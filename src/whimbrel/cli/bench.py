"""`whimbrel bench`: how fast is it here? Without a name, every benchmark runs."""

from __future__ import annotations

from typing import Annotated

import typer

from whimbrel.cli.options import Json

bench = typer.Typer(help="Measure how fast Whimbrel is on this machine.", rich_markup_mode=None)


@bench.callback(invoke_without_command=True)
def run_all(context: typer.Context) -> None:
    """Measure how fast Whimbrel is on this machine; without a name, run every benchmark."""
    if context.invoked_subcommand is None:
        language()


@bench.command()
def language(
    count: Annotated[int, typer.Option("--count", min=1_000, help="How many filters to read at once.")] = 1_000_000,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="How often; the median is shown.")] = 3,
    json: Json = False,
) -> None:
    """Filters per second from SQL text, with shapes that are known and shapes that are new."""
    from whimbrel.cli.bench_language import run

    run(count, repeats, json)
