"""Draws a simulation: links by how many events passed, routers with their false positives."""

from __future__ import annotations

from whimbrel.overlay.picture import Drawing, draw_overlay
from whimbrel.overlay.simulation.network import Network
from whimbrel.overlay.topology import Topology


def draw(topology: Topology, network: Network) -> str:
    """The picture. The first router is on top; a link says how many events went over it, both ways together."""
    rates = network.link_events
    delivered, published = _ends(network)
    drawing = Drawing(topology)
    for one, two in topology.links():
        drawing.counts[one, two] = rates.get((one, two), 0) + rates.get((two, one), 0)
    for name in topology.neighbours:
        false = network.routers[name].counters.false_positives
        marks = [f"{published[name]:,} in"] if name in published else []
        marks += [f"{delivered[name]:,} out"] if name in delivered else []
        drawing.marks[name] = marks + ([f"{false:,} false"] if false else [])
        if false:
            drawing.alarms.add(name)
    return draw_overlay(drawing)


def _ends(network: Network) -> tuple[dict[str, int], dict[str, int]]:
    """The deliveries and the publications of each router."""
    delivered: dict[str, int] = {}
    published: dict[str, int] = {}
    for event in network.history.events:
        published[event.router] = published.get(event.router, 0) + 1
        for subscription, count in event.deliveries.items():
            where = network.history.subscriptions[subscription].router
            delivered[where] = delivered.get(where, 0) + count
    return delivered, published
