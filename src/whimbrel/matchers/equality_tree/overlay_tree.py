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
    __slots__ = ("edges", "numbers")

    def __init__(self) -> None:
        self.edges: dict[SortKey | None, _Node] = {}  # None is `*`
        self.numbers: set[int] = set()


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
            node = node.edges.setdefault(key, _Node())
        node.numbers.add(number)

    def remove(self, number: int) -> None:
        """Remove a subscription, and every node that is bare without it. O(levels)."""
        keys = self._path(self.tests.pop(number))
        path = [self._root]
        for key in keys:
            path.append(path[-1].edges[key])
        path[-1].numbers.remove(number)
        for parent, key, node in zip(reversed(path[:-1]), reversed(keys), reversed(path[1:]), strict=True):
            if node.edges or node.numbers:
                break
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
            for key in {None, keys[level]} if node.edges else ():
                if key in node.edges:
                    stack.append((node.edges[key], level + 1))
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
        return count

    def check(self) -> None:
        """Assert that every subscription is at the end of its path, and that nothing else is there."""
        held: dict[int, list[SortKey | None]] = {}
        stack: list[tuple[_Node, list[SortKey | None]]] = [(self._root, [])]
        while stack:
            node, path = stack.pop()
            assert node is self._root or node.edges or node.numbers
            held.update((number, path) for number in node.numbers)
            stack += ((child, [*path, key]) for key, child in node.edges.items())
        assert held == {number: self._path(tests) for number, tests in self.tests.items()}
