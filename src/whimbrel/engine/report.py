"""What the index tells about itself: sizes, keys, memory, work; and how one subscription is indexed."""

from __future__ import annotations

import numpy as np

from whimbrel.engine.ids import IdTable
from whimbrel.engine.layout import SLOT_MASK
from whimbrel.engine.planner import KINDS
from whimbrel.engine.segment import Segment
from whimbrel.engine.snapshot import Snapshot
from whimbrel.engine.texts import TextStore
from whimbrel.model.subscription import Id


def stats(snapshot: Snapshot, ids: IdTable, texts: TextStore, counts: np.ndarray) -> dict[str, object]:
    """Counts of what is held and of the work done; `counts`: events, candidates, probes, chunks, verifications."""
    keys = dict.fromkeys(KINDS, 0)
    for segment in snapshot.segments:
        its_keys = segment.meta["keys"]
        assert isinstance(its_keys, dict)
        for kind, number in its_keys.items():
            keys[kind] += number
    live = max(1, len(ids))
    matching = sum(segment.nbytes() for segment in snapshot.segments)
    matching += 0 if snapshot.died is None else snapshot.died.nbytes
    events = max(1, int(counts[0]))
    return {
        "subscriptions": len(ids),
        "segments": len(snapshot.segments),
        "segment_sizes": [segment.meta["subscriptions"] for segment in snapshot.segments],
        "head": snapshot.head_size,
        "slots": snapshot.slots,
        "attributes": len({name for segment in snapshot.segments for name in segment.attributes}),
        "conjunctions": sum(int(str(segment.meta["conjunctions"])) for segment in snapshot.segments),
        "always_true": sum(len(segment.arrays["always"]) for segment in snapshot.segments),
        "keys": keys,
        "bytes": matching + ids.memory_bytes(),
        "bytes_per_subscription": (matching + ids.memory_bytes()) / live,
        "text_bytes": texts.memory_bytes(),
        "events": int(counts[0]),
        "candidates_per_event": int(counts[1]) / events,
        "probes_per_event": int(counts[2]) / events,
        "chunks_per_event": int(counts[3]) / events,
    }


def plan(snapshot: Snapshot, slot: int, id: Id) -> dict[str, object]:
    """Where the conjunctions of a slot are filed, and the share of events that is expected to reach each."""
    found: list[dict[str, object]] = []
    for number, segment in enumerate(snapshot.segments):
        place = int(np.searchsorted(segment.slots, slot))
        if place == len(segment.slots) or segment.slots[place] != slot:
            continue
        a = segment.arrays
        if slot in a["always"]:
            found.append({"segment": number, "key": "always", "attributes": [], "candidates": 1})
        for entry in np.flatnonzero((a["hash_slot"] & SLOT_MASK) == slot).tolist():
            found.append({"segment": number, **_hash_key(segment, entry)})
        for entry in np.flatnonzero((a["sorted_slot"] & SLOT_MASK) == slot).tolist():
            group = int(np.searchsorted(a["sorted_start"], entry, "right")) - 1
            attr = int(np.searchsorted(a["sorted_first"], group, "right")) - 1
            checks = int(a["sorted_second"][group] >= 0)
            found.append(
                {"segment": number, "key": "sorted", "attributes": [segment.attributes[attr]], "checks": checks}
            )
        for entry in np.flatnonzero((a["bits_slot"] & SLOT_MASK) == slot).tolist():
            found.append({"segment": number, **_chunk_key(segment, entry)})
    return {"subscription": id, "conjunctions": found}


def _hash_key(segment: Segment, entry: int) -> dict[str, object]:
    a = segment.arrays
    places = a["hash_table"][:, 1]
    start, length = places >> 32, places & 0xFFFFFFFF
    group = int(np.searchsorted(a["hash_group"], entry, "right")) - 1
    row = int(np.flatnonzero((a["hash_table"][:, 0] >= 0) & (start <= group) & (group < start + length))[0])
    key = int(a["hash_table"][row, 0])
    order = np.argsort(a["hash_base"], kind="stable")
    schema = int(order[np.searchsorted(a["hash_base"][order], key, "right") - 1])
    names = [segment.attributes[attr] for attr in a["hash_attrs"][schema].tolist() if attr >= 0]
    return {
        "key": "present" if a["hash_present"][schema] else "hash",
        "attributes": names,
        "groups_of_key": int(length[row]),
        "checks": int(a["hash_item_start"][group + 1] - a["hash_item_start"][group]),
    }


def _chunk_key(segment: Segment, entry: int) -> dict[str, object]:
    a = segment.arrays
    chunk = entry // 512
    zones = [int(c) for c in a["bits_zone_attr"][chunk] if c >= 0]
    slots = a["bits_slot_attr"][a["bits_slot_start"][chunk] : a["bits_slot_start"][chunk + 1]]
    return {
        "key": "bitmap",
        "chunk": chunk,
        "zones": [segment.attributes[int(a["bits_attrs"][c])] for c in zones],
        "attributes": [segment.attributes[int(a["bits_attrs"][c])] for c in slots.tolist()],
        "checks": int(a["bits_item_check"][entry] - a["bits_item_start"][entry]),
    }
