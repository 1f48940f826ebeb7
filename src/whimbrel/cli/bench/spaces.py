"""`whimbrel bench spaces`: transitions per second in subject spaces, or of keyed publications on Spark."""

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
        result: Result = transitions_bench.run(sizes, progress=progress)
        tables, name = [_transitions_table(result)], "transitions.json"
    else:
        from whimbrel.lab.measure import spaces_bench

        result = spaces_bench.run(spaces_bench.FULL if full else spaces_bench.SMALL, progress)
        tables, name = _tables(result), "spaces.json"
    show_with_verdicts(result, tables, None if output is None else output / name, json)


def _transitions_table(result: Result) -> ResultTable:
    from whimbrel.lab.measure.results import ResultTable

    sizes = result["sizes"]
    title = f"Transitions on Spark: {sizes['keys']:,} keys, {sizes['filters']:,} filters, medians of micro-batches"
    columns = ("rows", "batches", "notifications", "ms", "CPU ms", "lowest", "highest", "rows/s")
    keys = ("rows", "batches", "notifications", "ms", "cpu_ms", "lowest_ms", "highest_ms", "rows_per_second")
    rows = (tuple("" if row[key] is None else f"{row[key]:,.0f}" for key in keys) for row in result["transitions"])
    return ResultTable(title, columns, tuple(rows))


def _tables(result: Result) -> list[ResultTable]:
    from whimbrel.lab.measure.results import ResultTable

    columns = ("operation", "notifications", "us", "lowest", "highest", "scan us", "x scan")
    linear = result["linear"]
    note = (
        f"Time by transitions: {linear['us_fixed']:,} us + {linear['us_per_transition']} us each, "
        f"correlation {linear['correlation']}. Load average at the end: {result['machine']['load_at_end']}."
    )
    return [
        ResultTable("Workload of the paper", columns, tuple(map(_cells, result["paper"])), (note,)),
        ResultTable("Geofences", columns, tuple(map(_cells, result["geofences"]))),
    ]


def _cells(row: Result) -> tuple[str, ...]:
    scan = row["scan_us"]
    ratio = ("", "") if scan is None else (f"{scan:,.0f}", f"{scan / row['us']:.1f}")
    times = (f"{row[key]:,.1f}" for key in ("us", "lowest", "highest"))
    return row["what"], f"{row['notifications']:,}", *times, *ratio
