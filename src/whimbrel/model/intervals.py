"""Sets of values as sorted cuts: intervals over the one order of all values.

A cut is a place between values (or at the edge of a type), so an interval is two cuts and open and closed ends
need no cases: v is inside [L, U] iff L <= before(v) < U. An `IntervalSet` is the sorted tuple of the cuts where
membership changes, which makes intersection, union and complement merges of sorted lists, and equality of
tuples equality of sets. Where the domain is discrete (booleans, strings, machine numbers, nanoseconds) neither an
interval nor a gap is without values, so emptiness is exact. One place may still have two names there: after 5 ns is
before 6 ns.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from whimbrel.model.limits import INTEGER_DIGITS
from whimbrel.model.values import BOOLEAN, NUMBER, STRING, TIMESTAMP, SortKey

# (type, 0, None, 0) is the edge below a type; (type, 1, value, 0) is before a value and (type, 1, value, 1) after it.
Cut: TypeAlias = tuple[int, int, bool | int | float | str | None, int]

_LARGEST: int = 10**INTEGER_DIGITS.value - 1
_EXACT = 1 << 53


def edge(rank: int) -> Cut:
    """The cut below all values of a type, which is the cut above all values of the type before it."""
    return (rank, 0, None, 0)


BOTTOM, TOP = edge(BOOLEAN), edge(TIMESTAMP + 1)


def before(key: SortKey) -> Cut:
    """The cut just below a value."""
    rank, value = key
    if rank == STRING:
        assert isinstance(value, str)
        if not value:
            return edge(STRING)
        if value.endswith("\0"):  # nothing lies between s and s + NUL
            return (STRING, 1, value[:-1], 1)
    elif (rank == NUMBER and value == -math.inf) or (rank == BOOLEAN and not value):
        return edge(rank)
    return (rank, 1, value, 0)


def after(key: SortKey) -> Cut:
    """The cut just above a value."""
    rank, value = key
    if rank == NUMBER and value == math.inf:
        return edge(STRING)
    if rank == BOOLEAN:
        return edge(NUMBER) if value else (BOOLEAN, 1, True, 0)
    return (rank, 1, value, 1)


def _next_number(value: int | float) -> int | float:
    """The smallest number above `value` that an event can hold."""
    if -_EXACT < value < _EXACT:
        return math.nextafter(value, math.inf)
    if value == -math.inf:
        return -_LARGEST
    return int(value) + 1 if value < _LARGEST else math.inf


def _is_hollow(low: Cut, high: Cut) -> bool:
    """Whether no value lies between two cuts."""
    if low >= high:
        return True
    if low[0] != high[0] or not (low[1] and high[1] and low[3] and not high[3]):
        return False
    below, above = low[2], high[2]
    if low[0] == NUMBER:
        assert isinstance(below, int | float) and isinstance(above, int | float)
        return _next_number(below) >= above
    return low[0] == TIMESTAMP and isinstance(below, int) and below + 1 == above


@dataclass(frozen=True, slots=True)
class IntervalSet:
    """A set of values: even cuts open an interval, odd cuts close it."""

    cuts: tuple[Cut, ...]

    @staticmethod
    def between(low: Cut, high: Cut) -> IntervalSet:
        """The values between two cuts."""
        return EMPTY if _is_hollow(low, high) else IntervalSet((low, high))

    @staticmethod
    def points(keys: Iterable[SortKey]) -> IntervalSet:
        """The set of the given values."""
        cuts: list[Cut] = []
        for key in sorted(set(keys)):
            low, high = before(key), after(key)
            if cuts and _is_hollow(cuts[-1], low):
                cuts[-1] = high
            else:
                cuts += (low, high)
        return IntervalSet(tuple(cuts))

    @staticmethod
    def prefix(text: str) -> IntervalSet:
        """All strings that start with `text`."""
        if not text:
            return IntervalSet((edge(STRING), edge(TIMESTAMP)))
        stem = text
        while stem and stem[-1] == "\U0010ffff":
            stem = stem[:-1]
        if not stem:
            return IntervalSet((before((STRING, text)), edge(TIMESTAMP)))
        following = ord(stem[-1]) + 1
        if following == 0xD800:  # surrogates are not characters
            following = 0xE000
        return IntervalSet((before((STRING, text)), before((STRING, stem[:-1] + chr(following)))))

    def __bool__(self) -> bool:
        return bool(self.cuts)

    def __contains__(self, key: SortKey) -> bool:
        return bisect_right(self.cuts, (key[0], 1, key[1], 0)) % 2 == 1

    def pairs(self) -> Iterator[tuple[Cut, Cut]]:
        """The intervals, lowest first."""
        cuts = self.cuts
        return zip(cuts[::2], cuts[1::2], strict=True)

    def complement(self) -> IntervalSet:
        """All other values."""
        cuts = self.cuts
        cuts = cuts[1:] if cuts and cuts[0] == BOTTOM else (BOTTOM, *cuts)
        return IntervalSet(cuts[:-1] if cuts[-1] == TOP else (*cuts, TOP))

    def intersect(self, other: IntervalSet) -> IntervalSet:
        """The values in both."""
        if self.cuts == _ALL_CUTS:
            return other
        if other.cuts == _ALL_CUTS:
            return self
        mine, theirs = self.cuts, other.cuts
        out: list[Cut] = []
        i = j = 0
        while i < len(mine) and j < len(theirs):
            low = max(mine[i], theirs[j])
            high = min(mine[i + 1], theirs[j + 1])
            if not _is_hollow(low, high):
                out += (low, high)
            if mine[i + 1] == high:
                i += 2
            if theirs[j + 1] == high:
                j += 2
        return IntervalSet(tuple(out))

    def union(self, *others: IntervalSet) -> IntervalSet:
        """The values in any."""
        cuts: list[Cut] = []
        for low, high in sorted(pair for each in (self, *others) for pair in each.pairs()):
            if cuts and _is_hollow(cuts[-1], low):
                cuts[-1] = max(cuts[-1], high)
            else:
                cuts += (low, high)
        return IntervalSet(tuple(cuts))

    def minus(self, other: IntervalSet) -> IntervalSet:
        """The values in self and not in other."""
        return self.intersect(other.complement())

    def covers(self, other: IntervalSet) -> bool:
        """Whether every value of other is in self."""
        return not other.minus(self)

    def overlaps(self, other: IntervalSet) -> bool:
        """Whether some value is in both."""
        return bool(self.intersect(other))

    def single(self) -> SortKey | None:
        """The value, if there is exactly one, else None."""
        return _single(*self.cuts) if len(self.cuts) == 2 else None

    def as_points(self) -> list[SortKey] | None:
        """The values, if they are finitely many single points, else None."""
        keys: list[SortKey] = []
        for low, high in self.pairs():
            point = _single(low, high)
            if point is not None:
                keys.append(point)
            elif (low, high) == (edge(BOOLEAN), edge(NUMBER)):
                keys += ((BOOLEAN, False), (BOOLEAN, True))
            else:
                return None
        return keys


def _single(low: Cut, high: Cut) -> SortKey | None:
    """The only value between two cuts, or None if there may be more."""
    rank = low[0]
    if low[1] and not low[3] and low[2] is not None and high == after((rank, low[2])):
        return (rank, low[2])
    if rank == high[0] and high[1] and high[3] and high[2] is not None and low == before((rank, high[2])):
        return (rank, high[2])
    if rank == BOOLEAN and (low, high) == (edge(BOOLEAN), (BOOLEAN, 1, True, 0)):
        return (BOOLEAN, False)
    return None


_ALL_CUTS = (BOTTOM, TOP)
EMPTY = IntervalSet(())
ALL = IntervalSet(_ALL_CUTS)
STRINGS = IntervalSet((edge(STRING), edge(TIMESTAMP)))
ORDERED = IntervalSet((edge(NUMBER), TOP))


def compare_set(op: str, key: SortKey) -> IntervalSet:
    """The values for which `attribute op value` is true. Orders stay within one type; booleans have none."""
    if op == "=":
        return IntervalSet.points([key])
    if op == "!=":
        return IntervalSet.points([key]).complement()
    rank = key[0]
    if rank == BOOLEAN:
        return EMPTY
    if op in ("<", "<="):
        return IntervalSet.between(edge(rank), before(key) if op == "<" else after(key))
    return IntervalSet.between(after(key) if op == ">" else before(key), edge(rank + 1))
