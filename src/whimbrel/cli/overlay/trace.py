"""`whimbrel overlay trace`: the way of an event through an overlay, hop by hop."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whimbrel.cli.overlay.options import (
    Depth,
    DistributionOption,
    Filters,
    Routers,
    Seed,
    ShapeOption,
    Subscribers,
)
from whimbrel.cli.terminal.console import plain, to_json
from whimbrel.cli.terminal.options import Json
from whimbrel.overlay.simulation.workload import Distribution
from whimbrel.overlay.topology import Shape

if TYPE_CHECKING:
    from whimbrel.overlay.simulation.scenario import Scenario
    from whimbrel.overlay.simulation.trace import Hop
    from whimbrel.overlay.tree.paths import Interest


def trace(
    event: Annotated[str, typer.Argument(help="The event, a JSON object.")],
    at: Annotated[str, typer.Option("--at", help="The router where it is published.")] = "r0",
    subscriptions: Annotated[
        Path | None,
        typer.Option("--subscriptions", metavar="FILE", help="JSON lines with subscription, filter and where."),
    ] = None,
    routers: Routers = 27,
    subscribers: Subscribers = 9,
    filters: Filters = 1_000,
    depth: Depth = None,
    shape: ShapeOption = Shape.TREE,
    distribution: DistributionOption = Distribution.PARETO,
    seed: Seed = 1,
    json: Json = False,
) -> None:
    """Show which routers forward an event, by which node and filter, and which stop it.

    The subscriptions are those of the simulation with the same options, or those of a file, such as one that
    `whimbrel overlay simulate --history` wrote.
    """
    from whimbrel.model.event import Event
    from whimbrel.overlay.router.prefix_router import PrefixRouter, PrefixSettings
    from whimbrel.overlay.simulation.network import Network
    from whimbrel.overlay.simulation.scenario import Scenario, ScenarioOptions
    from whimbrel.overlay.simulation.trace import trace as walk

    options = ScenarioOptions(
        routers=routers, subscribers=subscribers, filters=filters if subscriptions is None else 0, events=0,
        shape=shape, distribution=distribution, seed=seed, prefix=PrefixSettings(depth),
    )  # fmt: skip
    read = Event.of(event)
    scenario = Scenario(options)
    if at not in scenario.topology.neighbours:
        raise typer.BadParameter(f"Expected a router of r0 to r{routers - 1}, but got {at!r}", param_hint="--at")
    made = {name: PrefixRouter(name, options.prefix) for name in scenario.topology.neighbours}
    network = Network(scenario.topology, made, seed)
    network.optimize(scenario.optimizer)
    for where, name, interest in _subscriptions(scenario, subscriptions):
        network.subscribe(where, name, interest)
    network.run()
    hops = walk(made, at, read)
    sys.stdout.write(to_json(_as_objects(hops)) + "\n" if json else plain(_as_text(hops)))


def _subscriptions(scenario: Scenario, path: Path | None) -> list[tuple[str, str, Interest]]:
    from whimbrel.model.errors import MalformedSubscription
    from whimbrel.model.filter import Filter
    from whimbrel.model.json_text import parse_json
    from whimbrel.overlay.tree.paths import Interest

    if path is None:
        return [(one.router, one.id, one.interest) for one in scenario.filters]
    out: dict[str, tuple[str, str, Interest]] = {}
    for row, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        content = parse_json(line) if line.strip() else {}
        if "filter" not in content:
            continue  # an event of a history, or an empty line
        name, text, where = (content.get(key) for key in ("subscription", "filter", "where"))
        if not isinstance(name, str) or not isinstance(text, str) or where not in scenario.topology.neighbours:
            raise MalformedSubscription("subscription, filter and a router as where", line[:80], row)
        out.setdefault(name, (str(where), name, Interest(Filter.parse(text))))
    return list(out.values())


def _as_objects(hops: list[Hop]) -> list[dict[str, object]]:
    return [
        {
            "router": hop.router, "from": hop.arrival, "by": hop.how, "prefix_nodes": hop.nodes,
            "forwarded": {
                name: {"node": reason.node, "path": reason.path, "filter": reason.filter}
                for name, reason in hop.forwarded.items()
            },
            "stopped": hop.stopped, "delivered": hop.delivered, "refused": hop.refused,
        }
        for hop in hops
    ]  # fmt: skip


def _as_text(hops: list[Hop]) -> str:
    lines: list[str] = []
    for hop in hops:
        came = "published" if hop.arrival is None else f"from {hop.arrival}"
        how = {"match": "matched", "prefix": "prefix read", "fallback": "prefix unknown, matched again"}[hop.how]
        lines.append(f"{hop.router}: {came}; {how}, {hop.nodes} nodes")
        for name, reason in hop.forwarded.items():
            lines.append(f"  -> {name}: node {reason.node} ({reason.path}), filter {reason.filter}")
        if hop.stopped:
            lines.append(f"  stops before {', '.join(hop.stopped)}: no filter from there ends at a node of the prefix")
        lines += [f"  delivered to {name}: {text}" for name, text in hop.delivered.items()]
        lines += [f"  false positive, refused at the edge: {text}" for text in hop.refused]
        if not hop.forwarded and not hop.delivered:
            lines.append("  ends here")
    return "\n".join(lines) + "\n"
