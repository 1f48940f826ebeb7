"""The children of a node that have sets of values of one attribute. The sets are disjoint, so they can be sorted."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Generic, TypeVar

from whimbrel.model.intervals import Cut, IntervalSet

Child = TypeVar("Child")


class ChildLane(Generic[Child]):
    """Intervals with the child that each belongs to, by their lower ends. A child may have several intervals."""

    __slots__ = ("children", "highs", "lows")

    def __init__(self) -> None:
        self.lows: list[Cut] = []
        self.highs: list[Cut] = []
        self.children: list[Child] = []

    def add(self, values: IntervalSet, child: Child) -> None:
        """Add the intervals of a child; they overlap no others."""
        for low, high in values.pairs():
            place = bisect_left(self.lows, low)
            self.lows.insert(place, low)
            self.highs.insert(place, high)
            self.children.insert(place, child)

    def remove(self, values: IntervalSet) -> None:
        """Remove the intervals of a child."""
        for low, _ in values.pairs():
            place = bisect_left(self.lows, low)
            del self.lows[place], self.highs[place], self.children[place]

    def covering(self, low: Cut, high: Cut) -> Child | None:
        """The child that has all values between two cuts in one of its intervals; None if there is none."""
        place = bisect_right(self.lows, low) - 1
        return self.children[place] if place >= 0 and high <= self.highs[place] else None

    def overlapping(self, values: IntervalSet) -> Iterator[Child]:
        """The children that share a value with the set, each once, and perhaps some that only touch it."""
        seen: set[int] = set()
        for low, high in values.pairs():
            place = bisect_right(self.lows, low) - 1
            if place < 0 or self.highs[place] <= low:
                place += 1
            while place < len(self.lows) and self.lows[place] < high:
                child = self.children[place]
                if id(child) not in seen:
                    seen.add(id(child))
                    yield child
                place += 1

    def distinct(self) -> list[Child]:
        """The children, each once, by their first interval."""
        return list({id(child): child for child in self.children}.values())
