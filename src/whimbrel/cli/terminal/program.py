"""How a program ends when something goes wrong."""

from __future__ import annotations

import os
import sys

import typer

from whimbrel.cli.terminal.console import say, say_json
from whimbrel.model.errors import WhimbrelError


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
