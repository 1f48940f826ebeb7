"""An immutable version of a routing tree, as arrays: events are matched and forwarded on it.

Values become ranks among all cuts of their attribute, so that the kernels compare integers. Filters are known by their
keys: a router that has a filter finds its nodes by the key, and `place` finds where a filter that is younger than the
version belongs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from whimbrel.model.constraint import NULL_KEY, Constraint
from whimbrel.model.event import Event
from whimbrel.model.intervals import Cut, IntervalSet
from whimbrel.overlay.tree.lane import ChildLane, divide
from whimbrel.overlay.tree.paths import Path
from whimbrel.overlay.tree.prefix import (
    CHECK_BYTES,
    EMPTY_VERSION,
    PREFIX_BYTES,
    PREFIX_NODES,
    MalformedPrefix,
    Prefix,
    Version,
    prefix_head,
)
from whimbrel.overlay.tree.routing_tree import PIECES, Node, RoutingTree
from whimbrel.overlay.tree.tree_kernels import (
    ForwardArrays,
    MatchArrays,
    forward_coded,
    forward_tree,
    list_filters,
    match_tree,
)

_Step: TypeAlias = tuple[int, Path, IntervalSet | None]
"""A node, what of a path goes below it, and the part of the first set of values, if it was split."""


class TreeMatch(NamedTuple):
    """The prefix of an event, and the work: `visited` nodes and `compared` bounds and patterns."""

    prefix: Prefix
    visited: int
    compared: int


class TreeSnapshot:
    """A version of a tree. `keys` are the filters in it, `attributes` and `constraints` are those of its nodes.

    It does not change, but keeps buffers: one thread at a time matches with it.
    """

    def __init__(self, tree: RoutingTree, version: Version, digest: bytes = b"") -> None:
        self.version = version
        self.digest = digest
        self.check_bytes = digest[:CHECK_BYTES].ljust(CHECK_BYTES, b"\0")
        self._head = prefix_head(version, self.check_bytes)
        self.keys: list[bytes] = [key for key in tree if isinstance(key, bytes)]
        self.number_of: dict[bytes, int] = {key: number for number, key in enumerate(self.keys)}
        layout = _Layout(tree, self.number_of)
        self.attributes: list[str] = layout.names
        self.constraints: list[Constraint | IntervalSet] = layout.constraints
        self.forwarding = layout.forwarding()
        self.parent = np.array(layout.parent, np.int32)
        self._names = {name: number for number, name in enumerate(layout.cuts)}
        self._cuts = list(layout.cuts.values())
        self._patterns = layout.pattern_list
        self._matching = layout.matching()
        self._seen = np.zeros(len(self), np.int64)
        self._stamp = 0
        self._nodes = np.empty(len(self), np.int32)
        self._children: dict[int, dict[str, ChildLane[int]]] = {}

    def __len__(self) -> int:
        """The number of nodes, with the root."""
        return len(self.constraints)

    def match(self, event: Event, limit: int | None = None) -> TreeMatch:
        """The prefix of an event; it ends at depth `limit`, or at a smaller one where it would have too many nodes."""
        attributes, ranges, ranks = self._encode(event)
        fits, tested = self._fit(event)
        depth = -1 if limit is None else limit
        while True:
            self._stamp += 1
            count, compared = match_tree(
                self._matching, attributes, ranges, ranks, fits, depth, self._seen, self._stamp, self._nodes
            )
            if count - 1 <= PREFIX_NODES.value:
                break
            deepest = int(self._matching.depth[self._nodes[:count]].max())
            depth = deepest // 2
        nodes = np.sort(self._nodes[1:count])
        has_ends = self.forwarding.ends[nodes + 1] > self.forwarding.ends[nodes]
        if depth >= 0:
            has_ends |= self.forwarding.depth[nodes] == depth
        limit = None if depth < 0 else depth
        prefix = Prefix(self.version, self.check_bytes, limit, nodes[has_ends], nodes[~has_ends])
        return TreeMatch(prefix, count, int(compared) + tested)

    def check(self, prefix: Prefix) -> None:
        """Raise MalformedPrefix if a prefix of this version has numbers that are no nodes."""
        if len(prefix.ends) and prefix.ends[-1] >= len(self):
            raise MalformedPrefix(f"numbers of nodes below {len(self):,}", f"{prefix.ends[-1]:,}")

    def forward(self, prefix: Prefix, masks: np.ndarray, wanted: int) -> tuple[int, int]:
        """The interfaces, as bits, that want an event, and the nodes and filters read.

        `masks` has the interfaces of each of `keys`. It stops when all `wanted` ones are found.
        """
        limit = -1 if prefix.limit is None else prefix.limit
        found, read = forward_tree(self.forwarding, prefix.ends, limit, masks, wanted)
        return int(found), int(read)

    def forward_coded(self, data: bytes, masks: np.ndarray, wanted: int) -> tuple[int, int] | None:
        """Forward by a prefix that is still bytes, as `forward` does, in one step.

        None if it has a limit, is malformed, or of another tree.
        """
        if not data.startswith(self._head) or len(data) > PREFIX_BYTES.value:
            return None
        found, read = forward_coded(
            self.forwarding, np.frombuffer(data, np.uint8), len(self._head), PREFIX_NODES.value, masks, wanted
        )
        return (found, read) if read >= 0 else None

    def filters(self, prefix: Prefix, masks: np.ndarray, bit: int) -> tuple[list[bytes], int]:
        """The filters of one interface that an event may match, and the nodes and filters read."""
        out = np.empty(len(self.keys), np.int32)
        limit = -1 if prefix.limit is None else prefix.limit
        count, read = list_filters(self.forwarding, prefix.ends, limit, masks, bit, out)
        return [self.keys[number] for number in out[:count].tolist()], int(read)

    def ends(self, node: int) -> list[bytes]:
        """The filters that end at a node."""
        start, end = self.forwarding.ends[node], self.forwarding.ends[node + 1]
        return [self.keys[number] for number in self.forwarding.end_filter[start:end].tolist()]

    def path(self, node: int) -> list[int]:
        """The nodes from a child of the root to this one."""
        out: list[int] = []
        while node:
            out.append(node)
            node = int(self.parent[node])
        return out[::-1]

    def children(self, node: int) -> list[int]:
        """The children of a node, in the order of their numbers."""
        out, child, last = [], node + 1, int(self.forwarding.following[node])
        while child < last:
            out.append(child)
            child = int(self.forwarding.following[child])
        return out

    def place(self, paths: Iterable[Path]) -> list[int]:
        """The nodes at which a filter that is not in the tree is kept, so that every event it matches comes by one.

        It goes down as `RoutingTree.insert` does, and stops where that would make a node. At the root it gets all
        events.
        """
        found: set[int] = set()
        pending: list[_Step] = [(0, path, None) for path in paths]
        while pending and len(found) + len(pending) <= PIECES:
            node, path, part = pending.pop()
            below = self._below(node, path, part) if path else None
            if below is None:
                found.add(node)
            else:
                pending += below
        return sorted(found.union(node for node, _, _ in pending))

    def _below(self, node: int, path: Path, part: IntervalSet | None) -> list[_Step] | None:
        """Where a path goes below a node; None if some of it needs a node that is not there."""
        (name, constraint), rest = path[0], path[1:]
        if not constraint.is_plain:
            for child in self.children(node):
                theirs = self.constraints[child]
                if isinstance(theirs, Constraint) and self.attributes[child] == name:
                    if theirs == constraint:
                        return [(child, rest, None)]
                    if theirs.covers(constraint):
                        return [(child, path, None)]
            return None
        lane = self._lanes(node).get(name)
        if lane is None:
            return None
        top = lane if node == 0 or self.attributes[node] != name else None
        values = part or constraint.values
        found = divide(lane, top, values, lambda child: self._lanes(child).get(name), self._values)
        if found.is_equal and found.container is not None:
            return [(found.container, rest, None)]
        left = found.rest
        for child in found.covered:
            left = left.minus(self._values(child))
        if left:
            return None if found.container is None else [(found.container, (), None)]
        return [(child, rest, None) for child in found.covered] + [(child, path, both) for child, both in found.shared]

    def _values(self, node: int) -> IntervalSet:
        """The set of values of a node that has no patterns."""
        values = self.constraints[node]
        assert isinstance(values, IntervalSet)
        return values

    def _lanes(self, node: int) -> dict[str, ChildLane[int]]:
        """The children of a node with sets of values, by attribute; made when first asked for."""
        found = self._children.get(node)
        if found is None:
            found = self._children[node] = {}
            for child in self.children(node):
                values = self.constraints[child]
                if isinstance(values, IntervalSet):
                    found.setdefault(self.attributes[child], ChildLane()).add(values, child)
        return found

    def _encode(self, event: Event) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The attributes of an event that the tree knows, sorted, and the ranks of their values."""
        known = sorted((self._names[name], name) for name in event.attributes if name in self._names)
        ranks: list[int] = []
        ranges = [0]
        for number, name in known:
            cuts = self._cuts[number]
            ranks += [bisect_right(cuts, (key[0], 1, key[1], 0)) for key in event.keys(name) if key != NULL_KEY]
            ranges.append(len(ranks))
        attributes = np.array([number for number, _ in known], np.int32)
        return attributes, np.array(ranges, np.int32), np.array(ranks, np.int32)

    def _fit(self, event: Event) -> tuple[np.ndarray, int]:
        """Which patterns some value of the event fits, and how many were tried."""
        fits = np.zeros(len(self._patterns), np.uint8)
        tested = 0
        for number, (name, constraint) in enumerate(self._patterns):
            keys = event.keys(name)
            if keys:
                tested += 1
                fits[number] = constraint.admits(keys)
        return fits, tested


