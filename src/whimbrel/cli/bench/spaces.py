"""`whimbrel bench spaces`: transitions per second in subject spaces, or of keyed publications on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whimbrel.cli.bench.options import ScaleChoice
from whimbrel.cli.bench.output import show_with_verdicts
from whimbrel.cli.terminal.console import say
from whimbrel.cli.terminal.options import Json

if TYPE_CHECKING:
    from rich.console import Console


def spaces(
    scale: Annotated[
        ScaleChoice, typer.Option("--scale", help="A minute, or the sizes that targets are for.")
    ] = ScaleChoice.SMALL,
    transitions: Annotated[
        bool, typer.Option("--transitions", help="Keyed publications on Spark instead; needs the extra spark.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="DIR", help="Write spaces.json or transitions.json there.")
    ] = None,
    json: Json = False,
) -> None:
    """Transitions per second in subject spaces: the paper's workload and geofences, beside a compiled scan."""
    from whimbrel.lab.measure.results import no_progress

    progress = no_progress if json else say
    full = scale is ScaleChoice.FULL
    if transitions:
        from whimbrel.lab.measure.pipeline import transitions_bench

        sizes = transitions_bench.FULL if full else transitions_bench.SMALL
        result = transitions_bench.run(sizes, progress=progress)
        show_with_verdicts(result, None if output is None else output / "transitions.json", json, _show_transitions)
        return
    from whimbrel.lab.measure import spaces_bench

    result = spaces_bench.run(spaces_bench.FULL if full else spaces_bench.SMALL, progress)
    show_with_verdicts(result, None if output is None else output / "spaces.json", json, _show)


def _show_transitions(console: Console, result: dict[str, Any]) -> None:
    from rich.table import Table

    sizes = result["sizes"]
    title = f"Transitions on Spark: {sizes['keys']:,} keys, {sizes['filters']:,} filters, medians of micro-batches"
    table = Table("rows", "batches", "notifications", "ms", "CPU ms", "lowest", "highest", "rows/s", title=title)
    for row in result["transitions"]:
        keys = "rows", "batches", "notifications", "ms", "cpu_ms", "lowest_ms", "highest_ms", "rows_per_second"
        table.add_row(*("" if row[key] is None else f"{row[key]:,.0f}" for key in keys))
    console.print(table)


def _show(console: Console, result: dict[str, Any]) -> None:
    from rich.table import Table

    for title, part in (("Workload of the paper", "paper"), ("Geofences", "geofences")):
        table = Table("operation", "notifications", "us", "lowest", "highest", "scan us", "x scan", title=title)
        for row in result[part]:
            scan = row["scan_us"]
            ratio = ("", "") if scan is None else (f"{scan:,.0f}", f"{scan / row['us']:.1f}")
            table.add_row(
                row["what"], f"{row['notifications']:,}", *(f"{row[key]:,.1f}" for key in ("us", "lowest", "highest")),
                *ratio,
            )  # fmt: skip
        console.print(table)
    linear = result["linear"]
    console.print(
        f"Time by transitions: {linear['us_fixed']:,} us + {linear['us_per_transition']} us each, "
        f"correlation {linear['correlation']}. Load average at the end: {result['machine']['load_at_end']}."
    )
