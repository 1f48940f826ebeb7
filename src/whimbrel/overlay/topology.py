"""Which routers are linked. Links form a tree: one that would close a cycle is refused."""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from random import Random

from whimbrel.model.errors import WhimbrelError


class Shape(StrEnum):
    """How the routers of a simulation are linked."""

    TREE = "tree"
    PATH = "path"
    RANDOM = "random"


class LinkClosesCycle(WhimbrelError):
    """A link between routers that are connected already, by `path`."""

    def __init__(self, path: list[str]) -> None:
        self.path = path
        super().__init__(f"Expected a link that closes no cycle, but got one beside {' - '.join(path)}")


class Topology:
    """Routers by name, each with its neighbours.

    >>> topology = Topology()
    >>> topology.link("a", "b")
    >>> topology.link("b", "c")
    >>> topology.link("c", "a")
    Traceback (most recent call last):
    ...
    whimbrel.overlay.topology.LinkClosesCycle: Expected a link that closes no cycle, but got one beside c - b - a
    """

    def __init__(self) -> None:
        self.neighbours: dict[str, list[str]] = {}
        self._leaders: dict[str, str] = {}  # by router, another one that it is connected with; not for the last of them

    @staticmethod
    def of_shape(shape: Shape, routers: int, random: Random) -> Topology:
        """Routers r0, r1, ...: a tree with three children each, a path, or a random tree."""
        made = Topology()
        made.neighbours["r0"] = []
        for number in range(1, routers):
            if shape is Shape.TREE:
                parent = (number - 1) // 3
            else:
                parent = number - 1 if shape is Shape.PATH else random.randrange(max(0, number - 60), number)
            made.link(f"r{parent}", f"r{number}")
        return made

    def link(self, one: str, two: str) -> None:
        """Link two routers; LinkClosesCycle if they are connected."""
        if self.are_connected(one, two):
            raise LinkClosesCycle(self.path(one, two) or [])
        self._leaders[self._leader(one)] = self._leader(two)
        self.neighbours.setdefault(one, []).append(two)
        self.neighbours.setdefault(two, []).append(one)

    def are_connected(self, one: str, two: str) -> bool:
        """Whether there is a path between two routers, without a search for it."""
        return self._leader(one) == self._leader(two)

    def links(self) -> list[tuple[str, str]]:
        """All links, each once."""
        return [(one, two) for one, others in self.neighbours.items() for two in others if one < two]

    def leaves(self) -> list[str]:
        """The routers with one neighbour; the only router if there is one."""
        return [name for name, others in self.neighbours.items() if len(others) <= 1]

    def path(self, one: str, two: str) -> list[str] | None:
        """The routers from one to another, or None if they are not connected."""
        before: dict[str, str] = {one: one}
        pending = deque([one])
        while pending:
            name = pending.popleft()
            for other in self.neighbours.get(name, ()):
                if other not in before:
                    before[other] = name
                    pending.append(other)
        if two not in before:
            return None
        out = [two]
        while out[-1] != one:
            out.append(before[out[-1]])
        return out[::-1]

    def _leader(self, name: str) -> str:
        """The router that all those connected with this one have in common. Shortens the way to it."""
        leaders = self._leaders
        while (above := leaders.get(name)) is not None:
            leaders[name] = leaders.get(above, above)
            name = above
        return name
