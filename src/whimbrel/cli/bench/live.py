"""What `whimbrel bench live` shows: calls and their times, saving and opening, and what came of the targets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from whimbrel.cli.bench.results import finish
from whimbrel.cli.terminal.console import say

if TYPE_CHECKING:
    from rich.console import Console


def measure(scale: str, output: Path | None, json: bool) -> dict[str, Any]:
    """Run, write `live.json` where asked, and show the tables or the JSON."""
    from whimbrel.lab.measure.live_changes import FULL, SMALL, run

    result = run(FULL if scale == "full" else SMALL, (lambda text: None) if json else say)
    return finish(result, output, "live.json", json, _show)


def _show(console: Console, result: dict[str, Any]) -> None:
    from rich.table import Table

    sizes = result["sizes"]
    title = f"An index of {sizes['subscriptions']:,} (near misses: {sizes['missed']:,}), us per call"
    table = Table("call", "calls", "median", "highest", "mean, merges included", title=title)
    for row in result["calls"]:
        table.add_row(row["what"], f"{row['calls']:,}", *(f"{row[key]:,.1f}" for key in ("median", "highest", "mean")))
    console.print(table)
    kept = ", ".join(f"{name.replace('_', ' ')} {seconds:g}" for name, seconds in result["seconds"].items())
    console.print(f"Seconds: {kept}. Load average at the end: {result['machine']['load_at_end']}.")
