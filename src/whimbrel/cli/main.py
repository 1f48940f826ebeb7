"""The program `whimbrel`: all of its commands. Each is imported without anything heavy, so that help is fast."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from whimbrel.cli.bench.group import bench
from whimbrel.cli.broker.backup import backup, restore
from whimbrel.cli.broker.publications import publications
from whimbrel.cli.broker.publish import publish
from whimbrel.cli.broker.schema import extend, fetch
from whimbrel.cli.broker.serve import serve
from whimbrel.cli.broker.subscribe import subscribe
from whimbrel.cli.broker.token import token
from whimbrel.cli.broker.webhook import webhook
from whimbrel.cli.commands.explain import explain
from whimbrel.cli.commands.installation import print_version, version, warm
from whimbrel.cli.commands.lint import lint
from whimbrel.cli.commands.match import match
from whimbrel.cli.commands.schema import schema
from whimbrel.cli.commands.spaces import spaces
from whimbrel.cli.demo.command import demo
from whimbrel.cli.lab.group import lab
from whimbrel.cli.overlay.group import overlay
from whimbrel.cli.pipeline.backtest import backtest
from whimbrel.cli.pipeline.broker import broker
from whimbrel.cli.pipeline.run import explain as explain_pipeline
from whimbrel.cli.pipeline.run import run
from whimbrel.cli.pipeline.versions import compile_, gc
from whimbrel.cli.terminal.console import say, say_json
from whimbrel.model.errors import WhimbrelError

app = typer.Typer(
    name="whimbrel",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Which of many standing queries does each event match?"""


for command in (match, explain, lint, backtest, demo, spaces, warm, version):
    app.command()(command)
for broker_command in (serve, publish, subscribe, backup, restore):
    app.command()(broker_command)
app.add_typer(bench, name="bench")
app.add_typer(lab, name="lab")
app.add_typer(overlay, name="overlay")
schema.command()(fetch)
schema.command()(extend)
app.add_typer(publications, name="publications")
app.add_typer(schema, name="schema")
app.add_typer(token, name="token")
app.add_typer(webhook, name="webhook")
pipeline = typer.Typer(help="Match on Apache Spark: batches and streams.", no_args_is_help=True)
pipeline.command()(run)
pipeline.command("compile")(compile_)
pipeline.command()(explain_pipeline)
pipeline.command()(gc)
pipeline.command()(broker)
app.add_typer(pipeline, name="pipeline")


def main() -> None:
    """Run the program `whimbrel`."""
    run_program(app)


def run_program(app: typer.Typer) -> None:
    """Run a command line. Errors of the library and of the system end it with one sentence and status 1."""
    try:
        app()
    except BrokenPipeError:  # the reader of our output has closed it
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
