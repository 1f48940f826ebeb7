"""All pairs of a filter and one that it covers, for SIENA's poset.

A chain of n filters has n * (n - 1) / 2 pairs, so routers that forward by prefix do not need this: see `cover_table`.
A filter covers another only if some conjunction of it has no more attributes than the other's first one, and no
narrower interval around any of them. The candidates among the filters that are there at first are found by counting
such attributes in arrays, and `Filter.covers` decides. A filter that comes later is compared with all others: a
simulation knows its filters beforehand.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from whimbrel.model.conjunction import Conjunction
from whimbrel.model.covering import hull
from whimbrel.model.filter import Filter
from whimbrel.model.intervals import Cut
from whimbrel.overlay.tree.paths import Interest

_COMPARED = 4_096
"""Pairs of conjunctions, at most: filters with more count as not covering each other, which costs bandwidth only."""


def covers(one: Filter, two: Filter) -> bool:
    """`one.covers(two)`, with a quick look at the attributes first. A filter that matches nothing is not covered."""
    if not two.conjunctions or len(one.conjunctions) * len(two.conjunctions) > _COMPARED:
        return False
    theirs = two.conjunctions[0].attributes
    return any(mine.attributes <= theirs for mine in one.conjunctions) and one.covers(two)


class CoverRelation:
    """Filters by their keys, each with the filters that it covers and the filters that cover it.

    Of two filters that cover each other the one with the smaller key counts as the covering one.
    """

    def __init__(self, interests: Iterable[Interest] = ()) -> None:
        self._interests: dict[bytes, Interest] = {}
        self._covering: dict[bytes, set[bytes]] = {}
        self._covered: dict[bytes, set[bytes]] = {}
        for interest in interests:
            self._enter(interest)
        arrays = _Arrays(self._interests.values())
        for interest in self._interests.values():
            for other in arrays.covering(interest.filter):
                if other != interest.key:
                    self._relate(interest, self._interests[other])

    def covering(self, key: bytes) -> set[bytes]:
        """The filters that cover this one."""
        return self._covering[key]

    def covered(self, key: bytes) -> set[bytes]:
        """The filters that this one covers."""
        return self._covered[key]

    def add(self, interest: Interest) -> None:
        """Add a filter, unless it is there. Takes a comparison with every other filter."""
        if interest.key not in self._interests:
            others = list(self._interests.values())
            self._enter(interest)
            for other in others:
                self._relate(interest, other)

    def remove(self, key: bytes) -> None:
        """Forget a filter."""
        del self._interests[key]
        for other in self._covering.pop(key):
            self._covered[other].discard(key)
        for other in self._covered.pop(key):
            self._covering[other].discard(key)

    def _enter(self, interest: Interest) -> None:
        self._interests[interest.key] = interest
        self._covering[interest.key] = set()
        self._covered[interest.key] = set()

    def _relate(self, one: Interest, two: Interest) -> None:
        """Compare two filters and keep what is found."""
        if one.tenant != two.tenant:
            return
        above, below = covers(one.filter, two.filter), covers(two.filter, one.filter)
        if above and (not below or one.key < two.key):
            self._covered[one.key].add(two.key)
            self._covering[two.key].add(one.key)
        elif below:
            self._covered[two.key].add(one.key)
            self._covering[one.key].add(two.key)


@dataclass(slots=True)
class _Column:
    """The intervals of one attribute: ranks of their ends among `cuts`, and the row of each."""

    cuts: list[Cut]
    lows: np.ndarray
    highs: np.ndarray
    rows: np.ndarray


class _Arrays:
    """The conjunctions of filters as rows, with a column for every attribute."""

    def __init__(self, interests: Iterable[Interest]) -> None:
        self._keys: list[bytes] = []
        needs: list[int] = []
        gathered: dict[str, list[tuple[Cut, Cut, int]]] = {}
        for interest in interests:
            for conjunction in interest.filter.conjunctions:
                for name, low, high in _hulls(conjunction):
                    gathered.setdefault(name, []).append((low, high, len(needs)))
                needs.append(len(conjunction.attributes))
                self._keys.append(interest.key)
        self._needs = np.array(needs, np.int32)
        self._columns = {name: _column(items) for name, items in gathered.items()}

    def covering(self, filter: Filter) -> set[bytes]:
        """The filters that may cover this one."""
        if not filter.conjunctions:
            return set()
        hits = np.zeros(len(self._needs), np.int32)
        for name, low, high in _hulls(filter.conjunctions[0]):
            column = self._columns.get(name)
            if column is not None:
                at_most = bisect_right(column.cuts, low)
                at_least = bisect_left(column.cuts, high)
                hits[column.rows[(column.lows < at_most) & (column.highs >= at_least)]] += 1
        return {self._keys[row] for row in np.flatnonzero(hits == self._needs).tolist()}


def _column(items: list[tuple[Cut, Cut, int]]) -> _Column:
    cuts = sorted({cut for low, high, _ in items for cut in (low, high)})
    rank = {cut: place for place, cut in enumerate(cuts)}
    lows, highs, rows = zip(*((rank[low], rank[high], row) for low, high, row in items), strict=True)
    return _Column(cuts, np.array(lows, np.int32), np.array(highs, np.int32), np.array(rows, np.int32))


def _hulls(conjunction: Conjunction) -> Iterator[tuple[str, Cut, Cut]]:
    """Every attribute with the interval around its values."""
    for name in conjunction.attributes:
        yield name, *hull(conjunction, name)
