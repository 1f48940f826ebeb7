"""What commands write beside their results: messages, JSON lines, tables and progress bars."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
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


def print_table(rows: Iterable[tuple[str, str]]) -> None:
    """Print names and values in a frame to standard output."""
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False)
    table.add_column()
    table.add_column(justify="right", overflow="fold")
    for name, value in rows:
        table.add_row(name, value)
    Console(highlight=False).print(table)


class Bar(Protocol):
    """A progress bar."""

    def update(self, completed: float, note: str = "") -> None:
        """Show how much of the total is done."""


class _Silent:
    def update(self, completed: float, note: str = "") -> None:
        pass


class _Visible:
    """A bar that appears when the work has taken a while."""

    def __init__(self, label: str, total: float | None) -> None:
        self.label = label
        self.total = total
        self.since = time.monotonic()
        self.shown: Progress | None = None

    def update(self, completed: float, note: str = "") -> None:
        if self.shown is None:
            if time.monotonic() - self.since < _PATIENCE:
                return
            self.shown = _make_progress()
            self.task = self.shown.add_task(self.label, total=self.total, note="")
            self.shown.start()
        self.shown.update(self.task, completed=completed, note=note)

    def close(self) -> None:
        if self.shown is not None:
            self.shown.stop()


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
    if quiet or not sys.stderr.isatty():
        yield _Silent()
        return
    bar = _Visible(label, total)
    try:
        yield bar
    finally:
        bar.close()
