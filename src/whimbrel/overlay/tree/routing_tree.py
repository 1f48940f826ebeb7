"""The routing tree: the paths of all filters, shared where they begin alike.

A node has one attribute and one set of its values. Siblings on one attribute have disjoint sets, attributes do not
decrease along a path, and a set below another of the same attribute is part of it. A path whose first set overlaps a
sibling in part is split: what they share goes below the sibling, the rest stays beside it. Suffixes and substrings are
not split: their nodes may overlap others, and matching visits all of them.

Every node counts the paths of each filter that end at it. The tree also knows how much it differs from what was
published last, in time that is proportional to the depth of a change: a node at depth k weighs `decay` ** (k - 1).

Z. Jerzak, C. Fetzer: Prefix Forwarding for Publish/Subscribe, DEBS 2007, sections 4.1 and 5. Corrections ERR-22b,
ERR-22c, AMB-22d and ERR-22h are in docs/papers.md.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TypeAlias

from whimbrel.model.constraint import Constraint
from whimbrel.model.intervals import ALL, IntervalSet
from whimbrel.overlay.tree.lane import ChildLane, divide
from whimbrel.overlay.tree.paths import Path

PIECES = 1_024
"""Pieces that one path is split into, at most. What is left then stays at the nodes above it, which widens it."""
TREE_PIECES = 1 << 17
"""Pieces of a tree: one that has more, and FEW_PIECES more for each filter, splits a new path into FEW_PIECES at most.

Without it n ranges that overlap each other in part would make n * n / 2 pieces."""
FEW_PIECES = 16
_NEGLIGIBLE = 1e-15
"""Changes of a node's weight that are not told its ancestors: a chain of nodes may be thousands deep."""


class Node:
    """A node: `values` of `attribute`, or `pattern` if it has suffixes or substrings.

    `ends` counts the paths that end here by filter. `weight` is the sum over all nodes below; `added` and `removed` are
    the parts of it that are new, or gone, since the tree was published as number `touched`. `born` is the number of
    the publication that the node, at this place, came after. `top` is the lane from which nodes of this attribute go
    down to it.
    """

    __slots__ = (
        "added",
        "attribute",
        "born",
        "ends",
        "lanes",
        "number",
        "parent",
        "pattern",
        "patterns",
        "removed",
        "top",
        "touched",
        "values",
        "weight",
    )

    def __init__(self, attribute: str, values: IntervalSet, pattern: Constraint | None, parent: Node | None) -> None:
        self.attribute = attribute
        self.values = values
        self.pattern = pattern
        self.parent = parent
        self.lanes: dict[str, ChildLane[Node]] = {}
        self.patterns: list[Node] = []
        self.ends: dict[Hashable, int] = {}
        self.weight = self.added = self.removed = 0.0
        self.touched = self.born = 0
        self.number = 0
        self.top: ChildLane[Node] | None = None

    @property
    def constraint(self) -> Constraint:
        """What a value of the attribute must satisfy."""
        return self.pattern or Constraint(values=self.values)

    def children(self) -> Iterator[Node]:
        """The children in the order of their numbers: by attribute, then by values; patterns last."""
        for attribute in sorted(self.lanes):
            yield from self.lanes[attribute].distinct()
        yield from self.patterns


_Step: TypeAlias = tuple[Node, int, IntervalSet | None]
"""A node, the step of a path that goes below it, and the part of that step's values, if they were split."""


