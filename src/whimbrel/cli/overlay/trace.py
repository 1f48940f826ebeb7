"""`whimbrel overlay trace`: the way of an event through an overlay, hop by hop."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from whimbrel.cli.broker.options import Authority, TokenOption, connect
from whimbrel.cli.overlay.simulate import (
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
from whimbrel.overlay.simulation.paper_workload import Distribution
from whimbrel.overlay.topology import Shape

if TYPE_CHECKING:
    from whimbrel.overlay.simulation.scenario import Scenario
    from whimbrel.overlay.tree.paths import Interest


def trace(
    event: Annotated[str, typer.Argument(metavar="EVENT", help="A JSON object.")],
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
    url: Annotated[
        str | None, typer.Option("--url", help="Ask the broker at this address and those it is linked with.")
    ] = None,
    token: TokenOption = None,
    ca: Authority = None,
    json: Json = False,
) -> None:
    """Show the way of an event through an overlay.

    Shows which routers forward it, by which node and filter, and which stop it.

    With --url these are real brokers, asked for an event as filters see it, such as {"data": {"price": 3}}. Without,
    the subscriptions are those of the simulation with the same options, or those of a file, such as one that
    `whimbrel overlay simulate --history` wrote.
    """
    if url is not None:
        from whimbrel.client import wire
        from whimbrel.model.json_text import parse_json

        with connect(url, token, ca) as client:
            _show(msgspec.json.decode(client.call(wire.post("/overlay/trace", parse_json(event))))["hops"], json)
        return
    from whimbrel.model.event import Event
    from whimbrel.overlay.covering.cover_table import CoverTable
    from whimbrel.overlay.router.prefix_router import PrefixRouter, PrefixSettings
    from whimbrel.overlay.router.trace import as_object
    from whimbrel.overlay.router.trace import trace as walk
    from whimbrel.overlay.simulation.network import Network
    from whimbrel.overlay.simulation.scenario import Scenario, ScenarioOptions
    from whimbrel.overlay.tree.tree_store import TreeStore

    options = ScenarioOptions(
        routers=routers, subscribers=subscribers, filters=filters if subscriptions is None else 0, events=0,
        shape=shape, distribution=distribution, seed=seed, prefix=PrefixSettings(depth),
    )  # fmt: skip
    read = Event.of(event)
    scenario = Scenario(options)
    if at not in scenario.topology.neighbours:
        raise typer.BadParameter(f"Expected a router of r0 to r{routers - 1}, but got {at!r}", param_hint="--at")
    asked = _subscriptions(scenario, subscriptions)
    table, trees = CoverTable(), TreeStore(options.prefix.decay)  # shared: each router alone would make the same ones
    for _, _, interest in asked:
        table.add(interest)
    made = {name: PrefixRouter(name, options.prefix, table, trees) for name in scenario.topology.neighbours}
    network = Network(scenario.topology, made, seed)
    network.optimize(scenario.optimizer)
    for place, (where, name, interest) in enumerate(asked):
        network.at(place * options.interval, partial(network.subscribe, where, name, interest))
    network.run()
    _show([as_object(hop) for hop in walk(made, at, read)], json)


def _show(hops: list[dict[str, Any]], json: bool) -> None:
    from whimbrel.overlay.router.trace import as_text

    sys.stdout.write(to_json(hops) + "\n" if json else plain(as_text(hops)))


def _subscriptions(scenario: Scenario, path: Path | None) -> list[tuple[str, str, Interest]]:
    from whimbrel.model.errors import MalformedSubscription, WhimbrelError
    from whimbrel.model.filter import Filter
    from whimbrel.model.json_text import parse_json
    from whimbrel.overlay.tree.paths import Interest
    from whimbrel.readers.errors import InputPlace, RefusedInput

    if path is None:
        return [(one.router, one.id, one.interest) for one in scenario.filters]
    routers = list(scenario.topology.neighbours)
    out: dict[str, tuple[str, str, Interest]] = {}
    for row, line in enumerate(path.read_bytes().splitlines()):
        try:
            content = parse_json(line) if line.strip() else {}
            if "filter" not in content:
                continue  # an event of a history, or an empty line
            name, text, where = (content.get(key) for key in ("subscription", "filter", "where"))
            if not isinstance(name, str) or not isinstance(text, str) or where not in routers:
                raise MalformedSubscription(
                    "subscription, filter and a router as where", line[:80].decode(errors="replace"), row
                )
            out.setdefault(name, (str(where), name, Interest(Filter.parse(text))))
        except WhimbrelError as error:
            raise RefusedInput(InputPlace(str(path), row + 1), error) from None
    return list(out.values())
