"""`whimbrel bench language`: how fast filters are read from text."""

from __future__ import annotations

import json as json_module
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from whimbrel.cli.bench.output import show
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
    from whimbrel.lab.measure.results import ResultTable

    rows = []
    for one in figures:
        numbers = (f"{number:,.0f}" for number in (one["median"], one["lowest"], one["highest"]))
        rows.append((one["name"], one["unit"], one["aim"], *numbers))
    show([ResultTable("Reading filters", ("what", "unit", "aim", "median", "lowest", "highest"), tuple(rows))])
