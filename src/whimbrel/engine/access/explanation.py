"""Reports how one subscription is indexed and what it costs an event: the answer of `Index.plan`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from whimbrel.engine.access.registry import KEYS
from whimbrel.engine.access.segment import Segment
from whimbrel.engine.access.shared.key import Explained, RankRange
from whimbrel.engine.access.shared.plan import ATTRIBUTES_PER_EVENT
from whimbrel.model.subscription import Id

ALWAYS_NS = 1.0
"""What a row that every event matches costs."""


@dataclass(frozen=True, slots=True)
class PlannedConjunction:
    """The access key of one conjunction, and the share of events that reach it."""

    segment: int
    key: str
    """The kind of access key: hash, present, sorted, bitmap, signature, or always."""
    attributes: tuple[str, ...]
    """The attributes of the key."""
    facts: dict[str, object]
    """More facts from the access key."""
    share: float
    """The expected share of events that reach it: from a sample, or guessed as the planner guesses."""


@dataclass(frozen=True, slots=True)
class RowPlan:
    """The access keys of the conjunctions of a row, and what the row costs an event on average.

    The cost was measured on the Le Subscribe workload. It is lower for entries that share their key and their checks.
    """

    conjunctions: tuple[PlannedConjunction, ...]
    cost_ns: float

    def to_dict(self, id: Id) -> dict[str, object]:
        """What `Index.plan` says of a subscription."""
        found = [
            {
                "segment": one.segment,
                "key": one.key,
                "attributes": list(one.attributes),
                **one.facts,
                "share": one.share,
            }
            for one in self.conjunctions
        ]
        return {"subscription": id, "conjunctions": found, "cost_ns": self.cost_ns}


def plan(segments: Sequence[Segment], row: int, sample: object = None) -> RowPlan:
    """Explain every conjunction of a row; shares come from `sample`, events in any form, or are guessed without it."""
    found: list[PlannedConjunction] = []
    cost = 0.0
    for number, segment in enumerate(segments):
        place = int(np.searchsorted(segment.rows, row))
        if place == len(segment.rows) or segment.rows[place] != row:
            continue
        expected = _Expected(segment, sample)
        for one in _explain(segment, row):
            share = min(1.0, sum(map(expected.share, one.ranges)))
            cost += share * one.candidate_ns
            names, patterns = _names(segment, one.attrs)
            facts = {"patterns": patterns, **one.facts} if patterns else one.facts
            found.append(PlannedConjunction(number, one.key, tuple(names), facts, share))
    return RowPlan(tuple(found), cost)


def _explain(segment: Segment, row: int) -> Iterator[Explained]:
    """Yield how each conjunction of a row is indexed."""
    if row in segment.arrays["always"]:
        yield Explained("always", [], {}, [[]], ALWAYS_NS)
    for key in KEYS:
        yield from key.explain(segment.arrays, segment.attributes, row)


def _names(segment: Segment, attrs: list[int]) -> tuple[list[str], list[str]]:
    """The names of these attributes, and the names of the ones that are looked up by patterns."""
    links = {attr: (left, right) for attr, left, right in segment.meta.links}
    sources = [source for attr in attrs for source in links.get(attr, (attr,))]
    names = list(dict.fromkeys(segment.attributes[attr] for attr in sources))
    patterns = [segment.attributes[attr] for attr in attrs if attr in segment.derived]
    return names, patterns


class _Expected:
    """The share of events that have some ranks."""

    def __init__(self, segment: Segment, sample: object) -> None:
        self._encoded = None if sample is None else segment.encoder.encode(sample)
        self._ranks = segment.arrays["rank_base"][:, 4]

    def share(self, ranges: list[RankRange]) -> float:
        """The share of events that have a rank in each of the ranges."""
        encoded = self._encoded
        if encoded is None:
            present = min(1.0, ATTRIBUTES_PER_EVENT / max(1, len(self._ranks)))
            parts = [present * (high - low + 1) / max(1, int(self._ranks[attr])) for attr, low, high in ranges]
            return float(np.prod(np.minimum(parts, 1.0))) if parts else 1.0
        reached = np.ones(encoded.count, bool)
        events = np.repeat(np.arange(encoded.count), np.diff(encoded.offsets))
        for attr, low, high in ranges:
            inside = (encoded.attrs == attr) & (encoded.ranks >= low) & (encoded.ranks <= high)
            reached &= np.bincount(events[inside], minlength=encoded.count) > 0
        return float(reached.mean()) if encoded.count else 0.0