def empty_snapshot() -> TreeSnapshot:
    """The version without nodes."""
    return TreeSnapshot(RoutingTree(), EMPTY_VERSION)


class _Layout:
    """Numbers the nodes of a tree and writes its arrays."""

    def __init__(self, tree: RoutingTree, number_of: dict[bytes, int]) -> None:
        self.names: list[str] = []
        self.constraints: list[Constraint | IntervalSet] = []
        self.parent: list[int] = []
        self._depth: list[int] = []
        self._ends: list[int] = []
        self._end_filter: list[int] = []
        nodes = self._number(tree.root, number_of)
        self._write_lanes(nodes)

    def _number(self, root: Node, number_of: dict[bytes, int]) -> list[Node]:
        nodes: list[Node] = []
        pending = [(root, 0)]
        while pending:
            node, depth = pending.pop()
            node.number = len(nodes)
            nodes.append(node)
            self.names.append(node.attribute)
            self.constraints.append(node.pattern or node.values)
            self.parent.append(node.parent.number if node.parent is not None else 0)
            self._depth.append(depth)
            self._ends.append(len(self._end_filter))
            self._end_filter += [number_of[key] for key in node.ends if isinstance(key, bytes)]
            if node.lanes or node.patterns:
                pending += [(child, depth + 1) for child in reversed(list(node.children()))]
        self._ends.append(len(self._end_filter))
        return nodes

    def _write_lanes(self, nodes: Sequence[Node]) -> None:
        cut_sets: dict[str, set[Cut]] = {}
        for node in nodes[1:]:
            if node.pattern is None:
                cut_sets.setdefault(node.attribute, set()).update(node.values.cuts)
        self.cuts: dict[str, list[Cut]] = {name: sorted(cut_sets[name]) for name in sorted(cut_sets)}
        ranks = {name: {cut: rank for rank, cut in enumerate(cuts)} for name, cuts in self.cuts.items()}
        numbers = {name: number for number, name in enumerate(self.cuts)}
        self.pattern_list: list[tuple[str, Constraint]] = []
        pattern_numbers: dict[tuple[str, Constraint], int] = {}
        self._lanes, self._lane_attribute, self._entries = [0], [], [0]
        self._lows: list[int] = []
        self._highs: list[int] = []
        self._children: list[int] = []
        self._patterns, self._pattern, self._pattern_child = [0], [], []
        for node in nodes:
            for name in sorted(node.lanes):
                lane, rank = node.lanes[name], ranks[name]
                self._lane_attribute.append(numbers[name])
                self._lows += [rank[cut] for cut in lane.lows]
                self._highs += [rank[cut] for cut in lane.highs]
                self._children += [child.number for child in lane.children]
                self._entries.append(len(self._lows))
            self._lanes.append(len(self._lane_attribute))
            for child in node.patterns:
                pattern = (child.attribute, child.constraint)
                if pattern not in pattern_numbers:
                    pattern_numbers[pattern] = len(self.pattern_list)
                    self.pattern_list.append(pattern)
                self._pattern.append(pattern_numbers[pattern])
                self._pattern_child.append(child.number)
            self._patterns.append(len(self._pattern))

    def matching(self) -> MatchArrays:
        lists = (
            self._depth, self._lanes, self._lane_attribute, self._entries, self._lows, self._highs, self._children,
            self._patterns, self._pattern, self._pattern_child,
        )  # fmt: skip
        return MatchArrays(*(np.array(one, np.int32) for one in lists))

    def forwarding(self) -> ForwardArrays:
        parent = self.parent
        following = list(range(1, len(parent) + 1))
        for node in range(len(parent) - 1, 0, -1):
            following[parent[node]] = max(following[parent[node]], following[node])
        lists = (self._depth, following, self._ends, self._end_filter)
        return ForwardArrays(*(np.array(one, np.int32) for one in lists))
