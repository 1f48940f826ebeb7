"""Draws a simulation: links by how many events passed, routers with their false positives."""

from __future__ import annotations

from collections import Counter

from whimbrel.overlay.picture import Drawing, draw_overlay
from whimbrel.overlay.simulation.network import Network
from whimbrel.overlay.topology import Topology


def draw(topology: Topology, network: Network) -> str:
    """The picture. The first router is on top; a link says how many events went over it, both ways together."""
    rates, history = network.link_events, network.history
    published = Counter(event.router for event in history.events)
    delivered: Counter[str] = Counter()
    for event in history.events:
        for subscription, count in event.deliveries.items():
            delivered[history.subscriptions[subscription].router] += count
    drawing = Drawing(topology)
    for one, two in topology.links():
        drawing.counts[one, two] = rates.get((one, two), 0) + rates.get((two, one), 0)
    for name in topology.neighbours:
        false = network.routers[name].counters.false_positives
        counts = {"in": published[name], "out": delivered[name], "false": false}
        drawing.marks[name] = [f"{count:,} {what}" for what, count in counts.items() if count]
        if false:
            drawing.alarms.add(name)
    return draw_overlay(drawing)
