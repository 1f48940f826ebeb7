"""The links of a broker as JSON and as a picture: topology, states, counts."""

from __future__ import annotations

from statistics import median
from typing import Any

from whimbrel.broker.peering.link import Link
from whimbrel.broker.peering.overlay_regions import topology_of
from whimbrel.broker.peering.peering import Peering
from whimbrel.broker.peering.routing import LinkRouter
from whimbrel.overlay.picture import Drawing, draw_overlay

_LINK_COUNTS = ("events_in", "events_out", "repeated_events", "refused_events", "refused_prefixes", "refused_messages")
_ROUTER_COUNTS = (
    "content_matches", "fallbacks", "malformed", "false_positives", "filter_messages", "suppressed_filters",
    "tree_updates",
)  # fmt: skip


async def overlay_status(peering: Peering) -> dict[str, Any]:
    """The overlay as this broker knows it. Counts are those since its start."""
    routing = None if peering.router is None else await peering.run(_routing_status)
    filters: dict[str, int] = {} if routing is None else routing.pop("filters_of_peers")
    region = peering.region()
    return {
        "id": peering.id,
        "name": peering.name,
        "links": [_link_status(peering, link, filters.get(link.peer, 0)) for link in peering.links.values()],
        "troubles": peering.troubles,
        "refused_peers": peering.refused_peers,
        "routing": routing,
        "topology": {
            "brokers": region.names,
            "links": sorted({(min(one, two), max(one, two)) for one, two, _ in region.edges}),
        },
    }


async def overlay_picture(peering: Peering) -> str:
    """The overlay as SVG: this broker on top, events of both ways on each link, links that are not connected dashed."""
    region = peering.region()
    topology, _ = topology_of(region.edges)
    topology.neighbours = {peering.id: [], **topology.neighbours}  # this one first
    drawing = Drawing(topology, {id: name or id[:8] for id, name in region.names.items()})
    for link in peering.links.values():
        drawing.counts[peering.id, link.peer] = link.events_in + link.events_out
        if link.peer not in peering.sessions:
            drawing.broken.add((peering.id, link.peer))
            drawing.alarms.add(link.peer)
    if peering.router is not None:
        false = peering.router.router.counters.false_positives
        drawing.marks[peering.id] = [f"{false:,} false"] if false else []
    return draw_overlay(drawing)


def _link_status(peering: Peering, link: Link, filters: int) -> dict[str, Any]:
    connected = link.peer in peering.sessions
    return {
        "peer": link.peer,
        "name": link.label,
        "by": link.name,
        "dialed": link.dialed,
        "connected": connected,
        "reason": None if connected else link.reason,
        "connects": link.connects,
        "filters": filters,
        "cursor": link.cursor,
        "lag": None if link.cursor is None else max(0, peering.log.end - link.cursor),
        **{name: getattr(link, name) for name in _LINK_COUNTS},
        "missed_entries": link.missed,
    }


def _routing_status(routing: LinkRouter) -> dict[str, Any]:
    """The counts of the router. Called in its thread."""
    router, counters = routing.router, routing.router.counters
    view = router.view(router.version)
    assert view is not None
    return {
        "version": list(router.version),
        "tree_nodes": len(view.snapshot),
        "tree_filters": len(view.snapshot.keys),
        "is_optimizer": router.optimizer is not None,
        "optimizer": router.leader or None,
        "filters": len(router.interests),
        "filters_of_peers": {peer: len(routing.held(peer)) for peer in routing.peers},
        **{name: getattr(counters, name) for name in _ROUTER_COUNTS},
        "refused_filters": counters.refused_filters + routing.refused_filters,
        "prefix_bytes": median(counters.prefix_bytes) if counters.prefix_bytes else None,
        "prefix_nodes": median(counters.prefix_nodes) if counters.prefix_nodes else None,
    }
