"""What `whimbrel bench match` shows: progress while it runs, tables at the end, files where they were asked for."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from whimbrel.cli.terminal.console import say, to_json
from whimbrel.lab.measure.matching.match_run import MatchSettings, Progress, run
from whimbrel.lab.measure.matching.match_tables import Result, ResultTable, tables_of
from whimbrel.lab.measure.results import insert, write

_QUIET_SECONDS = 10.0  # between two lines of progress where nothing can be written over

_PAGE_WIDTH = 180  # where no terminal sets a width


def measure(settings: MatchSettings, output: Path | None, page: Path | None, json: bool) -> Result:
    """Run, write the files, and show the tables or the JSON."""
    if page is not None and not page.is_file():
        raise FileNotFoundError(f"Expected a page with marks for the results, but there is no {page}")
    with shown_progress(json) as progress:
        result = run(settings, progress)
    written = list(write(result, output)) if output is not None else []
    if page is not None:
        insert(result, page)
        written.append(page)
    if json:
        sys.stdout.write(to_json(result) + "\n")
        return result
    show(tables_of(result))
    for path in written:
        say(f"wrote {path}")
    return result


@contextmanager
def shown_progress(quiet: bool) -> Iterator[Progress]:
    """Progress on standard error: one line that changes on a terminal, else a line now and then."""
    if quiet:
        yield lambda text: None
        return
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield lambda text: status.update(text, spinner="dots")


class _Lines:
    """Says what is going on, and leaves out what changes faster than anybody reads."""

    def __init__(self) -> None:
        self._stage = ""
        self._said = 0.0

    def __call__(self, text: str) -> None:
        stage = text.partition(": parsed")[0].partition(": repeat")[0]
        if stage != self._stage or time.monotonic() - self._said > _QUIET_SECONDS:
            say(text)
            self._stage, self._said = stage, time.monotonic()


def show(tables: Iterable[ResultTable]) -> None:
    """Print tables to standard output."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        console = Console(width=_PAGE_WIDTH)
    for table in tables:
        shown = Table(title=table.title, title_justify="left")
        for place, column in enumerate(table.columns):
            shown.add_column(column, justify="left" if place == 0 else "right", overflow="fold")
        for row in table.rows:
            shown.add_row(*(cell.replace("**", "") for cell in row))
        console.print(shown)
        for note in table.notes:
            console.print(note, markup=False, highlight=False)
        console.print()
