"""`whimbrel spaces`: taxis that move over a town and zones that are told who enters and who leaves."""

from __future__ import annotations

import sys
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whimbrel.cli.terminal.console import to_json
from whimbrel.cli.terminal.options import Json

if TYPE_CHECKING:
    import numpy as np
    from rich.console import RenderableType

    from whimbrel.spaces import Notifications, SubjectSpaces

_SIDE = 100.0
_SHOWN = 12


@dataclass
class _Town:
    """The taxis, their headings, and the counts of what has happened."""

    spaces: SubjectSpaces
    at: np.ndarray
    heading: np.ndarray
    steps: int = 0
    moved: int = 0
    seconds: float = 0.0
    told: dict[str, int] = field(default_factory=lambda: {"enter": 0, "leave": 0})
    latest: deque[str] = field(default_factory=lambda: deque(maxlen=_SHOWN))

    def step(self, rng: np.random.Generator) -> Notifications:
        """Move every taxi a little and return the notifications."""
        import numpy as np

        from whimbrel.spaces import Columns

        self.heading += rng.normal(0, 0.3, len(self.heading))
        self.at += 0.4 * np.stack([np.cos(self.heading), np.sin(self.heading)])
        self.at %= _SIDE
        began = time.perf_counter()
        x, y = self.at
        found = self.spaces.update_many(Columns(range(len(x)), {"x": (x - 0.1, x + 0.1), "y": (y - 0.1, y + 0.1)}))
        self.seconds += time.perf_counter() - began
        self.steps += 1
        self.moved += len(x)
        kinds = np.bincount(found.kinds, minlength=2)
        self.told["enter"] += int(kinds[0])
        self.told["leave"] += int(kinds[1])
        for one in found[-_SHOWN:]:
            self.latest.append(f"taxi {one.publication} {_VERBS[one.kind]} {one.subscription}")
        return found

    def summary(self) -> dict[str, object]:
        """The counts so far, and the rate of moves."""
        rate = round(self.moved / self.seconds) if self.seconds else 0
        return {"steps": self.steps, "moves": self.moved, **self.told, "moves_per_second": rate}


_VERBS = {"enter": "enters", "leave": "leaves"}


def spaces(
    objects: Annotated[int, typer.Option("--objects", min=1, max=1_000_000, help="How many taxis move.")] = 5_000,
    zones: Annotated[int, typer.Option("--zones", min=1, max=1_000_000, help="How many zones are watched.")] = 500,
    seconds: Annotated[float, typer.Option("--seconds", min=0, max=3_600, help="For how long.")] = 10.0,
    seed: Annotated[int, typer.Option("--seed", help="For the same town again.")] = 1,
    journal: Annotated[
        Path | None, typer.Option("--journal", metavar="DIR", help="Keep the town in this new directory.")
    ] = None,
    json: Json = False,
) -> None:
    """Watch moving objects enter and leave zones, live; ends by itself.

    Taxis are small boxes, zones are rectangles. The position of every taxi is a publication that stays, and a zone is
    told only when a taxi begins or ceases to overlap it. With --json every notification is a line of JSON.
    """
    import numpy as np

    from whimbrel.spaces import SubjectSpaces

    rng = np.random.default_rng(seed)
    made = SubjectSpaces() if journal is None else SubjectSpaces.open(journal)
    with made as town_spaces:
        town = _build(town_spaces, objects, zones, rng)
        if json:
            _write_lines(town, rng, seconds)
        elif sys.stdout.isatty():
            _show_live(town, rng, seconds)
        else:
            _run(town, rng, seconds)
            sys.stdout.write("\n".join(town.latest) + "\n")
        if not json:
            told = town.summary()
            sys.stdout.write(
                f"{told['steps']} steps of {objects:,} taxis over {zones:,} zones: {told['enter']:,} entered, "
                f"{told['leave']:,} left; {told['moves_per_second']:,} moves/s\n"
            )


def _build(spaces: SubjectSpaces, objects: int, zones: int, rng: np.random.Generator) -> _Town:
    from whimbrel.spaces import Columns

    spaces.define("town", {"x": "number", "y": "number"})
    low = rng.uniform(0, 0.95 * _SIDE, (2, zones))
    size = rng.uniform(0.01 * _SIDE, 0.05 * _SIDE, (2, zones))
    bounds = {name: (low[axis], low[axis] + size[axis]) for axis, name in enumerate("xy")}
    spaces.subscribe_many(Columns([f"zone {n}" for n in range(zones)], bounds), leave=True)
    at = rng.uniform(0, _SIDE, (2, objects))
    spaces.publish_many(Columns(range(objects), {"x": at[0], "y": at[1]}))
    return _Town(spaces, at, rng.uniform(0, 6.28, objects))


def _run(town: _Town, rng: np.random.Generator, seconds: float) -> None:
    until = time.monotonic() + seconds
    town.step(rng)
    while time.monotonic() < until:
        town.step(rng)


def _write_lines(town: _Town, rng: np.random.Generator, seconds: float) -> None:
    until = time.monotonic() + seconds
    while True:
        for one in town.step(rng):
            content = [{name: str(interval) for name, interval in region.items()} for region in one.content or ()]
            line = {"sequence": one.sequence, "kind": one.kind, "subscription": one.subscription}
            sys.stdout.write(to_json({**line, "publication": one.publication, "content": content}) + "\n")
        if time.monotonic() >= until:
            break
    sys.stderr.write(to_json(town.summary()) + "\n")


def _show_live(town: _Town, rng: np.random.Generator, seconds: float) -> None:
    from rich.live import Live

    until = time.monotonic() + seconds
    with Live(refresh_per_second=10, transient=True) as live:
        while time.monotonic() < until:
            town.step(rng)
            live.update(_picture(town))
            time.sleep(0.1)  # so that eyes can follow


def _picture(town: _Town) -> RenderableType:
    import numpy as np
    from rich.columns import Columns as Side
    from rich.panel import Panel

    width, height = 56, 20
    density, _, _ = np.histogram2d(town.at[1], town.at[0], (height, width), ((0, _SIDE), (0, _SIDE)))
    shades = " .:-=+*#%@"
    most = max(float(density.max()), 1.0)
    rows = ["".join(shades[int(each / most * 9)] for each in row) for row in density]
    told = town.summary()
    news = [
        f"{told['enter']:,} entered, {told['leave']:,} left",
        f"{told['moves_per_second']:,} moves/s",
        "",
        *town.latest,
    ]
    return Side([Panel("\n".join(rows), title="taxis"), Panel("\n".join(news), title="news", height=height + 2)])
