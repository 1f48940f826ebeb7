"""How one subscription is indexed, and what it costs an event: what `plan` says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from whimbrel.engine.access.registry import KEYS
from whimbrel.engine.access.segment import Segment
from whimbrel.engine.access.shared.decoded import Explained, RankRange
from whimbrel.engine.access.shared.weights import ATTRIBUTES_PER_EVENT
from whimbrel.model.subscription import Id
from whimbrel.ranks.encoding.event_encoder import EncodedEvents

ALWAYS_NS = 1.0
"""What a row that every event matches costs."""


def plan(segments: Sequence[Segment], row: int, id: Id, sample: object = None) -> dict[str, object]:
    """Where the conjunctions of a row are filed; `share` is that of the events that are expected to reach one.

    With a sample, the share of its events; without one, a guess as the planner's. `cost_ns` is what an event costs on
    average, as measured on the Le Subscribe workload; less where entries share their key and their checks.
    """
    found: list[dict[str, object]] = []
    cost = 0.0
    for number, segment in enumerate(segments):
        place = int(np.searchsorted(segment.rows, row))
        if place == len(segment.rows) or segment.rows[place] != row:
            continue
        expected = _Expected(segment, sample)
        for one in _explain(segment, row):
            share = min(1.0, sum(map(expected.share, one.ranges)))
            cost += share * one.candidate_ns
            names = _names(segment, one.attrs)
            found.append({"segment": number, "key": one.key, **names, **one.facts, "share": share})
    return {"subscription": id, "conjunctions": found, "cost_ns": cost}


def _explain(segment: Segment, row: int) -> Iterator[Explained]:
    """How each conjunction of a row is filed."""
    if row in segment.arrays["always"]:
        yield Explained("always", [], {}, [[]], ALWAYS_NS)
    for key in KEYS:
        yield from key.explain(segment.arrays, segment.attributes, row)


def _names(segment: Segment, attrs: list[int]) -> dict[str, object]:
    """The names of attributes, and of those among them that are looked up by their patterns."""
    links = {attr: (left, right) for attr, left, right in segment.meta.links}
    sources = [source for attr in attrs for source in links.get(attr, (attr,))]
    names = list(dict.fromkeys(segment.attributes[attr] for attr in sources))
    patterns = [segment.attributes[attr] for attr in attrs if attr in segment.derived]
    return {"attributes": names, "patterns": patterns} if patterns else {"attributes": names}


class _Expected:
    """The share of events that have some ranks."""

    def __init__(self, segment: Segment, sample: object) -> None:
        self._encoded: EncodedEvents | None = None
        self._ranks = segment.arrays["rank_base"][:, 4]
        if sample is not None:
            encoder = segment.encoder
            self._encoded = encoder.encode_events(sample) if isinstance(sample, list) else encoder.encode_table(sample)

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
