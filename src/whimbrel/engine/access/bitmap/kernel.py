"""Matching a block of events against the chunks of a segment: chunk by chunk, all events of the block at each.

What an event finds in a chunk is a run of `pair_slot`; where it begins, `pair_event` has the event and the length.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.intrinsics import or_rows, prefetch, trailing_zeros
from whimbrel.compiled.jit import helper
from whimbrel.engine.access.bitmap.layout import CHECKED, UNCHECKED, bucket_of
from whimbrel.engine.access.bitmap.plan import WORDS, ZONES
from whimbrel.engine.access.bitmap.tiles import CHUNK
from whimbrel.engine.access.shared.items import NO_ITEM, holds, in_set
from whimbrel.engine.access.shared.packing import ATTR_MASK, KIND_SHIFT

FEW = 16
"""Events up to which zones are compared one by one."""
_FULL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_MULTIPLE = -1
_LENGTH_BITS = 10
_LENGTH = (1 << _LENGTH_BITS) - 1


@helper
def chunk_pairs(seg, offsets, attrs, ranks, first, count, scratch, start):  # type: ignore[no-untyped-def]
    """What the chunks give for events: packed slots, those of event e from start[e] on; start[0] is -1 without room."""
    found = scratch.pair_slot
    if seg.bits_slot.size == 0:
        return found
    _load_block(seg, offsets, attrs, ranks, first, count, scratch)
    pairs = _match_chunks(seg, offsets, attrs, ranks, first, count, scratch)
    if pairs < 0:
        start[0] = -1
    elif count == 1:
        start[1] = pairs
    else:
        found = _by_event(scratch.pair_event, scratch.pair_slot, pairs, start)
    return found


@helper
def _by_event(pair_event, pair_slot, pairs, start):  # type: ignore[no-untyped-def]
    """The slots of the runs, event by event; `start` says where those of each begin."""
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
            by_event[at + j] = pair_slot[i + j]
        fill[e] = at + size
        i += size
    return by_event


@helper
def _load_block(seg, offsets, attrs, ranks, first, count, scratch):  # type: ignore[no-untyped-def]
    """The events of the block by the attributes of the chunks.

    `scratch.ranks` has a row per attribute: ranks, -1 for missing, -2 - i for several, which start at entry i.
    `scratch.rows` has a row per event: the first word of its row of bits by each attribute, then its ranks as above,
    and at last whether it has several for any of them.
    """
    used = seg.bits_bucket_start.size - 1
    by_attr, by_event = scratch.ranks, scratch.rows
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
            c = seg.bits_compact[a]
            if c >= 0:
                v = ranks[i]
                row = _MULTIPLE
                if j == i + 1:
                    start = seg.bits_bucket_start[c]
                    row = (bucket_of(v, start, seg.bits_bucket_start[c + 1], seg.bits_bucket_high) + 1) * WORDS
                else:
                    v = -2 - i
                    by_event[e, 2 * used] = 1
                by_attr[c, e] = v
                by_event[e, c] = row
                by_event[e, used + c] = v
            i = j


@helper
def _several_rows(seg, s0, s1, rows, e, attrs, ranks, end, acc):  # type: ignore[no-untyped-def]
    """What `or_rows` does, for an event with several values of some attribute: dead is what is dead for all of them."""
    used = seg.bits_bucket_start.size - 1
    acc[:] = 0
    some = False
    for w in range(WORDS):
        for s in range(s0, s1):
            c = seg.bits_slot_attr[s]
            at = seg.bits_slot_offset[s] + w
            dead = _FULL
            if rows[e, c] != _MULTIPLE:
                dead = seg.bits_words[at + rows[e, c]]
            else:
                first, last = seg.bits_bucket_start[c], seg.bits_bucket_start[c + 1]
                i = -2 - rows[e, used + c]
                a = attrs[i]
                while i < end and attrs[i] == a:
                    dead &= seg.bits_words[at + (bucket_of(ranks[i], first, last, seg.bits_bucket_high) + 1) * WORDS]
                    i += 1
            acc[w] |= dead
        some |= acc[w] != _FULL
    return some


@helper
def _opened(zone_attr, zone_low, zone_high, chunk, by_attr, count, mask, masks, alive):  # type: ignore[no-untyped-def]
    """Writes the events that lie within all zones of a chunk; how many there are."""
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
            alive[living] = (i << 3) + (np.int64(trailing_zeros(eight)) >> 3)  # type: ignore[call-arg]
            eight &= eight - _ONE
            living += 1
    return living


@helper
def _in_ranges(place, item, p, rows, e, used):  # type: ignore[no-untyped-def]
    """Whether the single values of an event lie in all ranges of conjunction p."""
    for k in range(np.uint64(place[p, 0]), np.uint64(place[p, 1])):
        low = item[k, 1]
        v = rows[np.uint64(e), np.uint64(used + item[k, 0])]
        if np.uint32(v - low) > np.uint32(item[k, 2] - low):
            return False
    return True


@helper
def _passes(place, item, sets, p, rows, e, used, attrs, ranks, end):  # type: ignore[no-untyped-def]
    """Whether conjunction p holds for event e of the block, by the items that bits do not decide."""
    good = True
    for k in range(place[p, 0], place[p, 1]):
        packed = item[k, 0]
        v = rows[e, used + (packed & ATTR_MASK)]
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


@helper
def _match_chunks(seg, offsets, attrs, ranks, first, count, scratch):  # type: ignore[no-untyped-def]
    """Writes the runs of packed slots that the chunks give; how many slots, or -1 if there is no room for them."""
    sets = (seg.set_start, seg.set_low, seg.set_high)
    used, chunks = seg.bits_bucket_start.size - 1, seg.bits_first.size - 1
    acc = np.zeros(WORDS, np.uint64)
    masks = np.zeros((count + 7) >> 3, np.uint64)
    mask = masks.view(np.uint8)
    words, slot_attr, slot_offset = seg.bits_words, seg.bits_slot_attr, seg.bits_slot_offset
    zone_attr, zone_low, zone_high = seg.bits_zone_attr, seg.bits_zone_low, seg.bits_zone_high
    rows, alive = scratch.rows, scratch.alive
    slots, pair_event, pair_slot = seg.bits_slot, scratch.pair_event, scratch.pair_slot
    place, item = seg.bits_place, seg.bits_items
    n = opened = candidates = 0
    for chunk in range(chunks):
        living = _opened(zone_attr, zone_low, zone_high, chunk, scratch.ranks, count, mask, masks, alive)
        opened += living
        s0, s1 = np.int64(seg.bits_slot_start[chunk]), np.int64(seg.bits_slot_start[chunk + 1])
        p0, p1 = np.int64(seg.bits_first[chunk]), np.int64(seg.bits_first[chunk + 1])
        checks = seg.bits_checked[chunk]
        begin = n
        for i in range(living):
            e = np.int64(alive[i])
            if rows[e, 2 * used] == 0:
                some: bool = or_rows(words, slot_offset, slot_attr, s0, s1, rows, e * (2 * used + 1), acc)  # type: ignore[call-arg]
            else:
                some = _several_rows(seg, s0, s1, rows, e, attrs, ranks, offsets[first + e + 1], acc)
            if not some:
                continue
            if n + CHUNK > pair_slot.size:
                return -1
            run = n
            for w in range(WORDS):
                bits = ~acc[w]
                while bits != 0:
                    p = p0 + w * 64 + np.int64(trailing_zeros(bits))  # type: ignore[call-arg]
                    bits &= bits - _ONE
                    if p >= p1:
                        break
                    if checks != UNCHECKED:
                        prefetch(item, np.int64(place[p, 0]) * 3)
                        prefetch(item, np.int64(place[p, 0]) * 3 + 16)
                    pair_slot[n] = p
                    n += 1
            if n > run:
                pair_event[run] = (e << _LENGTH_BITS) | (n - run)
        candidates += n - begin
        kept = at = begin
        while at < n:  # by now what they are checked with is in the cache
            e, size = pair_event[at] >> _LENGTH_BITS, pair_event[at] & _LENGTH
            asks_all = checks == CHECKED or rows[e, 2 * used] != 0
            run = kept
            for j in range(at, at + size):
                p = pair_slot[j]
                pair_slot[kept] = slots[p]
                if checks == UNCHECKED:
                    kept += 1
                elif asks_all:
                    kept += _passes(place, item, sets, p, rows, e, used, attrs, ranks, offsets[first + e + 1])
                else:
                    kept += _in_ranges(place, item, p, rows, e, used)
            if kept > run:
                pair_event[run] = (e << _LENGTH_BITS) | (kept - run)
            at += size
        n = kept
    scratch.counts[0] += candidates
    scratch.counts[2] += opened
    return n
