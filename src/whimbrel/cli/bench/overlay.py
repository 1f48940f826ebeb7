"""`whimbrel bench overlay`: what routing by prefix saves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whimbrel.cli.bench.output import ScaleChoice, show_with_verdicts
from whimbrel.cli.terminal.console import say
from whimbrel.cli.terminal.options import Json
from whimbrel.lab.measure.results import ResultTable, no_progress


def overlay(
    scale: Annotated[
        ScaleChoice, typer.Option("--scale", help="A minute, or the sizes that targets are for.")
    ] = ScaleChoice.SMALL,
    output: Annotated[Path | None, typer.Option("--output", metavar="DIR", help="Write overlay.json there.")] = None,
    json: Json = False,
) -> None:
    """Work per event with prefixes and as SIENA in one simulation; inserting, matching, forwarding by themselves."""
    from whimbrel.lab.measure.overlay_bench import FULL, SMALL, run

    result = run(FULL if scale is ScaleChoice.FULL else SMALL, no_progress if json else say)
    names = ("work_per_event", "content_matches_per_event", "hops_per_event", "edge_checks", "deliveries")
    tables = [
        ResultTable(
            f"27 routers, {result['sizes']['filters']:,} filters, {result['sizes']['events']:,} events",
            ("", "prefix", "siena"),
            tuple(
                (name.replace("_", " "), *(f"{result[kind][name]:,}" for kind in ("prefix", "siena"))) for name in names
            ),
        ),
        ResultTable(
            "One router",
            ("", ""),
            tuple((name.replace("_", " "), f"{value:,}") for name, value in result["steps"].items()),
        ),
    ]
    show_with_verdicts(result, tables, None if output is None else output / "overlay.json", json)
