"""Matches blocks of events against chunks; reads chunks back for merges and for `Index.plan`.

A block goes chunk by chunk, so that the bits of a chunk are read once for all its events. The rows that an event finds
in a chunk are a run of `Scratch.pair_row`; where it begins, `pair_event` has the event and the length of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from whimbrel.compiled.array_types import Bytes, Int32Matrix, Int32s, Int64s, Uint64s
from whimbrel.compiled.intrinsics import or_rows, prefetch, trailing_zeros
from whimbrel.compiled.jit import helper, inlined
from whimbrel.engine.access.bitmap.chunks import CHUNK, ZONES
from whimbrel.engine.access.bitmap.plan import CANDIDATE_NS, CHECKED, UNCHECKED, WORDS, BitmapArrays, bucket_of
from whimbrel.engine.access.shared.arrays import Arrays, Scratch, Task
from whimbrel.engine.access.shared.key import Explained, Packed
from whimbrel.engine.access.shared.packing import ATTR_MASK, KIND_SHIFT, NO_ITEM, ROW_MASK, holds, in_set

FEW = 16
"""Up to so many events are compared with zones one by one."""
_FULL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_MULTIPLE = -1
_LENGTH_BITS = 10
_LENGTH = (1 << _LENGTH_BITS) - 1

Sets = tuple[np.ndarray, np.ndarray, np.ndarray]


@inlined
def match_chunks(
    keys: BitmapArrays, sets: Sets, task: Task, first: int, count: int, scratch: Scratch
) -> tuple[np.ndarray, np.ndarray]:
    """Find the rows of chunks that events first .. first + count of the task match.

    Returns the rows with their flags, and where the rows of each event begin; start[0] is -1 if a buffer is too small.
    """
    found, start = scratch.pair_row, np.zeros(count + 1, np.int64)
    if keys.row.size == 0:
        return found, start
    _load_block(keys, task.offsets, task.attrs, task.ranks, first, count, scratch.by_attr, scratch.by_event)
    pairs = _match_all_chunks(keys, sets, task, first, count, scratch)
    if pairs < 0:
        start[0] = -1
    elif count == 1:
        start[1] = pairs
    else:
        found = _sort_by_event(scratch.pair_event, scratch.pair_row, pairs, start)
    return found, start


@helper
def _sort_by_event(pair_event: Int32s, pair_row: Int32s, pairs: int, start: Int64s) -> np.ndarray:
    """Return the rows of all runs, event by event; write to `start`, all zeros, where the rows of each event begin."""
    i = 0
    while i < pairs:
        size = pair_event[i] & _LENGTH
        start[(pair_event[i] >> _LENGTH_BITS) + 1] += size
        i += size
    for e in range(start.size - 1):
        start[e + 1] += start[e]
    fill = start.copy()
    by_event = np.empty(pairs, np.int32)
    i = 0
    while i < pairs:
        e, size = pair_event[i] >> _LENGTH_BITS, pair_event[i] & _LENGTH
        at = fill[e]
        for j in range(size):
            by_event[at + j] = pair_row[i + j]
        fill[e] = at + size
        i += size
    return by_event


@helper
def _load_block(
    keys: BitmapArrays, offsets: Int64s, attrs: Int32s, ranks: Int32s, first: int, count: int,
    by_attr: Int32Matrix, by_event: Int32Matrix,
) -> None:  # fmt: skip
    """Write the values of a block for the attributes that chunks use.

    `by_attr` has for each attribute the values of all events, as in `EventValues.value`. `by_event` has for each event
    and attribute the offset of the line of bits of its value, then the values themselves, and last whether the event
    has several values for some attribute.
    """
    used = keys.bucket_start.size - 1
    for c in range(used):
        by_attr[c, :count] = -1
    for e in range(count):
        by_event[e, :used] = 0
        by_event[e, used : 2 * used] = -1
        by_event[e, 2 * used] = 0
        i, end = offsets[first + e], offsets[first + e + 1]
        while i < end:
            a = attrs[i]
            j = i + 1
            while j < end and attrs[j] == a:
                j += 1
            c = keys.compact[a]
            if c >= 0:
                v = ranks[i]
                line = _MULTIPLE
                if j == i + 1:
                    start = keys.bucket_start[c]
                    line = (bucket_of(v, start, keys.bucket_start[c + 1], keys.bucket_high) + 1) * WORDS
                else:
                    v = -2 - i
                    by_event[e, 2 * used] = 1
                by_attr[c, e] = v
                by_event[e, c] = line
                by_event[e, used + c] = v
            i = j


@helper
def _match_all_chunks(keys: BitmapArrays, sets: Sets, task: Task, first: int, count: int, scratch: Scratch) -> int:
    """Write the runs of rows that match in all chunks; return the number of rows, or -1 if a buffer is too small."""
    offsets, attrs, ranks = task.offsets, task.attrs, task.ranks
    used, chunks = keys.bucket_start.size - 1, keys.first.size - 1
    dead, spare = np.zeros(WORDS, np.uint64), np.zeros(WORDS, np.uint64)
    masks = np.zeros((count + 7) >> 3, np.uint64)
    mask = masks.view(np.uint8)
    words, column_attr, column_offset = keys.words, keys.column_attr, keys.column_offset
    zone_attr, zone_low, zone_high = keys.zone_attr, keys.zone_low, keys.zone_high
    by_event, alive = scratch.by_event, scratch.alive
    pair_event, pair_row = scratch.pair_event, scratch.pair_row
    place, item = keys.place, keys.items
    n = opened = candidates = 0
    for chunk in range(chunks):
        living = _inside_zones(zone_attr, zone_low, zone_high, chunk, scratch.by_attr, count, mask, masks, alive)
        opened += living
        s0, s1 = np.int64(keys.column_start[chunk]), np.int64(keys.column_start[chunk + 1])
        p0, p1 = np.int64(keys.first[chunk]), np.int64(keys.first[chunk + 1])
        checks = keys.checked[chunk]
        begin = n
        for i in range(living):
            e = np.int64(alive[i])
            if by_event[e, 2 * used] == 0:
                some: bool = or_rows(words, column_offset, column_attr, s0, s1, by_event, e * (2 * used + 1), dead)
            else:
                end, size = offsets[first + e + 1], (p1 - p0 + 63) >> 6
                some = _or_several(keys, s0, s1, size, by_event, e, attrs, ranks, end, dead, spare)  # type: ignore[arg-type]
            if not some:
                continue
            if n + CHUNK > pair_row.size:
                return -1
            run = n
            for w in range(WORDS):
                bits = ~dead[w]
                while bits != 0:
                    p = p0 + w * 64 + np.int64(trailing_zeros(bits))
                    bits &= bits - _ONE
                    if p >= p1:
                        break
                    if checks != UNCHECKED:
                        prefetch(item, np.int64(place[p, 0]) * 3)
                        prefetch(item, np.int64(place[p, 0]) * 3 + 16)
                    pair_row[n] = p
                    n += 1
            if n > run:
                pair_event[run] = (e << _LENGTH_BITS) | (n - run)
        if n > begin:  # no call for an empty chunk: passing the arrays takes longer than most chunks
            candidates += n - begin
            n = _check_runs(keys, sets, begin, n, checks, by_event, attrs, ranks, offsets[first:], pair_event, pair_row)
    scratch.counts[0] += candidates
    scratch.counts[2] += opened
    return n


@inlined
def _check_runs(
    keys: BitmapArrays, sets: Sets, begin: int, n: int, checks: int, by_event: Int32Matrix, attrs: Int32s,
    ranks: Int32s, offsets: Int64s, pair_event: Int32s, pair_row: Int32s,
) -> int:  # fmt: skip
    """Check the candidates of a chunk, at places `begin` to n, and move the rows that hold together; return their end.

    `checks` is what the bits of the chunk leave to check. What the checks read is in the cache by now.
    """
    place, item, rows, used = keys.place, keys.items, keys.row, keys.bucket_start.size - 1
    kept = at = begin
    while at < n:
        e, size = pair_event[at] >> _LENGTH_BITS, pair_event[at] & _LENGTH
        asks_all = checks == CHECKED or by_event[e, 2 * used] != 0
        run = kept
        for j in range(at, at + size):
            p = pair_row[j]
            pair_row[kept] = rows[p]
            if checks == UNCHECKED:
                kept += 1
            elif asks_all:
                kept += _passes(place, item, sets, p, by_event, e, used, attrs, ranks, offsets[e + 1])
            else:
                kept += _in_ranges(place, item, p, by_event, e, used)
        if kept > run:
            pair_event[run] = (e << _LENGTH_BITS) | (kept - run)
        at += size
    return kept


@helper
def _inside_zones(
    zone_attr: Int32Matrix, zone_low: Int32Matrix, zone_high: Int32Matrix, chunk: int, by_attr: Int32Matrix, count: int,
    mask: Bytes, masks: Uint64s, alive: Int32s,
) -> int:  # fmt: skip
    """Write to `alive` the events that lie in all zones of a chunk; return how many. `mask` and `masks` are scratch."""
    living = 0
    if count <= FEW:
        for e in range(count):
            is_open = True
            for z in range(ZONES):
                zone = zone_attr[chunk, z]
                if zone < 0 or not is_open:
                    break
                v, low = by_attr[zone, e], zone_low[chunk, z]
                is_open = v < -1 or low <= v <= zone_high[chunk, z]
            alive[living] = e
            living += is_open
        return living
    mask[:count] = 1
    for z in range(ZONES):
        zone = zone_attr[chunk, z]
        if zone < 0:
            break
        low = zone_low[chunk, z]
        width = np.uint32(zone_high[chunk, z] - low)
        values = by_attr[zone]
        for e in range(count):  # without a branch, many at once
            v = values[e]
            mask[e] &= (np.uint32(v - low) <= width) | (v < -1)
    for i in range((count + 7) >> 3):
        eight = masks[i]
        while eight != 0:
            alive[living] = (i << 3) + (np.int64(trailing_zeros(eight)) >> 3)
            eight &= eight - _ONE
            living += 1
    return living


@helper
def _or_several(
    keys: BitmapArrays, s0: int, s1: int, size: int, by_event: Int32Matrix, e: int, attrs: Int32s,
    ranks: Int32s, end: int, found: Uint64s, dead: Uint64s,
) -> bool:  # fmt: skip
    """Do what `or_rows` does for an event with lists: a conjunction is dead if every value of some list kills it.

    Writes the dead bits to `found`. The chunk uses the first `size` words; all bits of the others are dead. `dead` is
    scratch.
    """
    used = keys.bucket_start.size - 1
    for w in range(WORDS):
        found[w] = _FULL if w >= size else np.uint64(0)
    for s in range(s0, s1):
        c = keys.column_attr[s]
        at = keys.column_offset[s]
        if by_event[e, c] != _MULTIPLE:
            for w in range(size):
                found[w] |= keys.words[at + by_event[e, c] + w]
            continue
        first, last = keys.bucket_start[c], keys.bucket_start[c + 1]
        for w in range(size):
            dead[w] = _FULL
        i = -2 - by_event[e, used + c]
        a = attrs[i]
        while i < end and attrs[i] == a:
            line = at + (bucket_of(ranks[i], first, last, keys.bucket_high) + 1) * WORDS
            for w in range(size):
                dead[w] &= keys.words[line + w]
            i += 1
        for w in range(size):
            found[w] |= dead[w]
    some = False
    for w in range(size):
        some |= found[w] != _FULL
    return some


@helper
def _in_ranges(place: Int32Matrix, item: Int32Matrix, p: int, by_event: Int32Matrix, e: int, used: int) -> bool:
    """Whether the single values of an event lie in all ranges of conjunction p."""
    for k in range(np.uint64(place[p, 0]), np.uint64(place[p, 1])):
        low = item[k, 1]
        v = by_event[np.uint64(e), np.uint64(used + item[k, 0])]
        if np.uint32(v - low) > np.uint32(item[k, 2] - low):
            return False
    return True


@helper
def _passes(
    place: Int32Matrix, item: Int32Matrix, sets: Sets, p: int, by_event: Int32Matrix, e: int, used: int,
    attrs: Int32s, ranks: Int32s, end: int,
) -> bool:  # fmt: skip
    """Whether event e of the block passes the items of conjunction p that bits do not decide."""
    good = True
    for k in range(place[p, 0], place[p, 1]):
        packed = item[k, 0]
        v = by_event[e, used + (packed & ATTR_MASK)]
        low, high = item[k, 1], item[k, 2]
        if packed <= ATTR_MASK and v >= -1:
            good = low <= v <= high
        elif packed < NO_ITEM and v >= -1:
            good = v >= 0 and (high >> ((v >> 1) & 31)) & 1 == 1 and in_set(sets, low, v)
        else:
            good = holds(sets, packed >> KIND_SHIFT, low, high, v, attrs, ranks, end)
        if not good:
            break
    return good


def decode(arrays: Arrays) -> Packed:
    """Read back all conjunctions in chunks."""
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
