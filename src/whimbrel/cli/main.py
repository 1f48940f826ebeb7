"""The program `whimbrel`: all of its commands. Each is imported without anything heavy, so that help is fast."""

from __future__ import annotations

import typer

from whimbrel.cli.bench.group import bench
from whimbrel.cli.commands.explain import explain
from whimbrel.cli.commands.lab import lab
from whimbrel.cli.commands.lint import lint
from whimbrel.cli.commands.match import match
from whimbrel.cli.commands.schema import schema
from whimbrel.cli.commands.spaces import spaces
from whimbrel.cli.commands.version import version
from whimbrel.cli.commands.warm import warm
from whimbrel.cli.demo.command import demo
from whimbrel.cli.pipeline.backtest import backtest
from whimbrel.cli.pipeline.group import pipeline
from whimbrel.cli.terminal.program import run_program

app = typer.Typer(
    name="whimbrel",
    help="Which of many standing queries does each event match?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (match, explain, lint, backtest, demo, spaces, warm, version):
    app.command()(command)
app.add_typer(bench, name="bench")
app.add_typer(lab, name="lab")
app.add_typer(pipeline, name="pipeline")
app.add_typer(schema, name="schema")


def main() -> None:
    """Run the program `whimbrel`."""
    run_program(app)


if __name__ == "__main__":
    main()
