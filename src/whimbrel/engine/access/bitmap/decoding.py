"""Chunks read back: to conjunctions, for merges, and to what `plan` says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from whimbrel.engine.access.bitmap.plan import CANDIDATE_NS
from whimbrel.engine.access.shared.arrays import Arrays
from whimbrel.engine.access.shared.decoded import Explained, Packed
from whimbrel.engine.access.shared.items import ATTR_MASK
from whimbrel.engine.access.shared.rows import ROW_MASK


def decode(arrays: Arrays) -> Packed:
    """All conjunctions in chunks."""
    items = arrays["bits_items"]
    packed = items[:, 0]
    attr = arrays["bits_attrs"][packed & ATTR_MASK] | (packed & ~np.int32(ATTR_MASK)) if len(packed) else packed
    counts = np.diff(arrays["bits_place"][:, 0]).astype(np.int64)
    return Packed(arrays["bits_slot"], counts, attr.astype(np.int32), items[:, 1], items[:, 2])


def explain(arrays: Arrays, names: Sequence[str], row: int) -> Iterator[Explained]:
    """The chunks of a row."""
    a = arrays
    attrs = a["bits_attrs"].tolist()
    for entry in np.flatnonzero((a["bits_slot"] & ROW_MASK) == row).tolist():
        chunk = int(np.searchsorted(a["bits_first"], entry, "right")) - 1
        zones = [
            (attrs[compact], int(a["bits_zone_low"][chunk, place]), int(a["bits_zone_high"][chunk, place]))
            for place, compact in enumerate(a["bits_zone_attr"][chunk].tolist())
            if compact >= 0
        ]
        columns = a["bits_slot_attr"][a["bits_slot_start"][chunk] : a["bits_slot_start"][chunk + 1]]
        facts: dict[str, object] = {
            "chunk": chunk,
            "zones": list(dict.fromkeys(names[attr] for attr, _, _ in zones)),
            "checks": int(a["bits_place"][entry, 1] - a["bits_place"][entry, 0]),
        }
        yield Explained("bitmap", [attrs[compact] for compact in columns.tolist()], facts, [zones], CANDIDATE_NS)
