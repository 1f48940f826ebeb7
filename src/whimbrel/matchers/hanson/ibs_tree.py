"""The interval binary search tree: intervals as marks on a balanced search tree over their endpoints.

Hanson et al., SIGMOD 1990. Plain Python objects that change in place. A node with key v, in whose part
of the tree keys lie between lo and hi, has three ranges, (lo, v), {v} and (v, hi), with a set of marks for each: the
intervals that cover the whole range and were not marked above. A value is looked for as in any search tree; every
interval that contains it is met exactly once on the way. New keys never invalidate marks, and rotations move them.

Intervals are two cuts of one type, so a tree serves one type of one attribute. A removed interval takes its marks with
it at once; its keys stay until they are as many as those in use, and then the tree is built anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from whimbrel.model.intervals import Cut, edge

Key = Any
"""A value of the tree's type: they compare with each other."""


class MarkedInterval:
    """An interval of values, and the numbers of all that have it in common."""

    __slots__ = ("high", "low", "members")

    def __init__(self, low: Cut, high: Cut) -> None:
        self.low, self.high = low, high
        self.members: set[int] = set()

    def ends(self) -> list[Key]:
        """Its finite endpoints."""
        return [cut[2] for cut in (self.low, self.high) if cut[1]]


class IbsNode:
    """A key, the marks of its three ranges (below, at and above the key), and its children (left and right)."""

    __slots__ = ("children", "height", "key", "marks")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.children: list[IbsNode | None] = [None, None]
        self.height = 1
        self.marks: tuple[set[MarkedInterval], ...] = (set(), set(), set())


def rotate(top: IbsNode, side: int) -> IbsNode:
    """Lift the left (0) or right (1) child over its parent, and return it. Every value keeps its intervals."""
    lifted = top.children[side]
    assert lifted is not None
    near, far = 2 * side, 2 - 2 * side
    beyond = set(lifted.marks[far])  # these cover the range between the two keys
    lifted.marks[near].update(top.marks[near])
    lifted.marks[1].update(top.marks[near])
    top.marks[near].update(beyond)
    whole = set.intersection(*top.marks)
    lifted.marks[far].clear()
    lifted.marks[far].update(whole)
    for marks in top.marks:
        marks.difference_update(whole)
    top.children[side], lifted.children[1 - side] = lifted.children[1 - side], top
    _measure(top)
    _measure(lifted)
    return lifted


def _height(node: IbsNode | None) -> int:
    return node.height if node is not None else 0


def _measure(node: IbsNode) -> None:
    node.height = 1 + max(map(_height, node.children))


def _balanced(node: IbsNode) -> IbsNode:
    """Rotate a subtree that gained one key so that the heights of its children differ by at most one; its new top."""
    _measure(node)
    for side in (0, 1):
        child = node.children[side]
        if child is not None and child.height > _height(node.children[1 - side]) + 1:
            if _height(child.children[side]) < _height(child.children[1 - side]):
                node.children[side] = rotate(child, 1 - side)
            return rotate(node, side)
    return node


