"""What the experiments of prefix forwarding share: trees of the paper's filters, their levels, prefixes of events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from whimbrel.lab.harness.experiment import Point
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter
from whimbrel.overlay.simulation.paper_workload import Distribution, PaperWorkload
from whimbrel.overlay.tree.paths import Interest
from whimbrel.overlay.tree.routing_tree import RoutingTree
from whimbrel.overlay.tree.tree_snapshot import TreeSnapshot

DISTRIBUTIONS = [one.value for one in Distribution]
EVENTS = 100
"""Events whose prefixes are looked at, as in the paper."""
SETTING = (
    "Filters of 2 to 8 and events of 2 to 12 constraints, values in [-50, 50]; 1,000 attribute names are ours.",
    "Substitute: the paper leaves its generator open in part, so absolute sizes differ (docs/papers.md, section 24).",
)
NO_CLAIM = "No claim about this figure is known that could be tested; it is drawn for comparison."


@dataclass(frozen=True, slots=True)
class GrownTree:
    """A version of a tree, and the depth of each of its nodes; the root has depth 0."""

    snapshot: TreeSnapshot
    depths: np.ndarray

    def __len__(self) -> int:
        """The number of nodes, without the root."""
        return len(self.snapshot) - 1

    def levels(self) -> dict[int, int]:
        """The number of nodes at each depth, without the root."""
        return dict(sorted(Counter(self.depths[1:].tolist()).items()))

    def prefixes(self, events: Iterable[Event]) -> Iterator[np.ndarray]:
        """The depths of the nodes in the prefix of each event."""
        for event in events:
            yield self.depths[self.snapshot.match(event).prefix.nodes]


def grown(filters: Iterable[Filter]) -> GrownTree:
    """The tree of these filters."""
    tree = RoutingTree()
    for filter in filters:
        interest = Interest(filter)
        tree.insert(interest.key, interest.paths)
    snapshot = TreeSnapshot(tree, (1, 1))
    depths = np.zeros(len(snapshot), np.int64)
    parents = snapshot.parent
    for node in range(1, len(snapshot)):  # parents come first
        depths[node] = depths[parents[node]] + 1
    return GrownTree(snapshot, depths)


def paper_tree(point: Point) -> tuple[GrownTree, list[Event]]:
    """A tree of filters drawn from the distribution of a point, and events drawn from the same."""
    workload = PaperWorkload(Distribution(str(point["distribution"])), seed=1)
    tree = grown(workload.filter() for _ in range(int(point["n"])))
    return tree, [Event(workload.event()) for _ in range(EVENTS)]
