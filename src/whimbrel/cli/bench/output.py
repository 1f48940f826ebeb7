"""What every benchmark shows: progress while it runs, then tables or JSON, and the files that were asked for."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from whimbrel.cli.terminal.console import plain, say, to_json
from whimbrel.lab.measure.benchmark_results import (
    NoMarks,
    Progress,
    Result,
    ResultFiles,
    ResultTable,
    Scale,
    no_progress,
    verdict_cells,
)

_QUIET_SECONDS = 10.0  # between two lines of progress where nothing can be written over
_PAGE_WIDTH = 180  # where no terminal sets a width


def make_folder(folder: Path | None) -> Path | None:
    """Make the folder of the results before anything is measured; failure is a usage error."""
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise typer.BadParameter(f"Expected a folder, but got {plain(str(folder))!r}: {error.strerror}") from None
    return folder


PartScale = Annotated[Scale, typer.Option("--scale", help="A minute, or the sizes that targets are for.")]
PartOutput = Annotated[
    Path | None,
    typer.Option("--output", metavar="DIR", callback=make_folder, help="Write the figures there, as JSON."),
]


def check_page(page: Path | None, files: ResultFiles) -> None:
    """Refuse a page that cannot take the tables, before hours of measuring; a usage error."""
    if page is None:
        return
    try:
        files.parts_of(page)
    except (OSError, UnicodeDecodeError, NoMarks) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        problem = f"Expected a page with marks for the results, but got {plain(str(page))!r}: {reason}"
        raise typer.BadParameter(problem, param_hint="--page") from None


def show_race(result: Result, files: ResultFiles, output: Path | None, page: Path | None, json: bool) -> None:
    """Write the files of a race into the folder and its tables into the page, then show the tables, or the JSON."""
    written = [] if output is None else list(files.write(result, output))
    if page is not None:
        files.insert(result, page)
        written.append(page)
    if json:
        sys.stdout.write(to_json(result) + "\n")
        return
    show(files.tables(result))
    for path in written:
        say(f"wrote {path}")


@contextmanager
def shown_progress(quiet: bool) -> Iterator[Progress]:
    """Progress on standard error: one changing line on a terminal, else a line now and then."""
    if quiet:
        yield no_progress
        return
    if not sys.stderr.isatty():
        yield _ProgressLines()
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield lambda text: status.update(text, spinner="dots")


class _ProgressLines:
    """Writes a line when a new stage begins, and leaves out what changes faster than anybody reads."""

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


def show_benchmark(
    name: str,
    benchmark: ModuleType,
    tables: Callable[[Result], list[ResultTable]],
    scale: Scale,
    folder: Path | None,
    json: bool,
    *chosen: object,
) -> None:
    """Run a module of `lab.measure` on its SMALL or FULL sizes, and print its tables and verdicts, or its JSON.

    The result is also written as NAME.json if there is a folder. `chosen` are further arguments of its `run`.
    """
    sizes = benchmark.FULL if scale == "full" else benchmark.SMALL
    result: Result = benchmark.run(sizes, *chosen, progress=no_progress if json else say)
    if folder is not None:
        (folder / f"{name}.json").write_text(to_json(result) + "\n")
    if json:
        sys.stdout.write(to_json(result) + "\n")
        return
    verdicts = tuple(verdict_cells(verdict) for verdict in result["verdicts"])
    show([*tables(result), ResultTable("Targets (for full scale)", ("target", "wanted", "measured", ""), verdicts)])
