"""`whimbrel bench live`: how fast a large index changes, is saved and opened, and finds near misses."""

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


def live(
    scale: Annotated[
        ScaleChoice, typer.Option("--scale", help="A minute, or the sizes that targets are for.")
    ] = ScaleChoice.SMALL,
    output: Annotated[Path | None, typer.Option("--output", metavar="DIR", help="Write live.json there.")] = None,
    json: Json = False,
) -> None:
    """Microseconds to change a large index and to match meanwhile, seconds to save and open it; near misses."""
    from whimbrel.lab.measure.live_changes import FULL, SMALL, run
    from whimbrel.lab.measure.results import no_progress

    result = run(FULL if scale is ScaleChoice.FULL else SMALL, no_progress if json else say)
    show_with_verdicts(result, None if output is None else output / "live.json", json, _show)


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
