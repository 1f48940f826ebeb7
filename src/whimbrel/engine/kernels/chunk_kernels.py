"""Matching a block of events against the chunks of a segment: chunk by chunk, all events of the block at each."""

from __future__ import annotations

import numpy as np

from whimbrel.engine.compiled.intrinsics import prefetch, trailing_zeros
from whimbrel.engine.compiled.jit import helper
from whimbrel.engine.kernels.item_kernels import NO_ITEM, holds, in_set
from whimbrel.engine.planner.chunks import CHUNK, WORDS, bucket_of
from whimbrel.engine.planner.packing import ATTR_MASK, KIND_SHIFT

_FULL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_MULTIPLE = -1


@helper
def load_block(seg, offsets, attrs, ranks, first, count, scratch):  # type: ignore[no-untyped-def]
    """Ranks and rows of dead bits of the block's events for the attributes of the chunks."""
    used = seg.bits_bucket_start.size - 1
    for c in range(used):
        scratch.ranks[c, :count] = -1
    scratch.rows[:count] = 0
    for e in range(count):
        i, end = offsets[first + e], offsets[first + e + 1]
        while i < end:
            a = attrs[i]
            j = i + 1
            while j < end and attrs[j] == a:
                j += 1
            c = seg.bits_compact[a]
            if c >= 0:
                if j == i + 1:
                    scratch.ranks[c, e] = ranks[i]
                    b = bucket_of(
                        ranks[i], seg.bits_bucket_start[c], seg.bits_bucket_start[c + 1], seg.bits_bucket_high
                    )
                    scratch.rows[e, c] = (b + 1) * WORDS
                else:
                    scratch.ranks[c, e] = -2 - i
                    scratch.rows[e, c] = _MULTIPLE
            i = j


@helper
def _multiple_row(seg, s, attrs, ranks, i, end, acc):  # type: ignore[no-untyped-def]
    """ORs into acc the bits that are dead for every value of a multi-valued attribute."""
    a = attrs[i]
    c = seg.bits_slot_attr[s]
    first, last = seg.bits_bucket_start[c], seg.bits_bucket_start[c + 1]
    for w in range(WORDS):
        dead = _FULL
        j = i
        while j < end and attrs[j] == a:
            b = bucket_of(ranks[j], first, last, seg.bits_bucket_high)
            dead &= seg.bits_words[seg.bits_slot_offset[s] + (b + 1) * WORDS + w]
            j += 1
        acc[w] |= dead


@helper
def _passes(place, item, sets, p, block, e, attrs, ranks, end):  # type: ignore[no-untyped-def]
    """Whether conjunction p holds for event e of the block, by the items that bits do not decide."""
    good = True
    for k in range(place[p, 0], place[p, 1]):
        packed = item[k, 0]
        v = block[packed & ATTR_MASK, e]
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
def match_chunks(seg, offsets, attrs, ranks, first, count, scratch):  # type: ignore[no-untyped-def]
    """The pairs of (event of the block, packed slot) that the chunks give; -1 if there is no room for them."""
    sets = (seg.set_start, seg.set_low, seg.set_high)
    total = seg.bits_slot.size
    chunks = seg.bits_slot_start.size - 1
    acc = np.zeros(WORDS, np.uint64)
    room = scratch.pair_slot.size
    n = 0
    words = seg.bits_words
    rows, block, alive = scratch.rows, scratch.ranks, scratch.alive
    slots, pair_event, pair_slot = seg.bits_slot, scratch.pair_event, scratch.pair_slot
    slot_attr, slot_offset = seg.bits_slot_attr, seg.bits_slot_offset
    place, item = seg.bits_place, seg.bits_items
    opened, candidates = 0, 0
    for chunk in range(chunks):
        zone = seg.bits_zone_attr[chunk, 0]
        living = 0
        if zone >= 0:
            low = seg.bits_zone_low[chunk, 0]
            width = np.uint32(seg.bits_zone_high[chunk, 0] - low)
            for e in range(count):
                v = block[zone, e]
                alive[living] = e
                living += (np.uint32(v - low) <= width) | (v < -1)
            zone = seg.bits_zone_attr[chunk, 1]
        else:
            for e in range(count):
                alive[e] = e
            living = count
        if zone >= 0:
            low = seg.bits_zone_low[chunk, 1]
            width = np.uint32(seg.bits_zone_high[chunk, 1] - low)
            candidates_left = living
            living = 0
            for i in range(candidates_left):
                e = alive[i]
                v = block[zone, e]
                alive[living] = e
                living += (np.uint32(v - low) <= width) | (v < -1)
        if living == 0:
            continue
        opened += living
        s0, s1 = seg.bits_slot_start[chunk], seg.bits_slot_start[chunk + 1]
        checked = seg.bits_checked[chunk] != 0
        begin = n
        for i in range(living):
            e = alive[i]
            a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = np.uint64(0)
            for s in range(s0, s1):
                row = rows[e, slot_attr[s]]
                if row >= 0:
                    at = np.uint64(slot_offset[s] + row)
                    a0 |= words[at]
                    a1 |= words[at + _ONE]
                    a2 |= words[at + np.uint64(2)]
                    a3 |= words[at + np.uint64(3)]
                    a4 |= words[at + np.uint64(4)]
                    a5 |= words[at + np.uint64(5)]
                    a6 |= words[at + np.uint64(6)]
                    a7 |= words[at + np.uint64(7)]
                else:
                    acc[:] = 0
                    entry = -2 - block[seg.bits_slot_attr[s], e]
                    _multiple_row(seg, s, attrs, ranks, entry, offsets[first + e + 1], acc)
                    a0 |= acc[0]
                    a1 |= acc[1]
                    a2 |= acc[2]
                    a3 |= acc[3]
                    a4 |= acc[4]
                    a5 |= acc[5]
                    a6 |= acc[6]
                    a7 |= acc[7]
                if (s - s0) & 3 == 1 and (a0 & a1 & a2 & a3 & a4 & a5 & a6 & a7) == _FULL:
                    break
            if (a0 & a1 & a2 & a3 & a4 & a5 & a6 & a7) != _FULL:
                acc[0], acc[1], acc[2], acc[3] = a0, a1, a2, a3
                acc[4], acc[5], acc[6], acc[7] = a4, a5, a6, a7
                for w in range(WORDS):
                    living_bits = ~acc[w]
                    while living_bits != 0:
                        p = chunk * CHUNK + w * 64 + np.int64(trailing_zeros(living_bits))  # type: ignore[call-arg]
                        living_bits &= living_bits - _ONE
                        if p >= total:
                            break
                        if n == room:
                            return -1
                        if checked:
                            prefetch(item, np.int64(place[p, 0]) * 3)
                            prefetch(item, np.int64(place[p, 0]) * 3 + 16)
                        pair_event[n] = e
                        pair_slot[n] = p
                        n += 1
        candidates += n - begin
        kept = begin
        for i in range(begin, n):  # by now what they are checked with is in the cache
            e, p = pair_event[i], pair_slot[i]
            if not checked or _passes(place, item, sets, p, block, e, attrs, ranks, offsets[first + e + 1]):
                pair_event[kept] = e
                pair_slot[kept] = slots[p]
                kept += 1
        n = kept
    scratch.counts[0] += candidates
    scratch.counts[2] += opened
    return n
