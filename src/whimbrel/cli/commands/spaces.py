"""`whimbrel spaces`: taxis that move over a town and zones that are told who enters and who leaves."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whimbrel.cli.terminal.console import plain, to_json
from whimbrel.cli.terminal.options import Json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from whimbrel.lab.taxi_town import TaxiTown


def spaces(
    objects: Annotated[int, typer.Option("--objects", min=1, max=1_000_000, help="How many taxis move.")] = 5_000,
    zones: Annotated[int, typer.Option("--zones", min=1, max=1_000_000, help="How many zones are watched.")] = 500,
    seconds: Annotated[float, typer.Option("--seconds", min=0, max=3_600, help="For how many seconds.")] = 10.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same number gives the same town.")] = 1,
    journal: Annotated[
        Path | None,
        typer.Option("--journal", metavar="DIR", file_okay=False, help="Keep the town in this new directory."),
    ] = None,
    json: Json = False,
) -> None:
    """Watch moving objects enter and leave zones, live.

    It ends by itself.
    Taxis are small boxes, zones are rectangles. The position of every taxi is a publication that stays, and a zone is
    told only when a taxi begins or ceases to overlap it. With --json every notification is a line of JSON.
    """
    import numpy as np

    from whimbrel.lab.taxi_town import TaxiTown
    from whimbrel.spaces import SubjectSpaces

    if journal is not None and journal.is_dir() and any(journal.iterdir()):
        problem = f"Expected a new or empty directory, but {plain(str(journal))!r} has files"
        raise typer.BadParameter(problem, param_hint="--journal")
    made = SubjectSpaces() if journal is None else SubjectSpaces.open(journal)
    with made as town_spaces:
        town = TaxiTown.build(town_spaces, objects, zones, np.random.default_rng(seed))
        if json:
            _write_lines(town, seconds)
        elif sys.stdout.isatty():
            _show_live(town, seconds)
        else:
            _run(town, seconds)
            sys.stdout.write("\n".join(town.latest) + "\n")
        if not json:
            told = town.summary()
            sys.stdout.write(
                f"{told['steps']} steps of {objects:,} taxis over {zones:,} zones: {told['enter']:,} entered, "
                f"{told['leave']:,} left; {told['moves_per_second']:,} moves/s\n"
            )


def _run(town: TaxiTown, seconds: float) -> None:
    until = time.monotonic() + seconds
    town.step()
    while time.monotonic() < until:
        town.step()


def _write_lines(town: TaxiTown, seconds: float) -> None:
    until = time.monotonic() + seconds
    while True:
        for one in town.step():
            content = [{name: str(interval) for name, interval in region.items()} for region in one.content or ()]
            line = {"sequence": one.sequence, "kind": one.kind, "subscription": one.subscription}
            sys.stdout.write(to_json({**line, "publication": one.publication, "content": content}) + "\n")
        if time.monotonic() >= until:
            break
    sys.stderr.write(to_json(town.summary()) + "\n")


def _show_live(town: TaxiTown, seconds: float) -> None:
    from rich.live import Live

    until = time.monotonic() + seconds
    with Live(refresh_per_second=10, transient=True) as live:
        while time.monotonic() < until:
            town.step()
            live.update(_picture(town))
            time.sleep(0.1)  # so that eyes can follow


def _picture(town: TaxiTown) -> RenderableType:
    import numpy as np
    from rich.columns import Columns
    from rich.panel import Panel

    from whimbrel.lab.taxi_town import SIDE

    width, height = 56, 20
    density, _, _ = np.histogram2d(town.at[1], town.at[0], (height, width), ((0, SIDE), (0, SIDE)))
    shades = " .:-=+*#%@"
    most = max(float(density.max()), 1.0)
    rows = ["".join(shades[int(each / most * 9)] for each in row) for row in density]
    told = town.summary()
    lines = [
        f"{told['enter']:,} entered, {told['leave']:,} left",
        f"{told['moves_per_second']:,} moves/s",
        "",
        *town.latest,
    ]
    return Columns(
        [Panel("\n".join(rows), title="taxis"), Panel("\n".join(lines), title="notifications", height=height + 2)]
    )
