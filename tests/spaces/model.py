"""Subject spaces without an index: M recomputed from the definitions, pair by pair."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from whimbrel.spaces import Interval

Region = Mapping[str, Interval]


def overlap(a: Interval, b: Interval, kind: str) -> bool:
    """Whether some value of the domain is in both (numbers lie dense, nanoseconds and strings do not)."""
    low = max((each for each in (_low(a), _low(b)) if each is not None), default=None)
    high = min((each for each in (_high(a), _high(b)) if each is not None), default=None)
    if low is None or high is None:
        return True
    if kind == "string" and low[1] and high[1] and low[0] + "\0" == high[0]:
        return False
    if kind == "timestamp":
        low, high = (low[0].nanoseconds, low[1]), (high[0].nanoseconds, high[1])
    if kind in ("integer", "timestamp"):
        first = math.floor(low[0]) + 1 if low[1] else math.ceil(low[0])
        last = math.ceil(high[0]) - 1 if high[1] < 0 else math.floor(high[0])
        return first <= last
    return bool(low[0] < high[0] or (low[0] == high[0] and not low[1] and not high[1]))


def _low(interval: Interval) -> tuple[Any, int] | None:
    """The bound, and 1 if it is excluded, which makes it higher."""
    return None if interval.low is None else (interval.low, int(interval.ends[0] == "("))


def _high(interval: Interval) -> tuple[Any, int] | None:
    """The bound, and -1 if it is excluded, which makes it lower."""
    return None if interval.high is None else (interval.high, -int(interval.ends[1] == ")"))


@dataclass
class Model:
    """Regions by key, and which pairs match."""

    spaces: dict[str, dict[str, str]]
    publications: dict[Any, list[Region]] = field(default_factory=dict)
    subscriptions: dict[Any, list[Region]] = field(default_factory=dict)
    filters: dict[tuple[str, Any], str] = field(default_factory=dict)  # by role and key, where it is not "all"

    def regions_match(self, a: Region, b: Region) -> bool:
        for dimensions in self.spaces.values():
            if not (a.keys() & dimensions.keys() and b.keys() & dimensions.keys()):
                continue
            both = a.keys() & b.keys() & dimensions.keys()
            if all(overlap(a[name], b[name], dimensions[name]) for name in both):
                return True
        return False

    def pair_matches(self, publication: Any, subscription: Any) -> bool:
        objects, interests = self.publications[publication], self.subscriptions[subscription]
        held = [[self.regions_match(o, i) for i in interests] for o in objects]
        by_publication = any if self.filters.get(("publication", publication)) == "any" else all
        by_subscription = any if self.filters.get(("subscription", subscription)) == "any" else all
        return by_publication(any(row) for row in held) and by_subscription(
            any(column) for column in zip(*held, strict=True)
        )

    def pairs(self) -> set[tuple[Any, Any]]:
        """M: all pairs (publication, subscription) that match."""
        return {(p, s) for p in self.publications for s in self.subscriptions if self.pair_matches(p, s)}
