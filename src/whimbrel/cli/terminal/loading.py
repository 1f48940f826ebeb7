"""Load a file of subscriptions into an index, with progress bars and a report of what was refused."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from whimbrel.cli.terminal.console import progress
from whimbrel.cli.terminal.rejects import RejectReport
from whimbrel.model import dialects
from whimbrel.readers.errors import InputError
from whimbrel.readers.source import Format

if TYPE_CHECKING:
    from whimbrel.engine.index import Index
    from whimbrel.readers.match_files import PlacedRow

_HINTS = 5
"""Hints on filters that are shown."""


def load_index(
    file: str, fallback: Format | None, timestamps: Iterable[str], report: RejectReport, schema: Path | None = None
) -> Index:
    """Load the subscriptions of a file into an index, with the schema of another file; report refused ones."""
    from whimbrel.engine.index import Index
    from whimbrel.model.schema import Schema
    from whimbrel.readers.match_files import add_rows, read_rows

    def refuse(error: InputError) -> None:
        report.reject("subscription", error)

    index = Index(timestamps, None if schema is None else Schema.load(schema))
    with progress("Reading subscriptions", quiet=report.json) as bar:
        rows = read_rows(file, fallback, refuse, lambda count: bar.update(count, f"{count:,}"))
    with progress("Indexing", total=len(rows), quiet=report.json) as bar:
        add_rows(index, rows, refuse, bar.update)
    _say_hints(rows, report)
    return index


def _say_hints(rows: list[PlacedRow], report: RejectReport) -> None:
    """Say which filters probably mean something else than was meant."""
    dialect = dialects.get(dialects.CANONICAL)
    if not isinstance(dialect, dialects.Hinting):
        return
    count = 0
    for place, row in rows:
        if row.dialect == dialects.CANONICAL and isinstance(row.filter, str):
            for hint in dialect.hints(row.filter):
                count += 1
                if count <= _HINTS:
                    report.note(f"{place}: {row.id}: {hint.message}")
    if count > _HINTS:
        report.note(f"{count - _HINTS:,} more such filters; whimbrel lint shows all of them")
