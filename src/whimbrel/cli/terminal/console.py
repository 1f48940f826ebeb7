"""What commands write beside their results: messages, JSON lines, tables and progress bars."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

_PATIENCE = 0.5  # seconds before a bar appears


def say(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(plain(text) + "\n")


def say_json(item: object) -> None:
    """Write an object as a line of JSON to standard error."""
    sys.stderr.write(to_json(item) + "\n")


def to_json(item: object) -> str:
    """JSON in one line, with characters as they are unless UTF-8 cannot encode them."""
    text = json.dumps(item, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can name
        return json.dumps(item)
    return text


def plain(text: str) -> str:
    """The text without control characters, which could move a terminal's cursor or hide what follows."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def print_table(rows: Iterable[tuple[str, str]], title: str | None = None, console: Console | None = None) -> None:
    """Print names and values in a frame, to standard output unless a console is given."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right", overflow="fold")
    for name, value in rows:
        table.add_row(name, value)
    (console or Console(highlight=False)).print(table)


def print_columns(rows: Sequence[Sequence[str]]) -> None:
    """Print rows of cells, all but the last as wide as the widest of their column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        sys.stdout.write("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n")


class Bar:
    """A progress bar, which appears when the work has taken a while; with `silent` it never appears."""

    def __init__(self, label: str, total: float | None, silent: bool) -> None:
        self._label, self._total, self._silent = label, total, silent
        self._since = time.monotonic()
        self._shown: Progress | None = None

    def update(self, completed: float, note: str = "") -> None:
        """Show how much of the total is done."""
        if self._silent or (self._shown is None and time.monotonic() - self._since < _PATIENCE):
            return
        if self._shown is None:
            self._shown = _make_progress()
            self._task = self._shown.add_task(self._label, total=self._total, note="")
            self._shown.start()
        self._shown.update(self._task, completed=completed, note=note)

    def close(self) -> None:
        """Remove the bar from the terminal."""
        if self._shown is not None:
            self._shown.stop()


def _make_progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)


@contextmanager
def progress(label: str, total: float | None = None, quiet: bool = False) -> Iterator[Bar]:
    """A progress bar on standard error; nothing where that is not a terminal."""
    bar = Bar(label, total, silent=quiet or not sys.stderr.isatty())
    try:
        yield bar
    finally:
        bar.close()
