"""Explains a route: which hop forwarded an event, by which node and filter, and which stopped it.

It walks the routers as the event would, without changing any of them, so it can be asked of any event at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from whimbrel.model import dialects
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.constraint import Constraint
from whimbrel.model.event import Event
from whimbrel.overlay.router.prefix_router import PrefixRouter
from whimbrel.overlay.router.router import LOCAL
from whimbrel.overlay.router.view import TreeView
from whimbrel.overlay.tree.prefix import MalformedPrefix, Prefix
from whimbrel.overlay.tree.tree_snapshot import TreeSnapshot


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an interface gets an event: `filter` ends at `node` of the prefix, which is reached by `path`."""

    node: int
    path: str
    filter: str


@dataclass(frozen=True, slots=True)
class Hop:
    """What one router does with an event.

    `how` it knows the prefix: it matched the event, or read what came with it. `forwarded` are the neighbours that get
    it, `stopped` those of which no filter ends at a node of the prefix. `delivered` and `refused` are local filters
    that match and that do not, after the check at the edge.
    """

    router: str
    arrival: str | None
    how: str
    nodes: int
    forwarded: dict[str, Reason]
    stopped: list[str]
    delivered: dict[str, str]
    refused: list[str]


def trace(routers: Mapping[str, PrefixRouter], start: str, event: Event) -> list[Hop]:
    """The hops of an event that is published at `start`, first to last."""
    hops: list[Hop] = []
    pending: list[tuple[str, str | None, Prefix | None]] = [(start, None, None)]
    while pending:
        name, arrival, prefix = pending.pop(0)
        hop, onward = trace_hop(routers[name], arrival, prefix, event)
        hops.append(hop)
        pending += [(neighbour, name, onward) for neighbour in hop.forwarded]
    return hops


def trace_hop(router: PrefixRouter, arrival: str | None, prefix: Prefix | None, event: Event) -> tuple[Hop, Prefix]:
    """What a router does with an event that came from a neighbour with a prefix, and its prefix from there on."""
    view = None if prefix is None else router.view(prefix.version)
    if prefix is None or view is None or not _fits(prefix, view.snapshot):
        view = router.view(router.version)
        assert view is not None
        how = "match" if prefix is None else "fallback"
        prefix = view.snapshot.match(event, router.depth).prefix
    else:
        how = "prefix"
    forwarded: dict[str, Reason] = {}
    stopped: list[str] = []
    for neighbour in router.neighbours:
        if neighbour != arrival:
            reason = _reason(router, view, prefix, router.bit(neighbour))
            if reason is None:
                stopped.append(neighbour)
            else:
                forwarded[neighbour] = reason
    delivered: dict[str, str] = {}
    refused: list[str] = []
    for key in view.filters(prefix, LOCAL)[0]:
        interest = router.table[key]
        if interest.filter.matches(event):
            delivered.update(dict.fromkeys(router.subscriptions_of(key), interest.text))
        else:
            refused.append(interest.text)
    return Hop(router.name, arrival, how, len(prefix), forwarded, stopped, delivered, refused), prefix


def _fits(prefix: Prefix, snapshot: TreeSnapshot) -> bool:
    """Whether a prefix is of this tree, and all its numbers are nodes: a peer may have sent any bytes."""
    try:
        snapshot.check(prefix)
        return prefix.check == snapshot.check_bytes and all(prefix.others < len(snapshot))
    except MalformedPrefix:
        return False


def _reason(router: PrefixRouter, view: TreeView, prefix: Prefix, bit: int) -> Reason | None:
    """The first node of a prefix at which a filter of an interface ends."""
    snapshot = view.snapshot
    for node in (0, *prefix.nodes.tolist()):
        is_cut = prefix.limit is not None and snapshot.forwarding.depth[node] == prefix.limit
        last = int(snapshot.forwarding.following[node]) if is_cut else node + 1
        for inner in range(node, last):
            for key in snapshot.ends(inner):
                if router.interests.get(key, 0) & bit:
                    return Reason(node, _path(snapshot, node), router.table[key].text)
    for key in view.younger(prefix):
        if router.interests[key] & bit:
            return Reason(0, "younger than the tree", router.table[key].text)
    return None


def _path(snapshot: TreeSnapshot, node: int) -> str:
    """The tests of the nodes from the root to a node, as text."""
    return " / ".join(_text(snapshot, one) for one in snapshot.path(node)) or "root"


def _text(snapshot: TreeSnapshot, node: int) -> str:
    found = snapshot.constraints[node]
    constraint = found if isinstance(found, Constraint) else Constraint(values=found)
    return dialects.printer().print_conjunction(Conjunction(((snapshot.attributes[node], constraint),)))


def as_object(hop: Hop) -> dict[str, Any]:
    """A hop as JSON-ready data."""
    return {
        "router": hop.router, "from": hop.arrival, "by": hop.how, "prefix_nodes": hop.nodes,
        "forwarded": {
            name: {"node": reason.node, "path": reason.path, "filter": reason.filter}
            for name, reason in hop.forwarded.items()
        },
        "stopped": hop.stopped, "delivered": hop.delivered, "refused": hop.refused,
    }  # fmt: skip


_HOW = {"match": "matched", "prefix": "prefix read", "fallback": "prefix unknown, matched again"}


def as_text(hops: Iterable[Mapping[str, Any]]) -> str:
    """Hops, given as objects, as people read them."""
    lines: list[str] = []
    for hop in hops:
        came = "published" if hop["from"] is None else f"from {hop['from']}"
        if hop["by"] == "unreachable":
            lines.append(f"{hop['router']}: {came}; not connected, the event waits")
            continue
        lines.append(f"{hop['router']}: {came}; {_HOW[hop['by']]}, {hop['prefix_nodes']} nodes")
        for name, reason in hop["forwarded"].items():
            lines.append(f"  -> {name}: node {reason['node']} ({reason['path']}), filter {reason['filter']}")
        if hop["stopped"]:
            stopped = ", ".join(hop["stopped"])
            lines.append(f"  stops before {stopped}: no filter from there ends at a node of the prefix")
        lines += [f"  delivered to {name}: {text}" for name, text in hop["delivered"].items()]
        lines += [f"  false positive, refused at the edge: {text}" for text in hop["refused"]]
        if not hop["forwarded"] and not hop["delivered"]:
            lines.append("  ends here")
    return "\n".join(lines) + "\n"
