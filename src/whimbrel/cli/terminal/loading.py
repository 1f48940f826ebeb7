"""Load a file of subscriptions into an index, with progress bars and a report of what was refused."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from whimbrel.cli.terminal.console import progress
from whimbrel.cli.terminal.rejects import RejectReport
from whimbrel.model import dialects
from whimbrel.readers.errors import InputError
from whimbrel.readers.source import Format

if TYPE_CHECKING:
    from whimbrel.engine.index import Index
    from whimbrel.readers.subscription_columns import SubscriptionColumns

_HINTS = 5
"""Hints on filters that are shown."""
_AT_ONCE = 1_000
"""Filters that are looked at together."""


def load_index(
    file: str, fallback: Format | None, timestamps: Iterable[str], report: RejectReport, schema: Path | None = None
) -> Index:
    """Load the subscriptions of a file into an index, with the schema of another file; report refused ones."""
    from whimbrel.engine.index import Index
    from whimbrel.model.schema import Schema
    from whimbrel.readers.subscription_columns import add_columns, read_columns

    def refuse(error: InputError) -> None:
        report.reject("subscription", error)

    index = Index(timestamps, None if schema is None else Schema.load(schema))
    with progress("Reading subscriptions", quiet=report.json) as bar:
        columns = read_columns(file, fallback, refuse, lambda count: bar.update(count, f"{count:,}"))
    with progress("Indexing", total=len(columns), quiet=report.json) as bar:
        add_columns(index, columns, refuse, bar.update)
    _say_hints(columns, report)
    return index


def _say_hints(columns: SubscriptionColumns, report: RejectReport) -> None:
    """Say which filters probably mean something else than was meant."""
    dialect = dialects.get(dialects.CANONICAL)
    if not isinstance(dialect, dialects.Hinting):
        return
    count = 0
    texts = columns.sql_texts()
    while some := list(islice(texts, _AT_ONCE)):
        if not dialect.is_suspicious("\n".join(text for _, text in some)):
            continue
        for number, text in some:
            for hint in dialect.hints(text):
                count += 1
                if count <= _HINTS:
                    report.note(f"{columns.place(number)}: {columns.ids[number]}: {hint.message}")
    if count > _HINTS:
        report.note(f"{count - _HINTS:,} more such filters; whimbrel lint shows all of them")
