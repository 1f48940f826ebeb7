"""What `whimbrel bench spaces` shows: a table per workload, and what came of the targets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from whimbrel.cli.bench.results import finish
from whimbrel.cli.terminal.console import say

if TYPE_CHECKING:
    from rich.console import Console


def measure(scale: str, output: Path | None, json: bool) -> dict[str, Any]:
    """Run, write `spaces.json` where asked, and show the tables or the JSON."""
    from whimbrel.lab.measure.subject_spaces import FULL, SMALL, run

    result = run(FULL if scale == "full" else SMALL, (lambda text: None) if json else say)
    return finish(result, output, "spaces.json", json, _show)


def measure_transitions(scale: str, output: Path | None, json: bool) -> dict[str, Any]:
    """The same for `whimbrel.pipeline.transitions`, with `transitions.json`."""
    from whimbrel.lab.measure.pipeline.transitions_bench import FULL, SMALL, run

    result = run(FULL if scale == "full" else SMALL, progress=(lambda text: None) if json else say)
    return finish(result, output, "transitions.json", json, _show_transitions)


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
