"""`whimbrel bench language`: how fast filters are read from text."""

from __future__ import annotations

import json as json_module
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from whimbrel.cli.terminal.options import Json

if TYPE_CHECKING:
    from whimbrel.lab.measure.filter_parsing import Figure


def language(
    count: Annotated[int, typer.Option("--count", min=1_000, help="How many filters to read at once.")] = 1_000_000,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="How often; the median is shown.")] = 3,
    json: Json = False,
) -> None:
    """Filters per second from SQL text, with shapes that are known and shapes that are new."""
    from whimbrel.lab.measure.filter_parsing import run

    report = run(count, repeats)
    if json:
        sys.stdout.write(json_module.dumps(report, indent=2) + "\n")
    else:
        show_figures(report["figures"])


def show_figures(figures: list[Figure]) -> None:
    """Print a table of figures with their spread."""
    from rich.console import Console
    from rich.table import Table

    table = Table("what", "unit", "aim", "median", "lowest", "highest")
    for figure in figures:
        numbers = (f"{figure['median']:,.0f}", f"{figure['lowest']:,.0f}", f"{figure['highest']:,.0f}")
        table.add_row(figure["name"], figure["unit"], figure["aim"], *numbers)
    Console().print(table)
