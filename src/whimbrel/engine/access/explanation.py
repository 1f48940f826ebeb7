"""How one subscription is indexed, and what it costs an event: the planner's choice, told to people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from whimbrel.engine.access.hash.candidates import CANDIDATE_NS
from whimbrel.engine.access.hash.layout import REFERENCES
from whimbrel.engine.access.hash.table import table_entries
from whimbrel.engine.access.segment import Segment
from whimbrel.engine.access.shared.packing import SLOT_MASK
from whimbrel.engine.access.shared.records import HEAD, record_starts
from whimbrel.engine.access.shared.weights import ATTRIBUTES_PER_EVENT
from whimbrel.engine.access.signature.plan import TEST_NS
from whimbrel.model.subscription import Id
from whimbrel.ranks.encoding.event_encoder import EncodedEvents

COST_NS = {
    "always": 1.0,
    "hash": CANDIDATE_NS,
    "present": CANDIDATE_NS,
    "sorted": 0.4,
    "bitmap": 1.3,
    "signature": TEST_NS,
}
"""What a conjunction costs an event that its key leads to it, in nanoseconds, as measured on the Le Subscribe workload.

Less where an event is one of a block, or where entries share their key and their checks."""

Facts = dict[str, object]


def plan(segments: Sequence[Segment], slot: int, id: Id, sample: object = None) -> Facts:
    """Where the conjunctions of a slot are filed; `share` is that of the events that are expected to reach one.

    Expected by the sample, event by event, or without one by the planner's guess.
    """
    found: list[Facts] = []
    cost = 0.0
    for number, segment in enumerate(segments):
        place = int(np.searchsorted(segment.slots, slot))
        if place == len(segment.slots) or segment.slots[place] != slot:
            continue
        expected = _Expected(segment, sample)
        for kind, facts, keys in _entries(segment, slot):
            share = min(1.0, sum(map(expected.share, keys)))
            cost += share * COST_NS[kind]
            found.append({"segment": number, "key": kind, **facts, "share": share})
    return {"subscription": id, "conjunctions": found, "cost_ns": cost}


Range = tuple[int, int, int]
"""An attribute, and the ranks of it, first and last, with which an event reaches a conjunction."""


class _Expected:
    """What part of the events has some ranks."""

    def __init__(self, segment: Segment, sample: object) -> None:
        self._encoded: EncodedEvents | None = None
        self._ranks = segment.arrays["rank_base"][:, 4]
        if sample is not None:
            encoder = segment.encoder
            self._encoded = encoder.encode_events(sample) if isinstance(sample, list) else encoder.encode_table(sample)

    def share(self, key: list[Range]) -> float:
        """The share of events that have ranks in all of the ranges."""
        encoded = self._encoded
        if encoded is None:
            present = min(1.0, ATTRIBUTES_PER_EVENT / max(1, len(self._ranks)))
            parts = [present * (high - low + 1) / max(1, int(self._ranks[attr])) for attr, low, high in key]
            return float(np.prod(np.minimum(parts, 1.0))) if parts else 1.0
        reached = np.ones(encoded.count, bool)
        rows = np.repeat(np.arange(encoded.count), np.diff(encoded.offsets))
        for attr, low, high in key:
            inside = (encoded.attrs == attr) & (encoded.ranks >= low) & (encoded.ranks <= high)
            reached &= np.bincount(rows[inside], minlength=encoded.count) > 0
        return float(reached.mean()) if encoded.count else 0.0


def _entries(segment: Segment, slot: int) -> Iterator[tuple[str, Facts, list[list[Range]]]]:
    """Kind, facts and keys of each conjunction of a slot."""
    a = segment.arrays
    if slot in a["always"]:
        yield "always", {"attributes": []}, [[]]
    for record in _records_of(a["hash_records"], slot):
        found = np.flatnonzero(a["signature_record"] == record)
        yield _signature(segment, record, int(found[0])) if len(found) else _hash_key(segment, record)
    for entry in np.flatnonzero((a["sorted_slot"] & SLOT_MASK) == slot).tolist():
        yield _sorted_key(segment, entry)
    for entry in np.flatnonzero((a["bits_slot"] & SLOT_MASK) == slot).tolist():
        yield _chunk_key(segment, entry)


def _records_of(records: np.ndarray, slot: int) -> list[int]:
    """Where the records begin that have a slot."""
    starts = record_starts(records)
    found = np.flatnonzero((records & SLOT_MASK) == slot)  # in an item perhaps
    groups = np.searchsorted(starts, found, "right") - 1
    return [
        int(start) for start, at in zip(starts[groups], found, strict=True) if at >= start + HEAD + 3 * records[start]
    ]


def _names(segment: Segment, attrs: list[int]) -> Facts:
    """The names of attributes, and of those among them that are looked up by their patterns."""
    names = list(dict.fromkeys(segment.attributes[attr] for attr in attrs))
    patterns = [segment.attributes[attr] for attr in attrs if attr in segment.derived]
    return {"attributes": names, "patterns": patterns} if patterns else {"attributes": names}


def _hash_key(segment: Segment, record: int) -> tuple[str, Facts, list[list[Range]]]:
    a = segment.arrays
    keys, found = table_entries(a["hash_table"])
    refers = found & REFERENCES != 0
    start, length = found >> 32, found & (REFERENCES - 1)
    slot = a["hash_records"][record + HEAD + 3 * a["hash_records"][record]]
    references = np.flatnonzero(np.isin(a["hash_targets"][:, 0], [record, ~slot]))
    runs = np.flatnonzero(refers == bool(len(references)))
    runs = runs[np.argsort(start[runs])]
    places = references if len(references) else np.array([record])
    rows = runs[np.searchsorted(start[runs], places, "right") - 1]
    order = np.argsort(a["hash_base"], kind="stable")
    schema = int(order[np.searchsorted(a["hash_base"][order], keys[rows[0]], "right") - 1])
    present = bool(a["hash_present"][schema])
    attrs = [attr for attr in a["hash_attrs"][schema].tolist() if attr >= 0]
    facts: Facts = {
        **_names(segment, attrs),
        "keys": len(rows),
        "groups_of_key": int(length[rows].max()),
        "checks": int(a["hash_records"][record]),
    }
    if present:
        return "present", facts, [[(attr, 0, int(a["rank_base"][attr, 4])) for attr in attrs]]
    return "hash", facts, [_ranges(a, schema, attrs, int(value)) for value in keys[rows]]


def _signature(segment: Segment, record: int, entry: int) -> tuple[str, Facts, list[list[Range]]]:
    a = segment.arrays
    items = a["hash_records"][record + HEAD :][: 3 * a["hash_records"][record]].reshape(-1, 3)
    in_key = np.isin(items[:, 0], a["signature_key"])
    key = [(int(attr), int(low), int(high)) for attr, low, high in items[in_key]]
    facts: Facts = {
        "attributes": [segment.attributes[attr] for attr, _, _ in key],
        "checks": len(items) if a["signature_slot"][entry] < 0 else 0,
    }
    return "signature", facts, [key]


def _ranges(arrays: Mapping[str, np.ndarray], schema: int, attrs: list[int], value: int) -> list[Range]:
    """The ranks that a hash key stands for."""
    rest = value - int(arrays["hash_base"][schema])
    key: list[Range] = []
    for place, attr in enumerate(attrs):
        code, rest = divmod(rest, int(arrays["hash_radix"][schema, place]))
        factor = int(arrays["hash_factor"][schema, place])
        low, high = (-((-code << 32) // factor), -((-(code + 1) << 32) // factor) - 1) if factor else (code, code)
        key.append((attr, low, high))
    return key


def _sorted_key(segment: Segment, entry: int) -> tuple[str, Facts, list[list[Range]]]:
    a = segment.arrays
    group = int(np.searchsorted(a["sorted_start"], entry, "right")) - 1
    attr = int(np.searchsorted(a["sorted_first"], group, "right")) - 1
    bound, fixed = int(a["sorted_bound"][entry]), int(a["sorted_fixed"][group])
    low, high = (fixed, bound) if a["sorted_upper"][group] else (bound, fixed)
    facts: Facts = {**_names(segment, [attr]), "checks": int(a["sorted_second"][group] >= 0)}
    return "sorted", facts, [[(attr, low, high)]]


def _chunk_key(segment: Segment, entry: int) -> tuple[str, Facts, list[list[Range]]]:
    a = segment.arrays
    chunk = int(np.searchsorted(a["bits_first"], entry, "right")) - 1
    attrs = a["bits_attrs"]
    zones = [
        (int(attrs[compact]), int(a["bits_zone_low"][chunk, place]), int(a["bits_zone_high"][chunk, place]))
        for place, compact in enumerate(a["bits_zone_attr"][chunk].tolist())
        if compact >= 0
    ]
    used = a["bits_slot_attr"][a["bits_slot_start"][chunk] : a["bits_slot_start"][chunk + 1]]
    facts: Facts = {
        **_names(segment, [int(attrs[compact]) for compact in used.tolist()]),
        "chunk": chunk,
        "zones": _names(segment, [attr for attr, _, _ in zones])["attributes"],
        "checks": int(a["bits_place"][entry, 1] - a["bits_place"][entry, 0]),
    }
    return "bitmap", facts, [zones]
