"""Finds, among many filters, one that covers another, without comparing all pairs.

A conjunction can be covered only by one over a subset of its attributes that demands no other single values. So
conjunctions are filed by their attributes in a trie, below that by the values that they demand, and below that by
the interval of one more attribute, widest first. The search gives up after some steps: it may miss, never be wrong.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from whimbrel.model.conjunction import Conjunction
from whimbrel.model.filter import Filter
from whimbrel.model.intervals import BOTTOM, TOP, Cut

_TRIE_STEPS = 2_000
_CANDIDATES = 64
_PER_SHELF = 16


@dataclass(slots=True)
class _Shelf:
    """Conjunctions with the same attributes and single values, in order of where the interval of `name` begins."""

    name: str | None
    entries: list[tuple[Cut, Cut, int]] = field(default_factory=list)
    widest: list[int] = field(default_factory=list)

    def sort(self) -> None:
        self.entries.sort()
        for place, (_, high, _) in enumerate(self.entries):
            before = self.widest[-1] if self.widest else place
            self.widest.append(place if high > self.entries[before][1] else before)

    def around(self, low: Cut, high: Cut) -> Iterator[int]:
        """Owners of intervals around this one, those that reach furthest first."""
        place = bisect_right(self.entries, low, key=lambda entry: entry[0]) - 1
        for _ in range(_PER_SHELF):
            if place < 0 or self.entries[self.widest[place]][1] < high:
                return
            place = self.widest[place]
            yield self.entries[place][2]
            place -= 1


@dataclass(slots=True)
class _Node:
    """A node of the trie; `shelves` are those of the attribute set that ends here."""

    children: dict[str, _Node] = field(default_factory=dict)
    shelves: dict[tuple[str, ...], dict[tuple[Hashable, ...], _Shelf]] = field(default_factory=dict)


class CoverIndex:
    """Some filters, by their place in the sequence, ready to be asked which of them covers one."""

    def __init__(self, filters: Sequence[Filter], places: Iterable[int]) -> None:
        self._filters = filters
        self._root = _Node()
        shelves: list[_Shelf] = []
        for place in places:
            for conjunction in filters[place].conjunctions:
                shelf = self._shelf(conjunction)
                if not shelf.entries:
                    shelves.append(shelf)
                shelf.entries.append((*_hull(conjunction, shelf.name), place))
        for shelf in shelves:
            shelf.sort()

    def covering(self, place: int) -> int | None:
        """The place of another filter that covers this one, or None if none was found."""
        filter = self._filters[place]
        if not filter.conjunctions:
            return None
        tried = {place}
        for candidate in self._candidates(filter.conjunctions[0]):
            if candidate in tried:
                continue
            tried.add(candidate)
            if self._filters[candidate].covers(filter):
                return candidate
            if len(tried) > _CANDIDATES:
                return None
        return None

    def _shelf(self, conjunction: Conjunction) -> _Shelf:
        node, names = self._root, sorted(conjunction.attributes)
        for name in names:
            node = node.children.setdefault(name, _Node())
        demanded = {name: key for name, key in _points(conjunction).items() if conjunction.by_attribute[name].is_plain}
        by_values = node.shelves.setdefault(tuple(demanded), {})
        residual = next((name for name in names if name not in demanded), None)
        return by_values.setdefault(tuple(demanded.values()), _Shelf(residual))

    def _candidates(self, conjunction: Conjunction) -> Iterator[int]:
        points = _points(conjunction)
        names = sorted(conjunction.attributes)
        pending: list[tuple[_Node, int]] = [(self._root, 0)]
        steps = 0
        while pending and steps < _TRIE_STEPS:
            node, start = pending.pop()
            steps += 1
            for demanded, by_values in node.shelves.items():
                if all(name in points for name in demanded):
                    shelf = by_values.get(tuple(points[name] for name in demanded))
                    if shelf is not None:
                        yield from shelf.around(*_hull(conjunction, shelf.name))
            for index in range(start, len(names)):
                child = node.children.get(names[index])
                if child is not None:
                    pending.append((child, index + 1))


def _points(conjunction: Conjunction) -> dict[str, Hashable]:
    """The attributes that may have one value only, and the value."""
    out: dict[str, Hashable] = {}
    for name, constraint in conjunction.constraints:
        if constraint.missing or constraint.null or not constraint.bound:
            continue
        keys = constraint.values.as_points() if len(constraint.values.cuts) == 2 else None
        if keys is not None and len(keys) == 1:
            out[name] = keys[0]
    return out


def _hull(conjunction: Conjunction, name: str | None) -> tuple[Cut, Cut]:
    """The interval around all values that the attribute may have; everything where nothing is said of it."""
    constraint = None if name is None else conjunction.by_attribute.get(name)
    if constraint is None:
        return BOTTOM, TOP
    cuts = constraint.values.cuts
    return (cuts[0], cuts[-1]) if cuts else (TOP, BOTTOM)  # no values: inside every interval