class RoutingTree:
    """A tree of the paths of filters, each filter under a key.

    >>> from whimbrel import Filter
    >>> from whimbrel.overlay.tree.paths import paths_of
    >>> tree = RoutingTree()
    >>> for key, text in (("r1", "x > 5 AND y < 3"), ("r2", "x < 9")):
    ...     tree.insert(key, paths_of(Filter.parse(text)))
    >>> len(tree)
    4
    """

    def __init__(self, decay: float = 0.5) -> None:
        self.root = Node("", ALL, None, None)
        self.decay = decay
        self._nodes = 0
        self._pieces = 0
        self._where: dict[Hashable, list[Node]] = {}
        self._publication = 1
        self._published_weight = 0.0

    @staticmethod
    def rebuilt(
        decay: float,
        keys: Sequence[Hashable],
        nodes: Iterable[tuple[int, str, IntervalSet, Constraint | None, Sequence[int]]],
    ) -> RoutingTree:
        """A tree from its nodes in preorder: depth, attribute, values, pattern, and which of the keys end there.

        ValueError if they make no tree: siblings overlap, or a set is not part of the one above it.
        """
        tree = RoutingTree(decay)
        tree._where = {key: [] for key in keys}
        branch: list[Node] = []
        made: list[Node] = []
        for depth, attribute, values, pattern, ends in nodes:
            if depth > len(branch) or (depth == 0) != (not branch):
                raise ValueError(f"a node at depth {depth} after one at depth {len(branch) - 1}")
            del branch[depth:]
            node = Node(attribute, values, pattern, branch[-1]) if depth else tree.root
            if depth:
                tree._attach(node)
                made.append(node)
                if node.top is not None and branch[-1].top is node.top and not _is_part(values, branch[-1].values):
                    raise ValueError("a set of values that is not part of the one above it")
            for number in ends:
                node.ends[keys[number]] = 1
                tree._pieces += 1
                tree._where[keys[number]].append(node)
            branch.append(node)
        for node in reversed(made):  # children before their parents
            assert node.parent is not None
            node.parent.weight += 1 + decay * node.weight
            for lane in node.lanes.values():
                lane.check()
        for lane in tree.root.lanes.values():
            lane.check()
        tree._nodes = len(made)
        tree.mark_published()
        return tree

    def __len__(self) -> int:
        """The number of nodes, without the root."""
        return self._nodes

    def __contains__(self, key: Hashable) -> bool:
        return key in self._where

    def __iter__(self) -> Iterator[Hashable]:
        """The keys of the filters."""
        return iter(self._where)

    def insert(self, key: Hashable, paths: Iterable[Path]) -> None:
        """Insert the paths of a filter. A key may be inserted several times; `remove` undoes all of them."""
        ends = self._where.setdefault(key, [])
        for path in paths:
            for node in self._place(path):
                self._pieces += key not in node.ends
                node.ends[key] = node.ends.get(key, 0) + 1
                ends.append(node)

    def remove(self, key: Hashable) -> None:
        """Remove a filter, and the nodes that no other needs."""
        for node in self._where.pop(key):
            self._pieces -= node.ends.pop(key, 0) > 0
            self._prune(node)

    def difference(self) -> float:
        """How much it differs from what was published: 0 if it is the same, 1 if they share no child of the root."""
        root, total = self._touch(self.root), self.root.weight + self._published_weight
        return (root.added + root.removed) / total if total else 0.0

    def mark_published(self) -> None:
        """Note that the tree was published: `difference` compares with this state from now on."""
        self._published_weight = self.root.weight
        self._publication += 1

    def _place(self, path: Path) -> list[Node]:
        """The nodes at which the pieces of a path end, made where they are missing."""
        found: list[Node] = []
        pending: list[_Step] = [(self.root, 0, None)]
        is_large = self._pieces > TREE_PIECES + FEW_PIECES * len(self._where)
        most = FEW_PIECES if is_large else PIECES
        while pending and len(found) + len(pending) <= most:
            node, step, part = pending.pop()
            if step == len(path):
                found.append(node)
                continue
            name, constraint = path[step]
            if constraint.is_plain:
                pending += self._descend(node, name, part or constraint.values, step)
            else:
                pending.append(self._descend_pattern(node, name, constraint, step))
        return found + [node for node, _, _ in pending]

    def _descend(self, node: Node, name: str, values: IntervalSet, step: int) -> list[_Step]:
        """Where a set of values goes below a node: what it shares with siblings below those, the rest to its own node.

        Makes that node if it is missing.
        """
        lane, steps = node.lanes.get(name), list[_Step]()
        covered, rest = list[Node](), values
        if lane is not None:
            top = node.top if node.top is not None and node.attribute == name else lane
            found = divide(lane, top, values, lambda child: child.lanes.get(name), lambda child: child.values)
            node, covered, rest = found.container or node, found.covered, found.rest
            if found.is_equal:
                return [(node, step + 1, None)]
            steps = [(child, step, part) for child, part in found.shared]
            if not rest:
                return steps
            if len(covered) == 1 and covered[0].values.cuts == rest.cuts:
                return [*steps, (covered[0], step + 1, None)]
        inner = Node(name, rest, None, node)
        self._link(inner, covered)
        return [*steps, (inner, step + 1, None)]

    def _descend_pattern(self, node: Node, name: str, constraint: Constraint, step: int) -> _Step:
        """Where a pattern goes below a node: to an equal one, below one that covers it, or to its own node."""
        covered = []
        for child in node.patterns:
            if child.attribute == name:
                theirs = child.constraint
                if theirs == constraint:
                    return child, step + 1, None
                if theirs.covers(constraint):
                    return child, step, None
                if constraint.covers(theirs):
                    covered.append(child)
        inner = Node(name, constraint.values, constraint, node)
        self._link(inner, covered)
        return inner, step + 1, None

    def _link(self, node: Node, covered: list[Node]) -> None:
        """Add a new node to its parent, and move the `covered` siblings below it."""
        parent, decay = node.parent, self.decay
        assert parent is not None
        weight = added = removed = 0.0
        for child in covered:
            self._touch(child)
            share = 1 + decay * child.weight
            weight -= share
            if child.born == self._publication:
                added -= share
            else:
                added -= decay * child.added
                removed += 1 + decay * (child.weight - child.added)
            node.weight += share
            child.parent, child.born = node, self._publication
        if covered and node.pattern is None:
            node.lanes[node.attribute] = parent.lanes[node.attribute].split_off(node.values)
        elif covered:
            node.patterns = covered
            parent.patterns = [child for child in parent.patterns if child.parent is parent]
        node.born = node.touched = self._publication
        self._attach(node)
        self._nodes += 1
        share = 1 + decay * node.weight
        self._add_weight(parent, weight + share, added + share, removed)

    def _prune(self, node: Node) -> None:
        """Remove a node and its ancestors, as far as nothing ends at or below them."""
        while node.parent is not None and not (node.ends or node.lanes or node.patterns):
            parent = node.parent
            self._detach(node)
            self._nodes -= 1
            is_new = node.born == self._publication
            self._add_weight(parent, -1.0, -1.0 if is_new else 0.0, 0.0 if is_new else 1.0)
            node.parent = None
            node = parent

    def _attach(self, node: Node) -> None:
        """Add a new node to the children of its parent."""
        parent = node.parent
        assert parent is not None
        if node.pattern is not None:
            insort(parent.patterns, node, key=_pattern_order)
            return
        lane = parent.lanes.setdefault(node.attribute, ChildLane())
        lane.add(node.values, node)
        node.top = lane if parent.top is None or parent.attribute != node.attribute else parent.top
        if node.top.nest is not None and len(node.values.cuts) == 2:
            node.top.nest.add(*node.values.cuts, node)

    def _detach(self, node: Node) -> None:
        """Remove a node from the children of its parent."""
        parent = node.parent
        assert parent is not None
        if node.top is None:
            parent.patterns.remove(node)
            return
        lane = parent.lanes[node.attribute]
        lane.remove(node.values)
        if not lane.lows:
            del parent.lanes[node.attribute]
        if node.top.nest is not None and len(node.values.cuts) == 2:
            node.top.nest.remove(*node.values.cuts)

    def _touch(self, node: Node) -> Node:
        """Forget what changed below a node before the last publication."""
        if node.touched != self._publication:
            node.touched = self._publication
            node.added = node.removed = 0.0
        return node

    def _add_weight(self, node: Node, weight: float, added: float, removed: float) -> None:
        """Add to the sums of a node and of those ancestors for which it counts. All that is below a new node is new."""
        decay = self.decay
        while max(abs(weight), abs(added), abs(removed)) > _NEGLIGIBLE:
            self._touch(node)
            node.weight += weight
            node.added += added
            node.removed += removed
            if node.parent is None:
                return
            weight *= decay
            if node.born == self._publication:
                added, removed = weight, 0.0
            else:
                added, removed = added * decay, removed * decay
            node = node.parent

    def _check(self) -> None:
        """Assert every invariant. Takes time quadratic in the children of a node."""
        count, ends, pending = 0, 0, [self.root]
        while pending:
            node = pending.pop()
            children = list(node.children())
            count += len(children)
            ends += sum(node.ends.values())
            assert node is self.root or children or node.ends, "a node that nothing needs"
            assert abs(node.weight - sum(1 + self.decay * child.weight for child in children)) < 1e-6
            for place, child in enumerate(children):
                assert child.parent is node
                assert (child.top is None) == (child.pattern is not None)
                if child.top is not None and child.top.nest is not None and len(child.values.cuts) == 2:
                    assert child.top.nest.innermost(*child.values.cuts) is child
                assert child.attribute >= node.attribute
                assert child.values
                if child.attribute == node.attribute and child.pattern is None and node.pattern is None:
                    assert node.values.covers(child.values)
                for other in children[:place]:
                    if child.attribute == other.attribute and child.pattern is None and other.pattern is None:
                        assert not child.values.overlaps(other.values), "siblings overlap"
            pending += children
        assert count == self._nodes
        assert ends == sum(map(len, self._where.values()))
        assert self._pieces == sum(len(set(map(id, nodes))) for nodes in self._where.values())
        assert 0 <= self.difference() <= 1 + 1e-9


def _pattern_order(node: Node) -> tuple[object, ...]:
    """The order of patterns. A path goes below the first that covers it, so all routers must have them in one order."""
    return node.attribute, node.constraint.sort_key


def _is_part(values: IntervalSet, whole: IntervalSet) -> bool:
    return values.cuts != whole.cuts and whole.covers(values)
