"""How many events a predicate lets through: from a sample of events, or else from the constants of the filters.

An equality passes 1/|D|, a range its fraction of the domain, better frequencies from a sample.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

from whimbrel.matchers.shared.event_ranks import bounded_float
from whimbrel.model.event import Event
from whimbrel.model.intervals import Cut, IntervalSet
from whimbrel.model.values import NUMBER, TIMESTAMP, SortKey

_SMALLEST_DOMAIN = 10  # before many constants are known
_UNKNOWN_RANGE = 1 / 3  # the customary guess for a range of which nothing is known

Events = Iterable[Event | Mapping[str, object]]


class Estimates:
    """Selectivities of predicates; without a sample they sharpen as constants become known."""

    def __init__(self, sample: Events = (), timestamps: frozenset[str] = frozenset()) -> None:
        self._events = 0
        self._sampled: dict[str, list[Cut]] = {}
        for item in sample:
            event = Event.of(item, timestamps)
            self._events += 1
            for name in event.attributes:
                values = self._sampled.setdefault(name, [])
                values += ((key[0], 1, key[1], 0) for key in event.non_null_keys(name))
        for values in self._sampled.values():
            values.sort()
        self._constants: dict[str, set[SortKey]] = {}
        self._extents: dict[tuple[str, int], tuple[float, float]] = {}

    def learn(self, attribute: str, values: IntervalSet) -> None:
        """Take note of the constants of a predicate."""
        known = self._constants.setdefault(attribute, set())
        for kind, inside, value, _ in values.cuts:
            if inside and value is not None:
                known.add((kind, value))
                if kind in (NUMBER, TIMESTAMP):
                    number = bounded_float(value)
                    low, high = self._extents.get((attribute, kind), (number, number))
                    self._extents[attribute, kind] = (min(low, number), max(high, number))

    def share(self, attribute: str, values: IntervalSet) -> float:
        """The share of events that a predicate is expected to let through."""
        if self._events:
            sampled = self._sampled.get(attribute, [])
            found = sum(bisect_left(sampled, high) - bisect_left(sampled, low) for low, high in values.pairs())
            return found / self._events
        domain = max(len(self._constants.get(attribute, ())), _SMALLEST_DOMAIN)
        points = values.as_points()
        if points is not None:
            return len(points) / domain
        others = values.complement().as_points()
        if others is not None:
            return max(1 - len(others) / domain, 0.5)
        return min(sum(max(self._range(attribute, *pair), 1 / domain) for pair in values.pairs()), 1.0)

    def _range(self, attribute: str, low: Cut, high: Cut) -> float:
        kind = low[0]
        bottom, top = self._extents.get((attribute, kind), (0.0, 0.0))
        if high[:2] > (kind + 1, 0) or not bottom < top:  # it reaches into another type, or nothing is known
            return _UNKNOWN_RANGE
        start = bounded_float(low[2]) if low[1] else bottom
        stop = bounded_float(high[2]) if high[1] else top
        return (stop - start) / (top - bottom)
