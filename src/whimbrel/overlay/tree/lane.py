"""The children of a node on one attribute, sorted; how a set of values lies among them and those below.

Siblings on one attribute are disjoint, so they can be sorted. Filters such as `price < 1`, `price < 2`, ... lie below
each other, thousands deep, and a walk down such a chain for each filter would make the insertion of all of them
quadratic. A `Nest` is a way into such chains.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from whimbrel.model.intervals import Cut, IntervalSet

Child = TypeVar("Child")

DEEP = 32
"""Levels that a walk goes down before it is worth a nest."""
_TRIES = 16
"""Ends that are tried from either side before a search gives up."""


class ChildLane(Generic[Child]):
    """Intervals with the child that each belongs to, by their lower ends. A child may have several intervals.

    `nest` finds nodes of the attribute from here down that are one interval. It is made when a walk was long.
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

    def split_off(self, values: IntervalSet) -> ChildLane[Child]:
        """Move the children whose intervals lie in a set to a new lane. No other child may share a value with it."""
        out: ChildLane[Child] = ChildLane()
        for low, high in values.pairs():
            part = slice(bisect_left(self.lows, low), bisect_left(self.lows, high))
            out.lows += self.lows[part]
            out.highs += self.highs[part]
            out.children += self.children[part]
            del self.lows[part], self.highs[part], self.children[part]
        return out

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


class Nest(Generic[Child]):
    """Finds the innermost of many intervals around two cuts. No two intervals are equal or overlap in part.

    So the innermost one is that with the largest lower end, or the smallest upper end, of those around the cuts.
    """

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


class Division(NamedTuple, Generic[Child]):
    """How a set of values lies among the children of a lane, and those below on the same attribute.

    `container` is the last child that has all of the values, None if no child has. If `is_equal`, it has no others.
    Otherwise the children of `container`, or of the lane, are compared: `covered` are those that the set contains,
    `shared` those that have some of its values, with these values, and `rest` is what none in `shared` has.
    """

    container: Child | None
    is_equal: bool
    covered: list[Child]
    shared: list[tuple[Child, IntervalSet]]
    rest: IntervalSet


def divide(
    lane: ChildLane[Child],
    top: ChildLane[Child] | None,
    values: IntervalSet,
    below: Callable[[Child], ChildLane[Child] | None],
    values_of: Callable[[Child], IntervalSet],
) -> Division[Child]:
    """Find where a set of values belongs, from a lane down.

    `below` is the lane of a child on the same attribute, `top` the lane in which nodes of that attribute begin, if it
    is known.
    """
    container: Child | None = None
    at: ChildLane[Child] | None = lane
    low, high, is_range = values.cuts[0], values.cuts[-1], len(values.cuts) == 2
    if is_range and top is not None:  # most sets: ranges and points, below each other in long chains
        container = _innermost(lane, top, low, high, below, values_of)
    while True:
        if container is not None:
            if values_of(container).cuts == values.cuts:
                return Division(container, True, [], [], values)
            at = below(container)
        if at is None:
            return Division(container, False, [], [], values)
        covered: list[Child] = []
        shared: list[tuple[Child, IntervalSet]] = []
        rest, inner = values, None
        for child in at.overlapping(values):
            theirs = values_of(child)
            cuts = theirs.cuts
            if is_range and low <= cuts[0] and cuts[-1] <= high and cuts != values.cuts:  # quick: there may be many
                covered.append(child)
                continue
            both = values.intersect(theirs)
            if both.cuts == values.cuts:
                inner = child
                break
            if both.cuts == cuts:
                covered.append(child)
            elif both:
                shared.append((child, both))
                rest = rest.minus(theirs)
        if inner is None:
            return Division(container, False, covered, shared, rest)
        container = inner


def _innermost(
    lane: ChildLane[Child],
    top: ChildLane[Child],
    low: Cut,
    high: Cut,
    below: Callable[[Child], ChildLane[Child] | None],
    values_of: Callable[[Child], IntervalSet],
) -> Child | None:
    """The last child, from a lane down, that has all values between two cuts in one of its intervals.

    A long walk makes the nest of `top`, so that the next ones begin deep in the chain.
    """
    found, levels, at = None, 0, lane
    while (container := at.covering(low, high)) is not None:
        found = container
        if levels == DEEP and top.nest is None:
            top.nest = Nest(_single_intervals(top, below, values_of))
        if top.nest is not None and levels in (0, DEEP):
            found = top.nest.innermost(low, high) or container
        following = below(found)
        if following is None:
            break
        at, levels = following, levels + 1
    return found


def _single_intervals(
    top: ChildLane[Child],
    below: Callable[[Child], ChildLane[Child] | None],
    values_of: Callable[[Child], IntervalSet],
) -> Iterator[tuple[Cut, Cut, Child]]:
    """The children from a lane down whose sets are one interval, with its ends."""
    pending = [top]
    while pending:
        for child in pending.pop().distinct():
            cuts = values_of(child).cuts
            if len(cuts) == 2:
                yield cuts[0], cuts[1], child
            lane = below(child)
            if lane is not None:
                pending.append(lane)
