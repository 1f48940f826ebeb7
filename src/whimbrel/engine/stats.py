"""What the index tells about itself: sizes, keys, memory, and the work counted so far."""

from __future__ import annotations

import numpy as np

from whimbrel.engine.access.planner import KINDS
from whimbrel.engine.ids.id_table import IdTable
from whimbrel.engine.live.snapshot import Snapshot
from whimbrel.engine.live.texts import TextStore


def stats(snapshot: Snapshot, ids: IdTable, texts: TextStore, events: int, work: np.ndarray) -> dict[str, object]:
    """Counts of what is held and of the work done for so many events; `work`: candidates, probes, chunks."""
    keys = dict.fromkeys(KINDS, 0)
    for segment in snapshot.segments:
        its_keys = segment.meta["keys"]
        assert isinstance(its_keys, dict)
        for kind, number in its_keys.items():
            keys[kind] += number
    live = max(1, len(ids))
    matching = sum(segment.nbytes() for segment in snapshot.segments)
    matching += 0 if snapshot.died is None else snapshot.died.nbytes
    per_event = work / max(1, events)
    return {
        "subscriptions": len(ids),
        "segments": len(snapshot.segments),
        "segment_sizes": [segment.meta["subscriptions"] for segment in snapshot.segments],
        "head": snapshot.head_size,
        "slots": snapshot.rows,
        "attributes": len({name for segment in snapshot.segments for name in segment.attributes}),
        "conjunctions": sum(int(str(segment.meta["conjunctions"])) for segment in snapshot.segments),
        "always_true": sum(len(segment.arrays["always"]) for segment in snapshot.segments),
        "keys": keys,
        "bytes": matching + ids.memory_bytes(),
        "bytes_per_subscription": (matching + ids.memory_bytes()) / live,
        "text_bytes": texts.memory_bytes(),
        "events": events,
        "candidates_per_event": float(per_event[0]),
        "probes_per_event": float(per_event[1]),
        "chunks_per_event": float(per_event[2]),
    }
