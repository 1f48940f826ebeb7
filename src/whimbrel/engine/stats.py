"""The statistics of an index: sizes, keys, memory, and the work counted so far."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from whimbrel.engine.access.registry import KINDS
from whimbrel.engine.live.subscription_set import SubscriptionSet


@dataclass(frozen=True, slots=True)
class IndexStats:
    """Counts of what an index holds, bytes, and averages per matched event."""

    subscriptions: int
    segments: int
    segment_sizes: list[int]
    """Subscriptions of each segment, dead ones included."""
    head: int
    """Subscriptions that no segment holds yet."""
    rows: int
    """Versions of subscriptions that were ever added, dead ones included."""
    attributes: int
    """Attributes that filters in segments mention."""
    conjunctions: int
    always_true: int
    """Subscriptions that every event matches."""
    keys: dict[str, int]
    """Conjunctions by kind of access key."""
    bytes: int
    """Bytes of all arrays that matching reads."""
    bytes_per_subscription: float
    text_bytes: int
    events: int
    """Events matched so far."""
    candidates_per_event: float
    probes_per_event: float
    chunks_per_event: float

    def to_dict(self) -> dict[str, object]:
        """The fields by name."""
        return asdict(self)


def index_stats(subscriptions: SubscriptionSet, events: int, work: np.ndarray) -> IndexStats:
    """Count what an index holds; `work` has the candidates, probes and opened chunks of all `events` matched."""
    snapshot, ids = subscriptions.segments.snapshot, subscriptions.ids
    segments = snapshot.segments
    keys = dict.fromkeys(KINDS, 0)
    for segment in segments:
        for kind, number in segment.meta.keys.items():
            keys[kind] += number
    deaths = 0 if snapshot.died is None else snapshot.died.nbytes
    size = sum(segment.nbytes() for segment in segments) + deaths + ids.memory_bytes()
    per_event = work / max(1, events)
    return IndexStats(
        subscriptions=len(ids),
        segments=len(segments),
        segment_sizes=[len(segment.rows) for segment in segments],
        head=snapshot.head_size,
        rows=snapshot.rows,
        attributes=len({name for segment in segments for name in segment.attributes}),
        conjunctions=sum(segment.meta.conjunctions for segment in segments),
        always_true=sum(len(segment.arrays["always"]) for segment in segments),
        keys=keys,
        bytes=size,
        bytes_per_subscription=size / max(1, len(ids)),
        text_bytes=subscriptions.texts.memory_bytes(),
        events=events,
        candidates_per_event=float(per_event[0]),
        probes_per_event=float(per_event[1]),
        chunks_per_event=float(per_event[2]),
    )
