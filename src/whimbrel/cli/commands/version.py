"""`whimbrel version`: which version this is, and on what it runs."""

from __future__ import annotations

import platform
from importlib.metadata import version as version_of

import typer

from whimbrel.cli.terminal.console import to_json
from whimbrel.cli.terminal.options import Json

_PARTS = ("pyarrow", "numba", "numpy")


def print_version(wanted: bool) -> None:
    """Print the version and end the program, if that is wanted."""
    if wanted:
        version()
        raise typer.Exit


def version(json: Json = False) -> None:
    """Print the version."""
    versions = {"whimbrel": version_of("whimbrel"), "python": platform.python_version()}
    versions |= {name: version_of(name) for name in _PARTS}
    if json:
        typer.echo(to_json(versions))
        return
    typer.echo(f"whimbrel {versions.pop('whimbrel')}")
    typer.echo(", ".join(f"{name} {number}" for name, number in versions.items()))
