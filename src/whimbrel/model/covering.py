"""An index of filters that finds one that covers another, without comparing all pairs.

`Filter.covers` compares two filters; the index finds the few candidates that are worth it. A filter is covered only by
one that has a conjunction over some of the attributes of its first conjunction, demands no other single values, and has
no narrower interval around any attribute. So conjunctions are stored by their attributes in a trie, then by the values
that they demand, then by the interval of one more attribute. A search looks at the nearest intervals and at the widest,
and stops after a number of steps: it may miss a covering filter, but what it returns does cover.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from whimbrel.model.conjunction import Conjunction
from whimbrel.model.filter import Filter
from whimbrel.model.intervals import BOTTOM, TOP, Cut
from whimbrel.model.values import SortKey

Key = TypeVar("Key", bound=int | bytes)

_INSERTED = 16
"""New intervals of a bucket up to which each is inserted; more are sorted together with the others."""


class SearchLimits(NamedTuple):
    """How much one search looks at, at most, and in which order."""

    nodes: int
    """Nodes of the trie: sets of attributes."""
    nearest: int
    """Intervals of one bucket, from the nearest on."""
    widest: int
    """Intervals of one bucket that no other contains."""
    compared: int
    """Candidates that are compared."""
    is_widest_first: bool = False


THOROUGH = SearchLimits(nodes=2_000, nearest=8, widest=8, compared=64, is_widest_first=True)
"""For a person who asks once, and wants to hear of the widest filter."""


class CoverIndex(Generic[Key]):
    """Filters by their keys; `filter_of` returns the filter of a key. `find` searches for one that covers another."""

    def __init__(
        self,
        filter_of: Callable[[Key], Filter],
        limits: SearchLimits = THOROUGH,
        covers: Callable[[Filter, Filter], bool] = Filter.covers,
    ) -> None:
        self._filter_of = filter_of
        self._limits = limits
        self._covers = covers
        self._root: _TrieNode[Key] = _TrieNode()

    def __bool__(self) -> bool:
        """Whether it has any conjunction."""
        return not self._root.is_empty()

    def add(self, key: Key) -> None:
        """Add a filter."""
        for conjunction in self._filter_of(key).conjunctions:
            place = _Place.of(conjunction)
            node = self._root
            for name in place.names:
                node = node.children.setdefault(name, _TrieNode())
            by_values = node.buckets.setdefault(place.demanded, {})
            by_values.setdefault(place.values, _Bucket(place.ranged)).add(*hull(conjunction, place.ranged), key)

    def remove(self, key: Key) -> None:
        """Remove a filter that was added."""
        for conjunction in self._filter_of(key).conjunctions:
            place = _Place.of(conjunction)
            path = [self._root]
            for name in place.names:
                path.append(path[-1].children[name])
            by_values = path[-1].buckets[place.demanded]
            bucket = by_values[place.values]
            bucket.remove(*hull(conjunction, place.ranged), key)
            if not bucket.lows:
                del by_values[place.values]
                if not by_values:
                    del path[-1].buckets[place.demanded]
                for node, name in zip(path[-2::-1], reversed(place.names), strict=True):
                    if not node.children[name].is_empty():
                        break
                    del node.children[name]

    def find(self, key: Key, is_wanted: Callable[[Key], bool] = lambda _: True) -> Key | None:
        """Another filter that covers this one and `is_wanted`; None if none was found."""
        filter = self._filter_of(key)
        if not filter.conjunctions:
            return None
        tried = {key}
        for candidate in self._candidates(filter.conjunctions[0]):
            if candidate not in tried and is_wanted(candidate):
                if self._covers(self._filter_of(candidate), filter):
                    return candidate
                tried.add(candidate)
                if len(tried) > self._limits.compared:
                    break
        return None

    def _candidates(self, conjunction: Conjunction) -> Iterator[Key]:
        """The filters that may cover one with this conjunction; a filter may come more than once."""
        names, points = sorted(conjunction.attributes), single_values(conjunction)
        pending = [(self._root, 0)]
        for _ in range(self._limits.nodes):
            if not pending:
                return
            node, start = pending.pop()
            for demanded, by_values in node.buckets.items():
                if all(name in points for name in demanded):
                    bucket = by_values.get(tuple(points[name] for name in demanded))
                    if bucket is not None:
                        yield from bucket.containing(*hull(conjunction, bucket.ranged), self._limits)
            for place in range(start, len(names)):
                child = node.children.get(names[place])
                if child is not None:
                    pending.append((child, place + 1))

    def _check(self) -> None:
        """Assert every invariant: each entry is where its filter says, buckets are sorted, nothing is empty."""
        pending: list[tuple[_TrieNode[Key], list[str]]] = [(self._root, [])]
        while pending:
            node, names = pending.pop()
            assert node is self._root or not node.is_empty()
            for demanded, by_values in node.buckets.items():
                assert by_values
                for values, bucket in by_values.items():
                    bucket._check()
                    place = _Place(names, demanded, values, bucket.ranged)
                    for low, high, key in bucket.entries():
                        conjunctions = self._filter_of(key).conjunctions
                        assert any((low, high) == hull(c, place.ranged) and _Place.of(c) == place for c in conjunctions)
            pending += [(child, [*names, name]) for name, child in node.children.items()]


_Interval: TypeAlias = tuple[Cut, Cut, Key]


@dataclass(slots=True)
class _Bucket(Generic[Key]):
    """Conjunctions over the same attributes that demand the same values, by the interval of one more, `ranged`.

    `lows` are the different lower ends, sorted; `highs` has the upper ends of each with the keys, sorted. `widest` are
    the intervals that no other contains, sorted; None if they have to be found again. `unsorted` are the intervals
    that were added since the last search: many are sorted at once.
    """

    ranged: str | None
    lows: list[Cut] = field(default_factory=list)
    highs: dict[Cut, list[tuple[Cut, Key]]] = field(default_factory=dict)
    widest: list[_Interval[Key]] | None = field(default_factory=list)
    unsorted: list[_Interval[Key]] = field(default_factory=list)

    def entries(self) -> Iterator[_Interval[Key]]:
        """The intervals with their keys."""
        yield from ((low, high, key) for low, highs in self.highs.items() for high, key in highs)
        yield from self.unsorted

    def add(self, low: Cut, high: Cut, key: Key) -> None:
        """Add an interval."""
        self.unsorted.append((low, high, key))

    def sort(self) -> None:
        """Sort the intervals that were added since the last search among the others."""
        if len(self.unsorted) > _INSERTED:
            for low, high, key in self.unsorted:
                self.highs.setdefault(low, []).append((high, key))
            for low in {low for low, _, _ in self.unsorted}:
                self.highs[low].sort()
            self.lows = sorted(self.highs)
            self.widest = None
        else:
            for low, high, key in self.unsorted:
                self._insert(low, high, key)
        self.unsorted.clear()

    def _insert(self, low: Cut, high: Cut, key: Key) -> None:
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

    def remove(self, low: Cut, high: Cut, key: Key) -> None:
        """Remove an interval."""
        if self.unsorted:
            self.sort()
        highs = self.highs[low]
        highs.remove((high, key))
        if not highs:
            del self.highs[low]
            del self.lows[bisect_left(self.lows, low)]
        if self.widest is not None:
            place = bisect_left(self.widest, low, key=_first)
            if place < len(self.widest) and self.widest[place][2] == key:
                self.widest = None

    def containing(self, low: Cut, high: Cut, limits: SearchLimits) -> Iterator[Key]:
        """The keys of intervals that contain this one: the nearest and the widest, not all of them."""
        if self.unsorted:
            self.sort()
        if limits.is_widest_first:
            yield from islice(self._widest_around(low, high), limits.widest)
        yield from self._nearest_around(low, high, limits.nearest)
        if not limits.is_widest_first:
            yield from islice(self._widest_around(low, high), limits.widest)

    def _nearest_around(self, low: Cut, high: Cut, steps: int) -> Iterator[Key]:
        """The keys of intervals around one, from the nearest lower end down; an end and a key take a step each."""
        place = bisect_right(self.lows, low) - 1
        while place >= 0 and steps > 0:
            highs = self.highs[self.lows[place]]
            first = bisect_left(highs, (high,))
            for found in range(first, min(len(highs), first + steps)):
                yield highs[found][1]
                steps -= 1
            place, steps = place - 1, steps - 1

    def _widest_around(self, low: Cut, high: Cut) -> Iterator[Key]:
        """The keys of the intervals around one that no other interval contains, the highest upper end first."""
        if self.widest is None:
            self.widest = self._find_widest()
        for place in range(bisect_right(self.widest, low, key=_first) - 1, -1, -1):
            if self.widest[place][1] < high:
                return
            yield self.widest[place][2]

    def _find_widest(self) -> list[_Interval[Key]]:
        widest: list[_Interval[Key]] = []
        for low in self.lows:
            high, key = self.highs[low][-1]
            if not widest or high > widest[-1][1]:
                widest.append((low, high, key))
        return widest

    def _check(self) -> None:
        """Assert every invariant: ends are sorted, none lacks a key, and `widest` is what a search for it finds."""
        assert self.lows or self.unsorted
        assert set(self.lows) == self.highs.keys()
        assert all(one < two for one, two in pairwise(self.lows))
        assert all(highs and highs == sorted(highs) for highs in self.highs.values())
        if self.widest is not None:
            assert [entry[:2] for entry in self.widest] == [entry[:2] for entry in self._find_widest()]
            assert set(self.widest) <= set(self.entries())


@dataclass(slots=True)
class _TrieNode(Generic[Key]):
    """A node of the trie of attributes. `buckets` has the conjunctions that end here, by what they demand."""

    children: dict[str, _TrieNode[Key]] = field(default_factory=dict)
    buckets: dict[tuple[str, ...], dict[tuple[SortKey, ...], _Bucket[Key]]] = field(default_factory=dict)

    def is_empty(self) -> bool:
        """Whether no conjunction ends here or below."""
        return not self.children and not self.buckets


class _Place(NamedTuple):
    """Where a conjunction is stored: its attributes, which of them demand a value, the values, one ranged attribute."""

    names: list[str]
    demanded: tuple[str, ...]
    values: tuple[SortKey, ...]
    ranged: str | None

    @staticmethod
    def of(conjunction: Conjunction) -> _Place:
        """The place of a conjunction."""
        names, points = sorted(conjunction.attributes), single_values(conjunction)
        demanded = tuple(name for name in points if conjunction.by_attribute[name].is_plain)
        ranged = next((name for name in names if name not in demanded), None)
        return _Place(names, demanded, tuple(points[name] for name in demanded), ranged)


def _first(interval: _Interval[Key]) -> Cut:
    return interval[0]


def single_values(conjunction: Conjunction) -> dict[str, SortKey]:
    """The attributes whose constraint is a single value, with that value."""
    out: dict[str, SortKey] = {}
    for name, constraint in conjunction.constraints:
        if constraint.bound and not (constraint.missing or constraint.null):
            value = constraint.values.single()
            if value is not None:
                out[name] = value
    return out


def hull(conjunction: Conjunction, name: str | None) -> tuple[Cut, Cut]:
    """The smallest interval that holds every allowed value of the attribute; everything without a constraint."""
    constraint = None if name is None else conjunction.by_attribute.get(name)
    if constraint is None:
        return BOTTOM, TOP
    cuts = constraint.values.cuts
    return (cuts[0], cuts[-1]) if cuts else (TOP, BOTTOM)  # no values: inside every interval
