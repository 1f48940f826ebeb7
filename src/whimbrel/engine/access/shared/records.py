"""Records: what stands under hash keys, each in one place so that a visit reads one or two cache lines.

A record is a *group*, conjunctions with the same key and the same residual items: how many items, how many slots, then
the items (attribute with kind, low, high) and the slots with their flags, all int32. Records of one key stand together.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.jit import kernel
from whimbrel.engine.access.shared.packing import SHARED_BIT

HEAD = 2
"""Words before the items of a record."""
PLAIN = 1 << 30
"""Added to the number of slots: no other conjunction shares one of them, so that they can be copied as a whole."""
COUNT = PLAIN - 1


def write_records(first: np.ndarray, item_start: np.ndarray, items: np.ndarray, slot: np.ndarray) -> np.ndarray:
    """The records of groups: group g has the slots first[g]:first[g + 1], and the items from item_start[g] on."""
    records = np.empty(HEAD * (len(first) - 1) + items.size + len(slot), np.int32)
    _write(first, item_start, items, slot, records)
    return records


def record_sizes(first: np.ndarray, item_start: np.ndarray) -> np.ndarray:
    """How many words the record of each group takes."""
    return np.asarray(HEAD + 3 * np.diff(item_start).astype(np.int64) + np.diff(first))


@kernel
def _write(first, item_start, items, slot, records):  # type: ignore[no-untyped-def]
    at = 0
    for g in range(first.size - 1):
        plain = True
        for t in range(first[g], first[g + 1]):
            plain &= slot[t] & SHARED_BIT == 0
        records[at] = item_start[g + 1] - item_start[g]
        records[at + 1] = first[g + 1] - first[g] + (PLAIN if plain else 0)
        at += HEAD
        for k in range(item_start[g], item_start[g + 1]):
            records[at], records[at + 1], records[at + 2] = items[k, 0], items[k, 1], items[k, 2]
            at += 3
        for t in range(first[g], first[g + 1]):
            records[at] = slot[t]
            at += 1


@kernel
def record_starts(records):  # type: ignore[no-untyped-def]
    """Where each record begins, and at last where they end."""
    count = at = 0
    while at < records.size:
        at += HEAD + 3 * records[at] + (records[at + 1] & COUNT)
        count += 1
    starts = np.empty(count + 1, np.int64)
    at = 0
    for g in range(count):
        starts[g] = at
        at += HEAD + 3 * records[at] + (records[at + 1] & COUNT)
    starts[count] = at
    return starts
