"""A way into deep chains: finds the innermost of many intervals, each inside or outside every other, around two cuts.

Filters such as `price < 1`, `price < 2`, ... lie below each other in a tree, thousands deep, and a walk down the chain
for each makes the insertion of all of them quadratic. The intervals of one attribute below one node are disjoint or
inside each other, so the innermost one around an interval is that with the largest lower end, or the smallest upper
end, of those around it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from typing import Generic, TypeVar

from whimbrel.model.intervals import Cut

Child = TypeVar("Child")

DEEP = 32
"""Levels that a walk goes down before it is worth a nest."""
_TRIES = 16
"""Ends that are tried from either side before a search gives up."""


class Nest(Generic[Child]):
    """Intervals by their ends, each with the child that it belongs to. No two are equal or overlap in part."""

    __slots__ = ("_children", "_highs", "_highs_of", "_lows", "_lows_of")

    def __init__(self, children: Iterable[tuple[Cut, Cut, Child]] = ()) -> None:
        self._lows: list[Cut] = []
        self._highs: list[Cut] = []
        self._highs_of: dict[Cut, list[Cut]] = {}
        self._lows_of: dict[Cut, list[Cut]] = {}
        self._children: dict[tuple[Cut, Cut], Child] = {}
        for low, high, child in children:
            self._highs_of.setdefault(low, []).append(high)
            self._lows_of.setdefault(high, []).append(low)
            self._children[low, high] = child
        for ends in (*self._highs_of.values(), *self._lows_of.values()):
            ends.sort()
        self._lows, self._highs = sorted(self._highs_of), sorted(self._lows_of)

    def add(self, low: Cut, high: Cut, child: Child) -> None:
        """Add an interval."""
        for ends, others, one, two in self._both_ends(low, high):
            if one not in others:
                insort(ends, one)
                others[one] = []
            insort(others[one], two)
        self._children[low, high] = child

    def remove(self, low: Cut, high: Cut) -> None:
        """Remove an interval."""
        for ends, others, one, two in self._both_ends(low, high):
            held = others[one]
            del held[bisect_left(held, two)]
            if not held:
                del others[one], ends[bisect_left(ends, one)]
        del self._children[low, high]

    def _both_ends(self, low: Cut, high: Cut) -> tuple[tuple[list[Cut], dict[Cut, list[Cut]], Cut, Cut], ...]:
        """For each end of an interval: the sorted ends, the other ends of each, this end and the other one."""
        return (self._lows, self._highs_of, low, high), (self._highs, self._lows_of, high, low)

    def innermost(self, low: Cut, high: Cut) -> Child | None:
        """The child with the innermost interval around two cuts; None if there is none, or it was not found."""
        left = bisect_right(self._lows, low) - 1
        right = bisect_left(self._highs, high)
        for _ in range(_TRIES):
            if left < 0 or right == len(self._highs):
                return None
            highs = self._highs_of[self._lows[left]]
            place = bisect_left(highs, high)
            if place < len(highs):
                return self._children[self._lows[left], highs[place]]
            lows = self._lows_of[self._highs[right]]
            place = bisect_right(lows, low) - 1
            if place >= 0:
                return self._children[lows[place], self._highs[right]]
            left, right = left - 1, right + 1
        return None
