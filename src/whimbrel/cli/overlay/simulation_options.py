"""The options that the commands of `whimbrel overlay` share."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from whimbrel.overlay.simulation.paper_workload import Distribution
from whimbrel.overlay.topology import Shape

_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_UNITS = {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """The seconds of a span such as 3s, 500ms, 10m or 1h."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"Expected a span of time such as 3s, 500ms or 10m, but got {text!r}")
    return float(found[1]) * _UNITS[found[2]]


Routers = Annotated[int, typer.Option("--routers", min=1, max=10_000, help="How many routers there are.")]
Subscribers = Annotated[int, typer.Option("--subscribers", min=1, help="How many of them have subscribers.")]
Filters = Annotated[int, typer.Option("--filters", min=0, help="How many filters the subscribers have, in all.")]
Depth = Annotated[int | None, typer.Option("--depth", min=0, help="How deep prefixes go (default: all the way).")]
ShapeOption = Annotated[Shape, typer.Option("--shape", help="How routers are linked.")]
DistributionOption = Annotated[Distribution, typer.Option("--distribution", help="Of names and values.")]
Names = Annotated[int, typer.Option("--names", min=1, max=1_000, help="How many names of attributes there are.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="For the same run again.")]
