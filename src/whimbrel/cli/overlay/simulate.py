"""`whimbrel overlay simulate`: routing by prefix beside SIENA and flooding, in simulated time."""

from __future__ import annotations

import re
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whimbrel.cli.terminal.console import progress, to_json
from whimbrel.cli.terminal.options import Json
from whimbrel.cli.terminal.outputs import check_outputs, open_for_writing
from whimbrel.overlay.simulation.paper_workload import NAMES, Distribution
from whimbrel.overlay.topology import Shape

if TYPE_CHECKING:
    from whimbrel.overlay.simulation.scenario import ScenarioOptions
    from whimbrel.overlay.simulation.simulate import Report

Routers = Annotated[int, typer.Option("--routers", min=1, max=10_000, help="How many routers there are.")]
Subscribers = Annotated[int, typer.Option("--subscribers", min=1, help="How many of them have subscribers.")]
Filters = Annotated[int, typer.Option("--filters", min=0, help="How many filters the subscribers have, in all.")]
Depth = Annotated[
    int | None, typer.Option("--depth", min=0, help="How many levels prefixes have, at most (default: all).")
]
ShapeOption = Annotated[Shape, typer.Option("--shape", help="How routers are linked.")]
DistributionOption = Annotated[
    Distribution, typer.Option("--distribution", help="How names and values are distributed.")
]
Names = Annotated[int, typer.Option("--names", min=1, max=1_000, help="How many names of attributes there are.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="The same number gives the same run.")]
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_UNITS = {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "h": 3600.0}


def simulate(
    routers: Routers = 27,
    subscribers: Subscribers = 9,
    publishers: Annotated[int, typer.Option("--publishers", min=1, help="How many of them have publishers.")] = 9,
    filters: Filters = 1_000,
    events: Annotated[int, typer.Option("--events", min=0, help="How many events are published, in all.")] = 1_000,
    depth: Depth = None,
    churn: Annotated[
        float, typer.Option("--churn", min=0, max=1, help="The share of filters that is replaced among the events.")
    ] = 0.0,
    threshold: Annotated[
        float, typer.Option("--threshold", min=0, max=1, help="The difference above which a new tree is published.")
    ] = 0.3,
    decay: Annotated[
        float, typer.Option("--decay", min=0.001, max=1, help="What a level weighs beside the one above it.")
    ] = 0.5,
    interval: Annotated[
        str,
        typer.Option(
            "--interval", metavar="SPAN", help="Time between two filters of a subscriber, or two events of a publisher."
        ),
    ] = "3s",
    trigger: Annotated[
        str, typer.Option("--trigger", metavar="SPAN", help="How long a change of the tree waits, at most; or never.")
    ] = "10m",
    together: Annotated[
        bool, typer.Option("--together", help="Filters and events at the same time, as in the paper.")
    ] = False,
    shape: ShapeOption = Shape.TREE,
    distribution: DistributionOption = Distribution.PARETO,
    names: Names = NAMES,
    loss: Annotated[float, typer.Option("--loss", min=0, max=0.9, help="The share of packets that is lost.")] = 0.0,
    cuts: Annotated[int, typer.Option("--cuts", min=0, help="How many times a link is cut, for ten intervals.")] = 0,
    crashes: Annotated[
        int, typer.Option("--crashes", min=0, help="How many times a router is down, for ten intervals.")
    ] = 0,
    seed: Seed = 1,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", help="Only prefix, siena or flood; may be repeated.")
    ] = None,
    history: Annotated[
        Path | None, typer.Option("--history", metavar="FILE", help="Write subscriptions, events and deliveries there.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE", help="Draw the routers of the first kind, as SVG.")
    ] = None,
    json: Json = False,
) -> None:
    """Simulate an overlay of routers.

    Three times: routing by prefix, as SIENA does, and by flooding.
    """
    from whimbrel.overlay.router.optimizer import OptimizerSettings
    from whimbrel.overlay.router.prefix_router import PrefixSettings
    from whimbrel.overlay.simulation.scenario import ScenarioOptions
    from whimbrel.overlay.simulation.simulate import KINDS

    for one in kind or ():
        if one not in KINDS:
            raise typer.BadParameter(f"Expected prefix, siena or flood, but got {one!r}", param_hint="--kind")
    if cuts and routers == 1:
        raise typer.BadParameter("Expected at least two routers, which have a link to cut", param_hint="--cuts")
    check_outputs({"--history": history, "--picture": picture}, ())
    wait = None if trigger == "never" else _seconds(trigger, "--trigger")
    options = ScenarioOptions(
        routers, subscribers, publishers, filters, events, _seconds(interval, "--interval"), churn, together, shape,
        distribution, names, loss, cuts, crashes, seed,
        PrefixSettings(depth, decay, OptimizerSettings(threshold, wait)),
    )  # fmt: skip
    _show(_run(options, [one for one in KINDS if not kind or one in kind], history, picture, json), json)


def _seconds(text: str, option: str) -> float:
    """The seconds of a span such as 3s, 500ms, 10m or 1h, which an option gives."""
    found = _SPAN.fullmatch(text)
    if found is None:
        problem = f"Expected a span of time such as 3s, 500ms or 10m, but got {text!r}"
        raise typer.BadParameter(problem, param_hint=option)
    return float(found[1]) * _UNITS[found[2]]


def _run(
    options: ScenarioOptions, kinds: list[str], history: Path | None, picture: Path | None, quiet: bool
) -> dict[str, Report]:
    """Run the scenario with each kind of router, and write the files that were asked for."""
    from whimbrel.overlay.simulation.scenario import Scenario
    from whimbrel.overlay.simulation.simulate import Simulation

    reports: dict[str, Report] = {}
    with ExitStack() as stack:
        written = None if history is None else stack.enter_context(open_for_writing(history, "--history"))
        drawn = None if picture is None else stack.enter_context(open_for_writing(picture, "--picture"))
        bar = stack.enter_context(progress("simulating", len(kinds) + 1, quiet=quiet))
        scenario = Scenario(options)
        simulation = Simulation(scenario)
        for place, one in enumerate(kinds, 1):
            bar.update(place, one)
            run = simulation.run(one)
            reports[one] = run.report
            if written is not None:
                simulation.write_history(run, one, written)
            if drawn is not None and place == 1:
                drawn.write(simulation.draw(run))
    return reports


def _show(reports: dict[str, Report], json: bool) -> None:
    if json:
        sys.stdout.write(to_json(reports) + "\n")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("", *reports)
    for name in next(iter(reports.values())):
        table.add_row(name.replace("_", " "), *(f"{report[name]:,}" for report in reports.values()))
    Console().print(table)
