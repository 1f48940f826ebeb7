"""An index of filters that finds one that covers another, without comparing all pairs.

`Filter.covers` compares two filters; here it checks the few candidates that the index finds. A conjunction is covered
only by a conjunction over a subset of its attributes that demands no other single values. So conjunctions are stored by
their attributes in a trie, then by the values that they demand, then by the interval of one more attribute. The search
stops after a number of steps: it may miss a covering filter, but what it returns does cover.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from whimbrel.model.conjunction import Conjunction
from whimbrel.model.filter import Filter
from whimbrel.model.intervals import BOTTOM, TOP, Cut
from whimbrel.model.values import SortKey

_TRIE_STEPS = 2_000
_CANDIDATES = 64
_PER_BUCKET = 16


@dataclass(slots=True)
class _Bucket:
    """Conjunctions with the same attributes and single values, sorted by the start of the interval of `name`.

    `entries` are (low, high, place of the filter); `widest` has for each entry the earlier one that reaches furthest.
    """

    name: str | None
    entries: list[tuple[Cut, Cut, int]] = field(default_factory=list)
    widest: list[int] = field(default_factory=list)

    def sort(self) -> None:
        self.entries.sort()
        for place, (_, high, _) in enumerate(self.entries):
            before = self.widest[-1] if self.widest else place
            self.widest.append(place if high > self.entries[before][1] else before)

    def containing(self, low: Cut, high: Cut) -> Iterator[int]:
        """The filters whose intervals contain this one, those that reach furthest first."""
        place = bisect_right(self.entries, low, key=lambda entry: entry[0]) - 1
        for _ in range(_PER_BUCKET):
            if place < 0 or self.entries[self.widest[place]][1] < high:
                return
            place = self.widest[place]
            yield self.entries[place][2]
            place -= 1


@dataclass(slots=True)
class _Node:
    """A node of the trie; `buckets` hold the conjunctions whose attribute set ends here."""

    children: dict[str, _Node] = field(default_factory=dict)
    buckets: dict[tuple[str, ...], dict[tuple[Hashable, ...], _Bucket]] = field(default_factory=dict)


class CoverIndex:
    """Filters of a sequence, by place; `covering` finds one that covers another."""

    def __init__(self, filters: Sequence[Filter], places: Iterable[int]) -> None:
        self._filters = filters
        self._root = _Node()
        buckets: list[_Bucket] = []
        for place in places:
            for conjunction in filters[place].conjunctions:
                bucket = self._bucket(conjunction)
                if not bucket.entries:
                    buckets.append(bucket)
                bucket.entries.append((*hull(conjunction, bucket.name), place))
        for bucket in buckets:
            bucket.sort()

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

    def _bucket(self, conjunction: Conjunction) -> _Bucket:
        node, names = self._root, sorted(conjunction.attributes)
        for name in names:
            node = node.children.setdefault(name, _Node())
        values = single_values(conjunction)
        demanded = {name: key for name, key in values.items() if conjunction.by_attribute[name].is_plain}
        by_values = node.buckets.setdefault(tuple(demanded), {})
        residual = next((name for name in names if name not in demanded), None)
        return by_values.setdefault(tuple(demanded.values()), _Bucket(residual))

    def _candidates(self, conjunction: Conjunction) -> Iterator[int]:
        points = single_values(conjunction)
        names = sorted(conjunction.attributes)
        pending: list[tuple[_Node, int]] = [(self._root, 0)]
        steps = 0
        while pending and steps < _TRIE_STEPS:
            node, start = pending.pop()
            steps += 1
            for demanded, by_values in node.buckets.items():
                if all(name in points for name in demanded):
                    bucket = by_values.get(tuple(points[name] for name in demanded))
                    if bucket is not None:
                        yield from bucket.containing(*hull(conjunction, bucket.name))
            for index in range(start, len(names)):
                child = node.children.get(names[index])
                if child is not None:
                    pending.append((child, index + 1))


def single_values(conjunction: Conjunction) -> dict[str, SortKey]:
    """The attributes whose constraint is a single value, with that value."""
    out: dict[str, SortKey] = {}
    for name, constraint in conjunction.constraints:
        if constraint.missing or constraint.null or not constraint.bound:
            continue
        keys = constraint.values.as_points() if len(constraint.values.cuts) == 2 else None
        if keys is not None and len(keys) == 1:
            out[name] = keys[0]
    return out


def hull(conjunction: Conjunction, name: str | None) -> tuple[Cut, Cut]:
    """The smallest interval that holds every allowed value of the attribute; everything without a constraint."""
    constraint = None if name is None else conjunction.by_attribute.get(name)
    if constraint is None:
        return BOTTOM, TOP
    cuts = constraint.values.cuts
    return (cuts[0], cuts[-1]) if cuts else (TOP, BOTTOM)  # no values: inside every interval
