"""Draws routers and their links as SVG."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape

from whimbrel.overlay.topology import Topology

_STEP_X, _STEP_Y, _MARGIN, _RADIUS = 72, 96, 48, 18
_LETTERS = 12


@dataclass
class Drawing:
    """What is drawn: names of routers, lines below them, events on links; alarms are red, broken links dashed."""

    topology: Topology
    names: dict[str, str] = field(default_factory=dict)
    marks: dict[str, list[str]] = field(default_factory=dict)
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    alarms: set[str] = field(default_factory=set)
    broken: set[tuple[str, str]] = field(default_factory=set)


def draw_overlay(drawing: Drawing) -> str:
    """The picture; the first router is on top."""
    topology = drawing.topology
    places = _places(topology)
    width = _MARGIN * 2 + _STEP_X * max((x for x, _ in places.values()), default=0)
    height = _MARGIN * 2 + _STEP_Y * max((y for _, y in places.values()), default=0) + 24
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" '
        'font-size="11" text-anchor="middle">',
        "<title>Routers, links with the events that passed, and false positives</title>",
    ]
    for one, two in topology.links():
        if one not in places or two not in places:
            continue
        count = drawing.counts.get((one, two), drawing.counts.get((two, one)))
        is_broken = (one, two) in drawing.broken or (two, one) in drawing.broken
        (x1, y1), (x2, y2) = _at(places[one]), _at(places[two])
        out.append(
            f'<line x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" stroke="#7a8b99" '
            f'stroke-width="{1 + 2 * math.log10(1 + (count or 0)):.1f}"{_DASHED if is_broken else ""}/>'
        )
        if count is not None:
            x, y = (x1 + x2) / 2, (y1 + y2) / 2
            out.append(f'<text x="{x:.0f}" y="{y:.0f}" fill="#334">{count:,}</text>')
    for name, place in places.items():
        x, y = _at(place)
        fill = "#c0392b" if name in drawing.alarms else "#2c6e8f"
        shown = drawing.names.get(name, name)
        label = escape(shown if len(shown) <= _LETTERS else shown[: _LETTERS - 1] + "…")
        out.append(
            f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{_RADIUS}" fill="{fill}"><title>{escape(shown)}</title></circle>'
        )
        out.append(f'<text x="{x:.0f}" y="{y + 4:.0f}" fill="#fff">{label}</text>')
        out += [
            f'<text x="{x:.0f}" y="{y + _RADIUS + 12 * (line + 1):.0f}" fill="#334">{escape(mark)}</text>'
            for line, mark in enumerate(drawing.marks.get(name, ()))
        ]
    return "\n".join([*out, "</svg>"]) + "\n"


_DASHED = ' stroke-dasharray="4 4"'


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
