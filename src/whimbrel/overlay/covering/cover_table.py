"""The filters that a router knows, and a search for one that covers another.

A filter is covered only by one that has a conjunction over some of the attributes of its first conjunction, with no
narrower interval around any of them. Conjunctions are kept by their attributes in a trie, then by the single values
that they demand, then by the interval of one more attribute. The search looks at the nearest intervals and at the
widest one, and stops after a number of steps: it may miss a covering filter, which costs bandwidth, but what it finds
does cover.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from whimbrel.model.covering import hull, single_values
from whimbrel.model.intervals import Cut
from whimbrel.model.values import SortKey
from whimbrel.overlay.covering.cover_relation import CoverRelation
from whimbrel.overlay.covering.covers import covers
from whimbrel.overlay.tree.paths import Interest

_TRIE_STEPS = 512
"""Sets of attributes that one search visits, at most."""
_NEAR = 32
"""Intervals that one search visits in one bucket, at most, before it looks at the widest."""
_COMPARED = 16
"""Candidates that one search compares, at most."""


class CoverTable:
    """Filters by their keys. `find` searches for one that covers another."""

    def __init__(self) -> None:
        self._interests: dict[bytes, Interest] = {}
        self._tries: dict[str, _TrieNode] = {}
        self._relation: CoverRelation | None = None

    def __contains__(self, key: bytes) -> bool:
        return key in self._interests

    def __getitem__(self, key: bytes) -> Interest:
        return self._interests[key]

    @property
    def relation(self) -> CoverRelation:
        """All pairs of filters of which one covers the other: made when first asked for, and current from then on."""
        if self._relation is None:
            self._relation = CoverRelation()
            self._relation.add_many(self._interests.values())
        return self._relation

    def add(self, interest: Interest) -> None:
        """Add a filter, unless it is there."""
        if interest.key in self._interests:
            return
        self._interests[interest.key] = interest
        for place, low, high in _places(interest):
            node = self._tries.setdefault(interest.tenant, _TrieNode())
            for name in place.names:
                node = node.children.setdefault(name, _TrieNode())
            by_values = node.buckets.setdefault(place.demanded, {})
            by_values.setdefault(place.values, _Bucket(place.ranged)).add(low, high, interest.key)
        if self._relation is not None:
            self._relation.add(interest)

    def add_many(self, interests: Iterable[Interest]) -> None:
        """Add many filters."""
        for interest in interests:
            self.add(interest)

    def remove(self, key: bytes) -> None:
        """Forget a filter."""
        interest = self._interests.pop(key)
        for place, low, high in _places(interest):
            path = [self._tries[interest.tenant]]
            for name in place.names:
                path.append(path[-1].children[name])
            by_values = path[-1].buckets[place.demanded]
            by_values[place.values].remove(low, high, key)
            if not by_values[place.values].lows:
                del by_values[place.values]
                if not by_values:
                    del path[-1].buckets[place.demanded]
                for node, name in zip(path[-2::-1], reversed(place.names), strict=True):
                    if node.children[name].buckets or node.children[name].children:
                        break
                    del node.children[name]
        if self._relation is not None:
            self._relation.remove(key)

    def find(self, key: bytes, is_wanted: Callable[[bytes], bool]) -> bytes | None:
        """A filter that covers this one and `is_wanted`, a near one before a wide one; None if none was found."""
        interest = self._interests[key]
        if not interest.filter.conjunctions:
            return None
        tried: set[bytes] = {key}
        for candidate in self._candidates(interest):
            if candidate not in tried and is_wanted(candidate):
                if covers(self._interests[candidate].filter, interest.filter):
                    return candidate
                tried.add(candidate)
                if len(tried) > _COMPARED:
                    break
        return None

    def _candidates(self, interest: Interest) -> Iterator[bytes]:
        """The filters that may cover one."""
        conjunction = interest.filter.conjunctions[0]
        names, points = sorted(conjunction.attributes), single_values(conjunction)
        pending: list[tuple[_TrieNode, int]] = [(self._tries[interest.tenant], 0)]
        for _ in range(_TRIE_STEPS):
            if not pending:
                return
            node, start = pending.pop()
            for demanded, by_values in node.buckets.items():
                if all(name in points for name in demanded):
                    bucket = by_values.get(tuple(points[name] for name in demanded))
                    if bucket is not None:
                        yield from bucket.containing(*hull(conjunction, bucket.name))
            for place in range(start, len(names)):
                child = node.children.get(names[place])
                if child is not None:
                    pending.append((child, place + 1))


class _Place(NamedTuple):
    """Where a conjunction is kept: its attributes, those that demand a value, the values, one with a range."""

    names: list[str]
    demanded: tuple[str, ...]
    values: tuple[SortKey, ...]
    ranged: str | None


@dataclass(slots=True)
class _Bucket:
    """Conjunctions over the same attributes that demand the same values, by the interval of one more, `name`.

    `lows` are the different lower ends, sorted; `highs` has the upper ends of each with the keys, sorted. `widest` are
    the intervals that no other contains, sorted; None if they have to be found again.
    """

    name: str | None
    lows: list[Cut] = field(default_factory=list)
    highs: dict[Cut, list[tuple[Cut, bytes]]] = field(default_factory=dict)
    widest: list[tuple[Cut, Cut, bytes]] | None = field(default_factory=list)

    def add(self, low: Cut, high: Cut, key: bytes) -> None:
        """Add an interval."""
        highs = self.highs.get(low)
        if highs is None:
            insort(self.lows, low)
            highs = self.highs[low] = []
        insort(highs, (high, key))
        if self.widest is not None:
            place = bisect_right(self.widest, low, key=_first)
            if place and self.widest[place - 1][1] >= high:
                return
            start = place - 1 if place and self.widest[place - 1][0] == low else place
            while place < len(self.widest) and self.widest[place][1] <= high:
                place += 1
            self.widest[start:place] = [(low, high, key)]

    def remove(self, low: Cut, high: Cut, key: bytes) -> None:
        """Remove an interval."""
        highs = self.highs[low]
        highs.remove((high, key))
        if not highs:
            del self.highs[low]
            del self.lows[bisect_left(self.lows, low)]
        if self.widest is not None:
            place = bisect_left(self.widest, low, key=_first)
            if place < len(self.widest) and self.widest[place][2] == key:
                self.widest = None

    def containing(self, low: Cut, high: Cut) -> Iterator[bytes]:
        """The keys of intervals that contain this one: the nearest, then the widest; not all of them."""
        steps = _NEAR
        place = bisect_right(self.lows, low) - 1
        while place >= 0 and steps > 0:
            highs = self.highs[self.lows[place]]
            first = bisect_left(highs, (high,))
            for found in range(first, min(len(highs), first + steps)):
                yield highs[found][1]
                steps -= 1
            place, steps = place - 1, steps - 1
        widest = self._widest()
        place = bisect_right(widest, low, key=_first) - 1
        if place >= 0 and widest[place][1] >= high:
            yield widest[place][2]

    def _widest(self) -> list[tuple[Cut, Cut, bytes]]:
        """The intervals that no other contains."""
        if self.widest is None:
            self.widest = []
            for low in self.lows:
                high, key = self.highs[low][-1]
                if not self.widest or high > self.widest[-1][1]:
                    self.widest.append((low, high, key))
        return self.widest


@dataclass(slots=True)
class _TrieNode:
    """A node of the trie of attributes. `buckets` has the conjunctions that end here, by what they demand."""

    children: dict[str, _TrieNode] = field(default_factory=dict)
    buckets: dict[tuple[str, ...], dict[tuple[SortKey, ...], _Bucket]] = field(default_factory=dict)


def _first(entry: tuple[Cut, Cut, bytes]) -> Cut:
    return entry[0]


def _places(interest: Interest) -> Iterator[tuple[_Place, Cut, Cut]]:
    """Where the conjunctions of a filter are kept, with the interval of each."""
    for conjunction in interest.filter.conjunctions:
        names, points = sorted(conjunction.attributes), single_values(conjunction)
        demanded = tuple(name for name in points if conjunction.by_attribute[name].is_plain)
        ranged = next((name for name in names if name not in demanded), None)
        place = _Place(names, demanded, tuple(points[name] for name in demanded), ranged)
        yield place, *hull(conjunction, ranged)
