"""The group `whimbrel bench`. Without the name of a benchmark, the main ones run one after the other."""

from __future__ import annotations

import typer

from whimbrel.cli.bench.cliffs import cliffs
from whimbrel.cli.bench.parts import language, live, spaces
from whimbrel.cli.bench.races import match, pipeline

bench = typer.Typer(help="Measure how fast Whimbrel is on this machine.", rich_markup_mode=None)


@bench.callback(invoke_without_command=True)
def run_all(context: typer.Context) -> None:
    """Measure how fast Whimbrel is on this machine; without a name, run every benchmark."""
    if context.invoked_subcommand is None:
        language()
        match()
        pipeline()


for command in (language, match, cliffs, live, spaces, pipeline):
    bench.command()(command)
