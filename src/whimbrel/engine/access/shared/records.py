"""Records: the conjunctions under hash keys and signatures, each in one place, so that a visit reads one or two lines.

A record is a group: conjunctions with the same key and the same residual items. It has the number of items, the number
of rows, the items (attribute with kind, low, high) and the rows with their flags, all int32. The records of one key
stand together; the records of signatures follow those of hash keys.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.intrinsics import copy, prefetch
from whimbrel.compiled.jit import helper, kernel
from whimbrel.engine.access.shared.arrays import Arrays, EventState, EventValues
from whimbrel.engine.access.shared.items import ATTR_MASK, KIND_SHIFT, NO_ITEM, holds, in_set
from whimbrel.engine.access.shared.rows import ROW_MASK, SHARED_BIT, emit

HEAD = 2
"""Words before the items of a record."""
PLAIN = 1 << 30
"""Added to the number of rows: no other conjunction has one of them, so that they can be copied as a whole."""
COUNT = PLAIN - 1
COPIED = 8
"""More rows than this are copied as a whole."""
AHEAD = 16
"""How many records before its own the cache is asked for a record."""


def write_records(first: np.ndarray, item_start: np.ndarray, items: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The records of groups: group g has the rows first[g]:first[g + 1], and the items from item_start[g] on."""
    records = np.empty(HEAD * (len(first) - 1) + items.size + len(rows), np.int32)
    _write(first, item_start, items, rows, records)
    return records


def record_sizes(first: np.ndarray, item_start: np.ndarray) -> np.ndarray:
    """How many words the record of each group takes."""
    return np.asarray(HEAD + 3 * np.diff(item_start).astype(np.int64) + np.diff(first))


def split_records(arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """The records of hash keys, and those of signatures."""
    records, own = arrays["hash_records"], arrays["signature_record"]
    first = int(own[0]) if len(own) else len(records)
    return records[:first], records[first:]


def records_with(records: np.ndarray, row: int) -> list[int]:
    """Where the records begin that have a row."""
    starts = record_starts(records)
    found = np.flatnonzero((records & ROW_MASK) == row)  # in an item perhaps
    groups = np.searchsorted(starts, found, "right") - 1
    return [
        int(start) for start, at in zip(starts[groups], found, strict=True) if at >= start + HEAD + 3 * records[start]
    ]


def items_at(records: np.ndarray, place: int) -> np.ndarray:
    """The items of the record that begins at a place."""
    return np.asarray(records[place + HEAD :][: 3 * records[place]].reshape(-1, 3))


@kernel
def _write(first: np.ndarray, item_start: np.ndarray, items: np.ndarray, rows: np.ndarray, records: np.ndarray) -> None:
    at = 0
    for g in range(first.size - 1):
        plain = True
        for t in range(first[g], first[g + 1]):
            plain &= rows[t] & SHARED_BIT == 0
        records[at] = item_start[g + 1] - item_start[g]
        records[at + 1] = first[g + 1] - first[g] + (PLAIN if plain else 0)
        at += HEAD
        for k in range(item_start[g], item_start[g + 1]):
            records[at], records[at + 1], records[at + 2] = items[k, 0], items[k, 1], items[k, 2]
            at += 3
        for t in range(first[g], first[g + 1]):
            records[at] = rows[t]
            at += 1


@kernel
def record_starts(records: np.ndarray) -> np.ndarray:
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


@helper
def visit(
    records: np.ndarray, listed: np.ndarray, start: int, count: int, values: EventValues, event: EventState,
    out: np.ndarray, n: int,
) -> int:  # fmt: skip
    """Append the rows of records whose items hold; the new length, or -1 without room.

    The records are `count` that stand together from `start` on, or, if `start` is -1, those at the listed places.
    """
    sets, value, attrs, ranks, stamp = values
    at = np.int64(start)
    for x in range(min(count, AHEAD) if start < 0 else 0):
        prefetch(records, np.int64(listed[x]))  # type: ignore[call-arg]
        prefetch(records, np.int64(listed[x]) + 16)
    for x in range(count):
        if start < 0:
            at = np.int64(listed[x])
            if x + AHEAD < count:
                prefetch(records, np.int64(listed[x + AHEAD]))  # type: ignore[call-arg]
                prefetch(records, np.int64(listed[x + AHEAD]) + 16)
        items = at + HEAD
        rows = items + 3 * records[at]
        size = records[at + 1] & COUNT
        plain = size > COPIED and size != records[at + 1] and not event.several
        at = last = rows + size
        good = True
        for k in range(items, rows, 3):
            packed, low, high = records[k], records[k + 1], records[k + 2]
            v = value[packed & ATTR_MASK]
            if packed <= ATTR_MASK and v >= -1:  # a range and at most one value: the common case, in line
                if low <= v <= high:
                    continue
            elif packed < NO_ITEM and v >= -1:
                if v >= 0 and (high >> ((v >> 1) & 31)) & 1 == 1 and in_set(sets, low, v):
                    continue
            elif holds(sets, packed >> KIND_SHIFT, low, high, v, attrs, ranks, event.end):
                continue
            good = False
            break
        if not good:
            continue
        if n + size > out.size:
            return -1
        if plain:
            copy(records, np.int64(rows), np.int64(size), out, np.int64(n))  # type: ignore[call-arg]
            n += size
            continue
        for t in range(rows, last):
            packed = records[t]
            if event.several or packed & SHARED_BIT:
                n = emit(packed, event.several, stamp, event.epoch, out, n)
            else:
                out[n] = packed
                n += 1
    return n
