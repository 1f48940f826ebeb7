"""The overlay of the equality tree: a small plain tree of Python objects for what was added since the last batch.

The tree of Gryphon, section 4, without its tails of `*` edges: a subscription ends at the node after its last test.
Levels are attributes in the order in which they came.
"""

from __future__ import annotations

from whimbrel.model.event import Event
from whimbrel.model.values import SortKey

Tests = tuple[tuple[str, SortKey], ...]
"""A subscription: the attributes that it tests, and the value that each must have."""


class _Node:
    __slots__ = ("edges", "numbers", "star")

    def __init__(self) -> None:
        self.edges: dict[SortKey, _Node] = {}
        self.star: _Node | None = None
        self.numbers: set[int] = set()

    def child(self, key: SortKey | None) -> _Node:
        if key is not None:
            return self.edges.setdefault(key, _Node())
        if self.star is None:
            self.star = _Node()
        return self.star

    def is_bare(self) -> bool:
        return not (self.edges or self.numbers or self.star)


class Overlay:
    """Recent subscriptions; add, remove and search walk one path per subscription.

    >>> overlay = Overlay()
    >>> overlay.add(7, (("city", (2, "Oslo")),))
    >>> overlay.search(Event({"city": "Oslo"}))
    ([7], 2)
    """

    def __init__(self) -> None:
        self._root = _Node()
        self._levels: dict[str, int] = {}
        self.tests: dict[int, Tests] = {}

    def add(self, number: int, tests: Tests) -> None:
        """Add a subscription. O(levels)."""
        for name, _ in tests:
            self._levels.setdefault(name, len(self._levels))
        self.tests[number] = tests
        node = self._root
        for key in self._path(tests):
            node = node.child(key)
        node.numbers.add(number)

    def remove(self, number: int) -> None:
        """Remove a subscription, and every node that is bare without it. O(levels)."""
        keys = self._path(self.tests.pop(number))
        path = [self._root]
        for key in keys:
            path.append(path[-1].child(key))
        path[-1].numbers.remove(number)
        for parent, key, node in zip(reversed(path[:-1]), reversed(keys), reversed(path[1:]), strict=True):
            if not node.is_bare():
                break
            if key is None:
                parent.star = None
            else:
                del parent.edges[key]

    def search(self, event: Event) -> tuple[list[int], int]:
        """The numbers that the event matches, and how many nodes were visited."""
        keys = [next(iter(event.keys(name)), None) for name in self._levels]
        found: list[int] = []
        visited = 0
        stack = [(self._root, 0)]
        while stack:
            node, level = stack.pop()
            visited += 1
            found += node.numbers
            key = keys[level] if level < len(keys) else None
            if node.star is not None:
                stack.append((node.star, level + 1))
            if key is not None and (child := node.edges.get(key)) is not None:
                stack.append((child, level + 1))
        return found, visited

    def _path(self, tests: Tests) -> list[SortKey | None]:
        """The labels of a subscription's edges: up to its last test, None for `*`."""
        keys = {self._levels[name]: key for name, key in tests}
        return [keys.get(level) for level in range(max(keys) + 1)]

    def nodes(self) -> int:
        """How many nodes there are. O(nodes)."""
        count, stack = 0, [self._root]
        while stack:
            node = stack.pop()
            count += 1
            stack += node.edges.values()
            if node.star is not None:
                stack.append(node.star)
        return count

    def check(self) -> None:
        """Assert that every subscription is at the end of its path, and that nothing else is there."""
        held: dict[int, list[SortKey | None]] = {}
        stack: list[tuple[_Node, list[SortKey | None]]] = [(self._root, [])]
        while stack:
            node, path = stack.pop()
            assert node is self._root or not node.is_bare()
            held.update((number, path) for number in node.numbers)
            stack += ((child, [*path, key]) for key, child in node.edges.items())
            if node.star is not None:
                stack.append((node.star, [*path, None]))
        assert held == {number: self._path(tests) for number, tests in self.tests.items()}
