"""The program `whimbrel`: all of its commands. A run imports the one that is asked for, and nothing heavy for help."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from whimbrel.cli.commands.installation import print_version
from whimbrel.cli.terminal.console import say, say_json
from whimbrel.model.errors import WhimbrelError, WrongUsage

if TYPE_CHECKING:
    app: typer.Typer

_HOMES = {
    "match": "commands.match",
    "explain": "commands.explain",
    "lint": "commands.lint",
    "backtest": "pipeline.backtest",
    "demo": "demo.command",
    "spaces": "commands.spaces",
    "warm": "commands.installation",
    "version": "commands.installation",
    "serve": "broker.serve",
    "publish": "broker.publish",
    "subscribe": "broker.subscribe",
    "backup": "broker.backup",
    "restore": "broker.backup",
    "bench": "bench.group",
    "lab": "lab.group",
    "overlay": "overlay.group",
    "publications": "broker.publications",
    "schema": "commands.schema",
    "token": "broker.token",
    "webhook": "broker.webhook",
    "pipeline": "pipeline.group",
}
"""The commands and groups of commands, and the module in which each is found by its name."""
_GC_OBJECTS = 50_000
"""Objects after which the collector of cyclic garbage runs. A tenth of the start of a command goes into its default."""


def program(only: str | None = None) -> typer.Typer:
    """The command line with all commands, or with `only` one of them, which starts 0.1 s sooner."""
    made = typer.Typer(
        name="whimbrel",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    made.callback()(_program)
    for name, home in _HOMES.items():
        if only in (None, name):
            command = getattr(import_module(f"whimbrel.cli.{home}"), name)
            if isinstance(command, typer.Typer):
                made.add_typer(command, name=name)
            else:
                made.command()(command)
    return made


def _program(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Which of many standing queries does each event match?"""


def __getattr__(name: str) -> object:
    if name == "app":
        return program()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main() -> None:
    """Run the program `whimbrel`."""
    gc.set_threshold(_GC_OBJECTS, 20, 100)
    first = sys.argv[1] if len(sys.argv) > 1 else ""
    run_program(program(first if first in _HOMES else None))


def run_program(app: typer.Typer) -> None:
    """Run a command line. Errors of the library and of the system end it with one sentence.

    The status is 1, and 2 for wrong usage.
    """
    sys.stdout = sys.stdout or _nowhere()  # None if it is closed
    sys.stderr = sys.stderr or _nowhere()
    try:
        app()
    except BrokenPipeError:  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (WhimbrelError, OSError) as error:
        if "--json" in sys.argv:
            say_json({"error": type(error).__name__, "message": _sentence(error)})
        else:
            say(f"whimbrel: {_sentence(error)}")
        sys.exit(2 if isinstance(error, WrongUsage) else 1)


def _nowhere() -> IO[str]:
    return Path(os.devnull).open("w", encoding="utf-8")


def _sentence(error: WhimbrelError | OSError) -> str:
    """The error in words: of the system's errors the file comes first, as in those of the library."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: Expected a file or folder that can be used, but got: {error.strerror}"
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__


if __name__ == "__main__":
    main()
