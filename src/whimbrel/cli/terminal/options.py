"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whimbrel.cli.terminal.rejects import OnError
from whimbrel.compiled.warm_up import be_quiet
from whimbrel.readers.source import Format


def _for_machines(json: bool) -> bool:
    """Keep everything but JSON off standard error."""
    if json:
        be_quiet()
    return json


Json = Annotated[
    bool, typer.Option("--json", callback=_for_machines, help="For machines: summary and errors as JSON lines.")
]
From = Annotated[
    Format | None, typer.Option("--from", help="Format of input whose name does not tell (default: jsonl).")
]
OnErrorOption = Annotated[
    OnError, typer.Option("--on-error", help="What to do with input that is refused: skip it or stop there.")
]
Rejects = Annotated[
    Path | None,
    typer.Option("--rejects", metavar="FILE", help="Write what was refused, and why, to FILE as JSON lines."),
]
Timestamps = Annotated[
    str, typer.Option("--timestamps", metavar="A,B", help="Attributes whose strings are timestamps.")
]
SchemaOption = Annotated[
    Path | None,
    typer.Option("--schema", metavar="FILE", help="A schema that filters must fit and events must be valid in."),
]


def names_of(option: str) -> tuple[str, ...]:
    """The names of a comma-separated list."""
    return tuple(name for part in option.split(",") if (name := part.strip()))
