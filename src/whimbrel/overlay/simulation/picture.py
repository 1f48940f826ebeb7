"""Draws the routers of a simulation as SVG: links by how many events passed, routers with their false positives."""

from __future__ import annotations

import math

from whimbrel.overlay.simulation.network import Network
from whimbrel.overlay.topology import Topology

_STEP_X, _STEP_Y, _MARGIN, _RADIUS = 72, 96, 48, 18


def draw(topology: Topology, network: Network) -> str:
    """The picture. The first router is on top; a link says how many events went over it, both ways together."""
    places = _places(topology)
    width = _MARGIN * 2 + _STEP_X * max(x for x, _ in places.values())
    height = _MARGIN * 2 + _STEP_Y * max(y for _, y in places.values()) + 24
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" '
        'font-size="11" text-anchor="middle">',
        "<title>Routers, links with the events that passed, and false positives</title>",
    ]
    rates = network.link_events
    for one, two in topology.links():
        count = rates.get((one, two), 0) + rates.get((two, one), 0)
        (x1, y1), (x2, y2) = _at(places[one]), _at(places[two])
        stroke = 1 + 2 * math.log10(1 + count)
        out.append(
            f'<line x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" stroke="#7a8b99" '
            f'stroke-width="{stroke:.1f}"/><text x="{(x1 + x2) / 2:.0f}" y="{(y1 + y2) / 2:.0f}" '
            f'fill="#334">{count:,}</text>'
        )
    delivered, published = _ends(network)
    for name, place in places.items():
        x, y = _at(place)
        false = network.routers[name].counters.false_positives
        marks = [f"{published[name]:,} in"] if name in published else []
        marks += [f"{delivered[name]:,} out"] if name in delivered else []
        marks += [f"{false:,} false"] if false else []
        fill = "#c0392b" if false else "#2c6e8f"
        out.append(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{_RADIUS}" fill="{fill}"/>')
        out.append(f'<text x="{x:.0f}" y="{y + 4:.0f}" fill="#fff">{name}</text>')
        out += [
            f'<text x="{x:.0f}" y="{y + _RADIUS + 12 * (line + 1):.0f}" fill="#334">{mark}</text>'
            for line, mark in enumerate(marks)
        ]
    return "\n".join([*out, "</svg>"]) + "\n"


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


def _places(topology: Topology) -> dict[str, tuple[float, int]]:
    """Columns and rows of routers: leaves side by side, each other router above the middle of those below it."""
    first = next(iter(topology.neighbours))
    order: list[tuple[str, str | None, int]] = []
    pending: list[tuple[str, str | None, int]] = [(first, None, 0)]
    while pending:
        name, parent, depth = pending.pop()
        order.append((name, parent, depth))
        pending += [(other, name, depth + 1) for other in reversed(topology.neighbours[name]) if other != parent]
    columns: dict[str, list[float]] = {}
    places: dict[str, tuple[float, int]] = {}
    leaves = sum(1 for name, parent, _ in order if not [o for o in topology.neighbours[name] if o != parent])
    for name, parent, depth in reversed(order):
        below = columns.get(name)
        if below is None:
            leaves -= 1
            column = float(leaves)
        else:
            column = (min(below) + max(below)) / 2
        places[name] = (column, depth)
        if parent is not None:
            columns.setdefault(parent, []).append(column)
    return places


def _at(place: tuple[float, int]) -> tuple[float, float]:
    return _MARGIN + _STEP_X * place[0], _MARGIN + _STEP_Y * place[1]
