"""What `whimbrel bench spaces` shows: a table per workload, and what came of the targets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from whimbrel.cli.console import say, to_json


def measure(scale: str, output: Path | None, json: bool) -> dict[str, Any]:
    """Run, write `spaces.json` where asked, and show the tables or the JSON."""
    from whimbrel.lab.bench.spaces import FULL, SMALL, run

    result = run(FULL if scale == "full" else SMALL, (lambda text: None) if json else say)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        (output / "spaces.json").write_text(to_json(result) + "\n")
    if json:
        sys.stdout.write(to_json(result) + "\n")
    else:
        _show(result)
    return result


def _show(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 140)
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
    table = Table("target", "wanted", "measured", "", title="Targets (for full scale)")
    for verdict in result["verdicts"]:
        sign = ">=" if verdict["least"] else "<="
        table.add_row(
            verdict["what"], f"{sign} {verdict['target']:,}", f"{verdict['measured']:,}",
            "met" if verdict["met"] else "missed",
        )  # fmt: skip
    console.print(table)
