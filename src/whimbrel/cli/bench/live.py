"""`whimbrel bench live`: how fast a large index changes, is saved and opened, and finds near misses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whimbrel.cli.bench.options import ScaleChoice
from whimbrel.cli.bench.output import show_with_verdicts
from whimbrel.cli.terminal.console import say
from whimbrel.cli.terminal.options import Json

if TYPE_CHECKING:
    from whimbrel.lab.measure.results import Result, ResultTable


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
    show_with_verdicts(result, [_table(result)], None if output is None else output / "live.json", json)


def _table(result: Result) -> ResultTable:
    from whimbrel.lab.measure.results import ResultTable

    sizes = result["sizes"]
    title = f"An index of {sizes['subscriptions']:,} (near misses: {sizes['missed']:,}), us per call"
    columns = ("call", "calls", "median", "highest", "mean, merges included")
    rows = tuple(
        (row["what"], f"{row['calls']:,}", *(f"{row[key]:,.1f}" for key in ("median", "highest", "mean")))
        for row in result["calls"]
    )
    kept = ", ".join(f"{name.replace('_', ' ')} {seconds:g}" for name, seconds in result["seconds"].items())
    note = f"Seconds: {kept}. Load average at the end: {result['machine']['load_at_end']}."
    return ResultTable(title, columns, rows, (note,))
