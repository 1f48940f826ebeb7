"""The program `whimbrel`: its commands, and how it ends when something goes wrong."""

from __future__ import annotations

import os
import sys

import typer

from whimbrel.cli.bench.commands import bench
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
from whimbrel.cli.pipeline.commands import pipeline
from whimbrel.cli.terminal.console import say, say_json
from whimbrel.model.errors import WhimbrelError

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
    """Run the command line; errors of the library and of the system end it with a sentence and status 1."""
    try:
        app()
    except BrokenPipeError:  # the reader of our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (WhimbrelError, OSError) as error:
        if "--json" in sys.argv:
            say_json({"error": type(error).__name__, "message": str(error)})
        else:
            say(f"whimbrel: {error}")
        sys.exit(1)


if __name__ == "__main__":
    main()
