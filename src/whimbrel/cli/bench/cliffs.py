"""`whimbrel bench cliffs`: what each form of filter, event and index costs beside its plain neighbour."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whimbrel.cli.bench.output import ScaleChoice, show_with_verdicts
from whimbrel.cli.terminal.console import say
from whimbrel.cli.terminal.options import Json
from whimbrel.lab.measure.results import Result, ResultTable, no_progress, number


def cliffs(
    form: Annotated[
        list[str] | None,
        typer.Option("--form", help="Only forms with this in their name, or loading, or matching; may be repeated."),
    ] = None,
    scale: Annotated[
        ScaleChoice, typer.Option("--scale", help="Minutes, or the sizes that targets are for.")
    ] = ScaleChoice.SMALL,
    output: Annotated[Path | None, typer.Option("--output", metavar="DIR", help="Write cliffs.json there.")] = None,
    json: Json = False,
) -> None:
    """Microseconds of every form of filter, event and index beside its plain neighbour, and which cost above 4 x."""
    from whimbrel.lab.measure.cliffs import FULL, SMALL, run

    result = run(FULL if scale is ScaleChoice.FULL else SMALL, form or (), no_progress if json else say)
    show_with_verdicts(result, _tables(result), None if output is None else output / "cliffs.json", json)


def _tables(result: Result) -> list[ResultTable]:
    note = f"Load average at the end: {result['machine']['load_at_end']}."
    loading = tuple(
        (row["form"], number(row["us"]), row["neighbour"], number(row["neighbour_us"]), *_ratio(row))
        for row in result["rows"]
        if row["kind"] == "loading"
    )
    matching = tuple(
        (
            row["form"], row["way"], number(row["us"]), number(row["matches"]), row["neighbour"],
            number(row["neighbour_us"]), number(row["neighbour_matches"]), *_ratio(row),
        )
        for row in result["rows"]
        if row["kind"] == "matching"
    )  # fmt: skip
    sizes = result["sizes"]
    beside = ("ratio", "per", "above 4 x")
    columns = ("form", "events as", "us", "matches", "beside", "us", "matches", *beside)
    return [
        ResultTable(
            f"Loading {sizes['loaded']:,} filters, CPU us per filter", ("form", "us", "beside", "us", *beside), loading
        ),
        ResultTable(
            f"Matching against {sizes['subscriptions']:,} subscriptions, CPU us per event", columns, matching, (note,)
        ),
    ]


def _ratio(row: Result) -> tuple[str, str, str]:
    return f"{row['ratio']:.2f}", row["per"], "**yes**" if row["is_cliff"] else ""