class IbsTree:
    """The intervals of one type of values.

    >>> from whimbrel.model.intervals import compare_set
    >>> tree = IbsTree(1)
    >>> for number, (op, value) in enumerate([("<", 5), (">=", 3), ("=", 4)]):
    ...     tree.add(*compare_set(op, (1, value)).cuts, number)
    >>> found = []
    >>> visited = tree.search(4, found)
    >>> sorted(number for interval in found for number in interval.members)
    [0, 1, 2]
    """

    def __init__(self, kind: int) -> None:
        self.kind = kind
        self.root: IbsNode | None = None
        self.intervals: dict[tuple[Cut, Cut], MarkedInterval] = {}
        self.nodes = 0
        self._uses: Counter[Key] = Counter()

    def add(self, low: Cut, high: Cut, member: int) -> None:
        """Add a member to an interval; a new interval costs O(log^2 n)."""
        interval = self.intervals.get((low, high))
        if interval is None:
            interval = self.intervals[low, high] = MarkedInterval(low, high)
            for key in interval.ends():
                self._uses[key] += 1
                self.root = self._with_key(self.root, key)
            for marks in self._mark_sets(interval):
                marks.add(interval)
        interval.members.add(member)

    def remove(self, low: Cut, high: Cut, member: int) -> None:
        """Remove a member, and the interval with its last one."""
        interval = self.intervals[low, high]
        interval.members.remove(member)
        if interval.members:
            return
        del self.intervals[low, high]
        for marks in self._mark_sets(interval):
            marks.remove(interval)
        for key in interval.ends():
            self._uses[key] -= 1
            if not self._uses[key]:
                del self._uses[key]
        if self.nodes > 2 * len(self._uses) + 8:
            self.drop_unused_keys()

    def search(self, value: Key, found: list[MarkedInterval]) -> int:
        """Append the intervals that contain a value, each once. Return how many nodes that took. O(log n + found)."""
        whole = self.whole
        if whole is not None:
            found.append(whole)
        node, visited = self.root, 0
        while node is not None:
            visited += 1
            if value == node.key:
                found += node.marks[1]
                break
            side = int(value > node.key)
            found += node.marks[2 * side]
            node = node.children[side]
        return visited

    @property
    def whole(self) -> MarkedInterval | None:
        """The interval of all values of the type, which has no end to be a key and so no marks."""
        return self.intervals.get((edge(self.kind), edge(self.kind + 1)))

    def drop_unused_keys(self) -> None:
        """Build the tree anew from the keys in use, as flat as can be, if it has others."""
        if self.nodes == len(self._uses):
            return
        keys = sorted(self._uses)
        self.nodes = len(keys)
        self.root = _tree(keys, 0, len(keys))
        for interval in self.intervals.values():
            for marks in self._mark_sets(interval):
                marks.add(interval)

    def _with_key(self, node: IbsNode | None, key: Key) -> IbsNode:
        if node is None:
            self.nodes += 1
            return IbsNode(key)
        if key == node.key:
            return node
        side = int(key > node.key)
        node.children[side] = self._with_key(node.children[side], key)
        return _balanced(node)

    def _mark_sets(self, interval: MarkedInterval) -> list[set[MarkedInterval]]:
        """The sets of marks that an interval belongs in."""
        out: list[set[MarkedInterval]] = []
        waiting = [(self.root, edge(self.kind), edge(self.kind + 1))] if interval.ends() else []
        while waiting:
            node, low, high = waiting.pop()
            if node is None:
                continue
            before: Cut = (self.kind, 1, node.key, 0)
            after: Cut = (self.kind, 1, node.key, 1)
            if interval.low <= before < interval.high:
                out.append(node.marks[1])
            for side, (start, stop) in enumerate(((low, before), (after, high))):
                if interval.low <= start and stop <= interval.high:
                    out.append(node.marks[2 * side])
                elif interval.low < stop and start < interval.high:
                    waiting.append((node.children[side], start, stop))
        return out

    def check(self) -> None:
        """Assert the order and balance of the keys, and that marks are exactly where marking anew would put them."""
        marked: dict[int, set[MarkedInterval]] = {}
        for interval in self.intervals.values():
            assert interval.members
            for marks in self._mark_sets(interval):
                marked.setdefault(id(marks), set()).add(interval)
        keys = []
        for node in nodes_of(self.root):
            keys.append(node.key)
            heights = [_height(child) for child in node.children]
            assert abs(heights[0] - heights[1]) <= 1 and node.height == 1 + max(heights)
            for marks in node.marks:
                assert marks == marked.get(id(marks), set())
        assert keys == sorted(set(keys)) and len(keys) == self.nodes
        assert self._uses == Counter(key for interval in self.intervals.values() for key in interval.ends())
        assert self._uses.keys() <= set(keys)


def nodes_of(root: IbsNode | None) -> Iterator[IbsNode]:
    """The nodes in order of their keys."""
    above: list[IbsNode] = []
    node = root
    while node is not None or above:
        while node is not None:
            above.append(node)
            node = node.children[0]
        node = above.pop()
        yield node
        node = node.children[1]


def _tree(keys: list[Key], start: int, stop: int) -> IbsNode | None:
    if start == stop:
        return None
    middle = (start + stop) // 2
    node = IbsNode(keys[middle])
    node.children = [_tree(keys, start, middle), _tree(keys, middle + 1, stop)]
    _measure(node)
    return node
