"""What a broker knows of the whole overlay: which brokers lie behind which peer. Pure functions.

Links must form a tree. A peer tells what lies on its side of a link, so a link that would close a cycle is refused when
it is made. Two links that are made at the same time may close one together: then the younger one ends, which all
brokers on the cycle decide alike.
"""

from __future__ import annotations

from collections.abc import Iterable

from whimbrel.broker.peering.wire import Edge, Region
from whimbrel.overlay.topology import Topology


def joined(regions: Iterable[Region]) -> Region:
    """Join several regions into one."""
    whole = Region({}, [])
    for region in regions:
        whole.names.update(region.names)
        whole.edges.extend(region.edges)
    return whole


def topology_of(edges: Iterable[Edge]) -> tuple[Topology, list[Edge]]:
    """The tree of the oldest links, and the links that would close a cycle in it."""
    topology = Topology()
    closing: list[Edge] = []
    for since, one, two in sorted({(edge[2], min(edge[:2]), max(edge[:2])) for edge in edges}):
        if two in topology.neighbours.get(one, ()):
            continue  # both ends have told it, with different times
        if topology.are_connected(one, two):
            closing.append((one, two, since))
        else:
            topology.link(one, two)
    return topology, closing


def closed_path(me: str, peer: str, mine: Region, theirs: Region) -> list[str] | None:
    """The path that a link between us would close; None if it closes none. Regions are without that link."""
    if me == peer:
        return [me]
    own = {min(me, peer), max(me, peer)}
    edges = [edge for edge in (*mine.edges, *theirs.edges) if {edge[0], edge[1]} != own]
    return topology_of(edges)[0].path(me, peer)


def in_names(path: Iterable[str], names: dict[str, str]) -> str:
    """A path as text, with the names of brokers instead of their ids."""
    return " - ".join(f"{names[one]} ({one[:8]})" if names.get(one) else one[:8] for one in path)
