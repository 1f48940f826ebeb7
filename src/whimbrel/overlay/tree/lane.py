"""The children of a node that have sets of values of one attribute. The sets are disjoint, so they can be sorted."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from whimbrel.model.intervals import Cut, IntervalSet
from whimbrel.overlay.tree.nest import DEEP, Nest

Child = TypeVar("Child")


class ChildLane(Generic[Child]):
    """Intervals with the child that each belongs to, by their lower ends. A child may have several intervals.

    `nest` has the single intervals of all nodes of the attribute from here down, once a walk among them was long.
    """

    __slots__ = ("children", "highs", "lows", "nest")

    def __init__(self) -> None:
        self.lows: list[Cut] = []
        self.highs: list[Cut] = []
        self.children: list[Child] = []
        self.nest: Nest[Child] | None = None

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

    def check(self) -> None:
        """Raise ValueError if two children overlap."""
        if any(low < high for low, high in zip(self.lows[1:], self.highs, strict=False)):
            raise ValueError("siblings that overlap")


def innermost(
    lane: ChildLane[Child],
    top: ChildLane[Child],
    low: Cut,
    high: Cut,
    below: Callable[[Child], ChildLane[Child] | None],
    values: Callable[[Child], IntervalSet],
) -> Child | None:
    """The child, from a lane down, that is the last to have all values between two cuts in one of its intervals.

    `below` is the lane of a child on the same attribute, `top` the lane in which nodes of that attribute begin. A long
    walk makes its nest, so that the next ones begin deep in the chain.
    """
    found, levels, at = None, 0, lane
    while (around := at.covering(low, high)) is not None:
        found = around
        if levels == DEEP and top.nest is None:
            top.nest = Nest(_single_intervals(top, below, values))
        if top.nest is not None and levels in (0, DEEP):
            found = top.nest.innermost(low, high) or around
        following = below(found)
        if following is None:
            break
        at, levels = following, levels + 1
    return found


def _single_intervals(
    top: ChildLane[Child],
    below: Callable[[Child], ChildLane[Child] | None],
    values: Callable[[Child], IntervalSet],
) -> Iterator[tuple[Cut, Cut, Child]]:
    """The children from a lane down whose sets are one interval, with its ends."""
    pending = [top]
    while pending:
        for child in pending.pop().distinct():
            cuts = values(child).cuts
            if len(cuts) == 2:
                yield cuts[0], cuts[1], child
            lane = below(child)
            if lane is not None:
                pending.append(lane)
