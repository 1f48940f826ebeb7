"""What benchmarks have in common when they are done: a file, JSON or tables, and what came of the targets."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whimbrel.cli.terminal.console import to_json

if TYPE_CHECKING:
    from rich.console import Console


def finish(
    result: dict[str, Any], output: Path | None, name: str, json: bool, show: Callable[[Console, dict[str, Any]], None]
) -> dict[str, Any]:
    """Write the file `name` where asked, and show the tables or the JSON."""
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        (output / name).write_text(to_json(result) + "\n")
    if json:
        sys.stdout.write(to_json(result) + "\n")
    else:
        from rich.console import Console

        console = Console(width=None if sys.stdout.isatty() else 140)
        show(console, result)
        _show_verdicts(console, result)
    return result


def _show_verdicts(console: Console, result: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table("target", "wanted", "measured", "", title="Targets (for full scale)")
    for verdict in result["verdicts"]:
        sign = ">=" if verdict["least"] else "<="
        table.add_row(
            verdict["what"], f"{sign} {verdict['target']:,}", f"{verdict['measured']:,}",
            "met" if verdict["met"] else "missed",
        )  # fmt: skip
    console.print(table)
