"""`whimbrel version` and `whimbrel warm`: what is installed, and compiling all of it now."""

from __future__ import annotations

import platform
import time

import typer

from whimbrel.cli.terminal.console import say, to_json
from whimbrel.cli.terminal.options import Json

_LIBRARIES = ("pyarrow", "numba", "numpy")


def print_version(wanted: bool) -> None:
    """Print the version and end the program, if that is wanted."""
    if wanted:
        version()
        raise typer.Exit


def version(json: Json = False) -> None:
    """Print the version."""
    from importlib.metadata import version as version_of

    versions = {"whimbrel": version_of("whimbrel"), "python": platform.python_version()}
    versions |= {name: version_of(name) for name in _LIBRARIES}
    if json:
        typer.echo(to_json(versions))
        return
    typer.echo(f"whimbrel {versions.pop('whimbrel')}")
    typer.echo(", ".join(f"{name} {number}" for name, number in versions.items()))


def warm() -> None:
    """Compile every kernel now, so that no first use waits.

    For images, and before a service starts.
    Compiled code is kept in NUMBA_CACHE_DIR if that is set, else beside the library or in the user's cache.
    """
    from whimbrel.lab.warm_all import warm_up

    started = time.perf_counter()
    warm_up(say)
    say(f"all kernels are compiled ({time.perf_counter() - started:.0f} s)")
