"""The kernels that match a block of encoded events against one segment.

`match_block` runs the chunks first (chunk outer, events inner, so that a chunk's bits are read once for the block),
then goes event by event through the always-true slots, the hash keys and the sorted runs. Results are slots, events in
order, in one buffer; it returns -1 when the buffer is too small. Per event a value per attribute is looked up in
`scratch.value`: a rank, -1 for missing, or -2 - i for several values, which start at entry i of the block.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from whimbrel.engine.chunks import CHUNK, WORDS, bucket_of
from whimbrel.engine.hashed import REFERENCES, probe_start
from whimbrel.engine.packing import ATTR_MASK, KIND_SHIFT, SHARED_BIT, SLOT_MASK, VERIFY_BIT

_FULL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_MULTIPLE = -1
NO_ITEM = 2 << KIND_SHIFT
"""Packed attributes from here on belong to items that ask for no value inside."""


class SegmentArrays(NamedTuple):
    """What the kernels read of a segment; the names are those of the stored arrays."""

    always: np.ndarray
    set_start: np.ndarray
    set_low: np.ndarray
    set_high: np.ndarray
    hash_attrs: np.ndarray
    hash_present: np.ndarray
    hash_base: np.ndarray
    hash_radix: np.ndarray
    hash_factor: np.ndarray
    hash_first: np.ndarray
    hash_table: np.ndarray
    hash_refs: np.ndarray
    hash_group: np.ndarray
    hash_slot: np.ndarray
    hash_item_start: np.ndarray
    hash_items: np.ndarray
    sorted_start: np.ndarray
    sorted_first: np.ndarray
    sorted_upper: np.ndarray
    sorted_fixed: np.ndarray
    sorted_second: np.ndarray
    sorted_bound: np.ndarray
    sorted_low: np.ndarray
    sorted_high: np.ndarray
    sorted_slot: np.ndarray
    bits_compact: np.ndarray
    bits_bucket_start: np.ndarray
    bits_bucket_high: np.ndarray
    bits_slot_start: np.ndarray
    bits_slot_attr: np.ndarray
    bits_slot_offset: np.ndarray
    bits_words: np.ndarray
    bits_zone_attr: np.ndarray
    bits_zone_low: np.ndarray
    bits_zone_high: np.ndarray
    bits_checked: np.ndarray
    bits_slot: np.ndarray
    bits_item_start: np.ndarray
    bits_item_check: np.ndarray
    bits_item_attr: np.ndarray
    bits_item_low: np.ndarray
    bits_item_high: np.ndarray


class Scratch(NamedTuple):
    """What one thread writes while it matches; reused from block to block."""

    value: np.ndarray  # int32[A], all -1 between events
    present: np.ndarray  # int32[A]: the attributes of the event
    stamp: np.ndarray  # uint32[slots]: the last event that reported a slot
    epoch: np.ndarray  # uint32[1]
    ranks: np.ndarray  # int32[compact attributes, block]
    rows: np.ndarray  # int32[block, compact attributes]: first word of the event's row of dead bits, or _MULTIPLE
    alive: np.ndarray  # int32[block]: the events for which a chunk is open, or the groups that a run leaves
    pair_event: np.ndarray  # int32[p]
    pair_slot: np.ndarray  # int32[p]
    run: np.ndarray  # int64[p]: where runs of hash entries lie
    counts: np.ndarray  # int64[4]: candidates, probes, chunks opened, verifications


@intrinsic
def _trailing_zeros(typingctx, word):  # type: ignore[no-untyped-def]
    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), codegen


@intrinsic
def prefetch(typingctx, array, at):  # type: ignore[no-untyped-def]
    """Ask for the cache line of element `at`, counted through all dimensions, without waiting for it."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        pointer = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(8).as_pointer())
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, flag, flag, flag])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")  # type: ignore[no-untyped-call]
        builder.call(function, [pointer, flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), codegen


# Helpers take the few arrays that they need: a tuple of forty would be copied at every call.


@numba.njit(cache=True, nogil=True, inline="always")
def _in_set(sets, number, rank):  # type: ignore[no-untyped-def]
    start, lows, highs = sets
    low, end = start[number], start[number + 1]
    high = end
    while low < high:  # the first interval that does not end below the rank
        middle = (low + high) >> 1
        if highs[middle] < rank:
            low = middle + 1
        else:
            high = middle
    return low < end and lows[low] <= rank


@numba.njit(cache=True, nogil=True)
def holds(sets, kind, low, high, v, attrs, ranks, end):  # type: ignore[no-untyped-def]
    """Whether an item holds for a value as it is in scratch."""
    if v >= 0:
        if kind & 1 == 0:
            return (low <= v <= high) == (kind < 2)
        # `high` is the set's mask: by it most ranks are seen to be outside.
        return ((high >> ((v >> 1) & 31)) & 1 == 1 and _in_set(sets, low, v)) == (kind < 2)
    if v == -1:
        return kind >= 2
    i = -2 - v
    a = attrs[i]
    while i < end and attrs[i] == a:
        if (low <= ranks[i] <= high) if kind & 1 == 0 else _in_set(sets, low, ranks[i]):
            return kind < 2
        i += 1
    return kind >= 2


@numba.njit(cache=True, nogil=True)
def _load_block(seg, offsets, attrs, ranks, first, count, scratch):  # type: ignore[no-untyped-def]
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


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
def _passes(items, sets, p, block, e, attrs, ranks, end):  # type: ignore[no-untyped-def]
    """Whether conjunction p holds for event e of the block, by the items that bits do not decide."""
    item_start, item_check, item_attr, item_low, item_high = items
    good = True
    for k in range(item_start[p], item_check[p]):
        packed = item_attr[k]
        v = block[packed & ATTR_MASK, e]
        low, high = item_low[k], item_high[k]
        if packed <= ATTR_MASK and v >= -1:
            good = low <= v <= high
        elif packed < NO_ITEM and v >= -1:
            good = v >= 0 and (high >> ((v >> 1) & 31)) & 1 == 1 and _in_set(sets, low, v)
        else:
            good = holds(sets, packed >> KIND_SHIFT, low, high, v, attrs, ranks, end)
        if not good:
            break
    return good


@numba.njit(cache=True, nogil=True)
def _match_chunks(seg, offsets, attrs, ranks, first, count, scratch):  # type: ignore[no-untyped-def]
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
    items = (seg.bits_item_start, seg.bits_item_check, seg.bits_item_attr, seg.bits_item_low, seg.bits_item_high)
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
        for i in range(living):
            e = alive[i]
            a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = np.uint64(0)
            for s in range(s0, s1):
                row = rows[e, slot_attr[s]]
                if row >= 0:
                    at = slot_offset[s] + row
                    a0 |= words[at]
                    a1 |= words[at + 1]
                    a2 |= words[at + 2]
                    a3 |= words[at + 3]
                    a4 |= words[at + 4]
                    a5 |= words[at + 5]
                    a6 |= words[at + 6]
                    a7 |= words[at + 7]
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
                        p = chunk * CHUNK + w * 64 + np.int64(_trailing_zeros(living_bits))  # type: ignore[call-arg]
                        living_bits &= living_bits - _ONE
                        if p >= total:
                            break
                        candidates += 1
                        if checked and not _passes(items, sets, p, block, e, attrs, ranks, offsets[first + e + 1]):
                            continue
                        if n == room:
                            return -1
                        pair_event[n] = e
                        pair_slot[n] = slots[p]
                        n += 1
    scratch.counts[0] += candidates
    scratch.counts[2] += opened
    return n


@numba.njit(cache=True, nogil=True)
def _find(table, mask, key):  # type: ignore[no-untyped-def]
    at = probe_start(key, mask)
    while True:
        found = table[at, 0]
        if found == key:
            return table[at, 1]
        if found < 0:
            return np.int64(0)
        at = (at + 1) & mask


@numba.njit(cache=True, nogil=True)
def _count_values(v, attrs, end):  # type: ignore[no-untyped-def]
    """How many values an attribute has whose value is not missing."""
    first = i = -2 - v
    if v >= 0:
        return 1
    while i < end and attrs[i] == attrs[first]:
        i += 1
    return i - first


@numba.njit(cache=True, nogil=True, inline="always")
def _code(rank, factor):  # type: ignore[no-untyped-def]
    return (rank * factor) >> 32 if factor else np.int64(rank)


@numba.njit(cache=True, nogil=True)
def _sorted_codes(v, factor, attrs, ranks, end):  # type: ignore[no-untyped-def]
    codes = np.full(_count_values(v, attrs, end), _code(v, factor))
    if v < 0:
        for i in range(codes.size):
            codes[i] = _code(ranks[-2 - v + i], factor)
    return np.sort(codes)


@numba.njit(cache=True, nogil=True)
def _known_keys(table, base, radix, values0, values1, values2, run, n):  # type: ignore[no-untyped-def]
    """Appends all keys of a schema whose codes are among the values: their number, or -1 without room."""
    for at in range(table.shape[0]):
        rest = table[at, 0] - base
        if rest < 0:
            continue
        good = True
        for values, factor in ((values0, radix[0]), (values1, radix[1]), (values2, radix[2])):
            if factor == 0:
                continue
            rank = rest // factor
            rest -= rank * factor
            place = np.searchsorted(values, rank)
            good &= place < values.size and values[min(place, values.size - 1)] == rank
        if good and rest == 0:
            if n == run.size:
                return -1
            run[n] = table[at, 0]
            n += 1
    return n


@numba.njit(cache=True, nogil=True)
def _keys_of_several(table, schema, s, v0, v1, v2, attrs, ranks, end, run, n):  # type: ignore[no-untyped-def]
    """Appends the keys of a schema for an event with several values: their number, or -1 without room."""
    hash_attrs, bases, radix, factor = schema
    a, b, c = hash_attrs[s, 0], hash_attrs[s, 1], hash_attrs[s, 2]
    combinations = _count_values(v0, attrs, end) * _count_values(v1, attrs, end) * _count_values(v2, attrs, end)
    if combinations >= table.shape[0]:  # long lists: rather ask for every key whether the event has it
        return _known_keys(
            table, bases[s], radix[s], _sorted_codes(v0, factor[s, 0], attrs, ranks, end),
            _sorted_codes(v1, factor[s, 1], attrs, ranks, end), _sorted_codes(v2, factor[s, 2], attrs, ranks, end),
            run, n,
        )  # fmt: skip
    if n + combinations > run.size:
        return -1
    i = -2 - v0 if v0 < 0 else -1
    while True:
        r0 = _code(ranks[i] if i >= 0 else v0, factor[s, 0])
        j = -2 - v1 if v1 < 0 else -1
        while True:
            r1 = _code(ranks[j] if j >= 0 else v1, factor[s, 1])
            k = -2 - v2 if v2 < 0 else -1
            while True:
                r2 = _code(ranks[k] if k >= 0 else v2, factor[s, 2])
                run[n] = bases[s] + r0 * radix[s, 0] + r1 * radix[s, 1] + r2 * radix[s, 2]
                n += 1
                k += 1
                if k == 0 or k >= end or attrs[k] != c:
                    break
            j += 1
            if j == 0 or j >= end or attrs[j] != b:
                break
        i += 1
        if i == 0 or i >= end or attrs[i] != a:
            break
    return n


@numba.njit(cache=True, nogil=True)
def _probe(schemas, table, item_start, refs, attrs, ranks, end, value, present, count, run, counts):  # type: ignore[no-untyped-def]
    """Looks up every hash key that the event has: the number of runs of entries found, now in `run`.

    First all keys, each with a hint to bring its place in the table into the cache; then all look-ups.
    """
    first, is_present, schema = schemas
    hash_attrs, bases, radix, factor = schema
    n = 0
    mask = table.shape[0] - 1
    for x in range(count):
        a = present[x]
        v0 = value[a]
        for s in range(first[a], first[a + 1]):
            b, c = hash_attrs[s, 1], hash_attrs[s, 2]
            v1 = value[b] if b >= 0 else 0
            v2 = value[c] if c >= 0 else 0
            if v1 == -1 or v2 == -1:
                continue
            if not is_present[s] and (v0 < 0 or v1 < 0 or v2 < 0):
                n = _keys_of_several(table, schema, s, v0, v1, v2, attrs, ranks, end, run, n)
                if n < 0:
                    return -1
                continue
            if n == run.size:
                return -1
            key = bases[s]
            if not is_present[s]:
                key += _code(v0, factor[s, 0]) * radix[s, 0]
                if b >= 0:
                    key += _code(v1, factor[s, 1]) * radix[s, 1] + _code(v2, factor[s, 2]) * radix[s, 2]
            prefetch(table, probe_start(key, mask) * 2)  # type: ignore[call-arg]
            run[n] = key
            n += 1
    counts[1] += n
    hits = 0
    for i in range(n):
        found = _find(table, mask, run[i])
        if found != 0:
            run[hits] = found
            hits += 1
            if found & REFERENCES:
                prefetch(refs, (found >> 32) * 4)  # type: ignore[call-arg]
            else:
                prefetch(item_start, found >> 32)  # type: ignore[call-arg]
    return hits


@numba.njit(cache=True, nogil=True)
def _emit(packed, several, stamp, epoch, out, n):  # type: ignore[no-untyped-def]
    """Appends a slot, once per event where it could come twice; the new length, or -1 without room."""
    if several or packed & SHARED_BIT:
        slot = packed & SLOT_MASK
        if stamp[slot] == epoch:
            return n
        stamp[slot] = epoch
    if n >= out.size:
        return -1
    out[n] = packed & (SLOT_MASK | VERIFY_BIT)
    return n + 1


@numba.njit(cache=True, nogil=True)
def _visit(groups, listed, start, count, context, end, several, epoch, out, n):  # type: ignore[no-untyped-def]
    """Appends the slots of groups whose items hold: of `count` groups from `start`, or of those listed if it is -1."""
    item_start, items, group, slots = groups
    sets, value, attrs, ranks, stamp = context
    if start < 0:
        for x in range(count):
            prefetch(item_start, np.int64(listed[x]))  # type: ignore[call-arg]
        for x in range(count):
            prefetch(items, np.int64(item_start[listed[x]]) * 3)  # type: ignore[call-arg]
    for x in range(count):
        g = np.int64(listed[x]) if start < 0 else start + x
        good = True
        for k in range(item_start[g], item_start[g + 1]):
            packed, low, high = items[k, 0], items[k, 1], items[k, 2]
            v = value[packed & ATTR_MASK]
            if packed <= ATTR_MASK and v >= -1:  # a range and at most one value: the common case, in line
                if low <= v <= high:
                    continue
            elif packed < NO_ITEM and v >= -1:
                if v >= 0 and (high >> ((v >> 1) & 31)) & 1 == 1 and _in_set(sets, low, v):
                    continue
            elif holds(sets, packed >> KIND_SHIFT, low, high, v, attrs, ranks, end):
                continue
            good = False
            break
        if not good:
            continue
        if n + group[g + 1] - group[g] > out.size:
            return -1
        for t in range(group[g], group[g + 1]):
            packed = slots[t]
            if several or packed & SHARED_BIT:
                n = _emit(packed, several, stamp, epoch, out, n)
            else:
                out[n] = packed
                n += 1
    return n


@numba.njit(cache=True, nogil=True)
def _sorted_end(bound, first, last, is_upper, v):  # type: ignore[no-untyped-def]
    """Where the run of sorted bounds that rank v satisfies ends."""
    low, high = first, last
    while low < high:
        middle = (low + high) >> 1
        if (bound[middle] >= v) if is_upper else (bound[middle] <= v):
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(cache=True, nogil=True)
def _match_sorted(runs, a, v, value, attrs, ranks, entries, several, stamp, epoch, out, n):  # type: ignore[no-untyped-def]
    """Appends what the runs of the sorted bounds of attribute a give for rank v."""
    first_group, start, upper, fixed, second, bound, low, high, slot = runs
    for g in range(first_group[a], first_group[a + 1]):
        if (v < fixed[g]) if upper[g] else (v > fixed[g]):
            continue
        w = value[second[g]] if second[g] >= 0 else 0
        if w == -1:
            continue
        first = start[g]
        end = _sorted_end(bound, first, start[g + 1], upper[g] != 0, v)
        if n + end - first > out.size:
            return -1
        if several:
            for i in range(first, end):
                if second[g] < 0 or holds((start, low, high), 0, low[i], high[i], w, attrs, ranks, entries):
                    n = _emit(slot[i], True, stamp, epoch, out, n)
        elif second[g] < 0:
            for i in range(first, end):
                out[n + i - first] = slot[i]
            n += end - first
        else:
            for i in range(first, end):  # append always, keep if inside: no branch to mispredict
                out[n] = slot[i]
                n += (low[i] <= w) & (w <= high[i])
    return n


@numba.njit(cache=True, nogil=True)
def match_block(seg, offsets, attrs, ranks, first, count, scratch, out_offsets, out):  # type: ignore[no-untyped-def]
    """Match events first .. first + count: slots in `out`, the slots of event e end at out_offsets[e + 1].

    Returns the number of slots, or -1 if a buffer is too small: then nothing is reported.
    """
    pairs = 0
    if seg.bits_slot.size:
        _load_block(seg, offsets, attrs, ranks, first, count, scratch)
        pairs = _match_chunks(seg, offsets, attrs, ranks, first, count, scratch)
        if pairs < 0:
            return -1
    pair_start = np.zeros(count + 1, np.int64)
    by_event = np.empty(pairs, np.int32)
    for i in range(pairs):
        pair_start[scratch.pair_event[i] + 1] += 1
    for e in range(count):
        pair_start[e + 1] += pair_start[e]
    fill = pair_start[:-1].copy()
    for i in range(pairs):
        e = scratch.pair_event[i]
        by_event[fill[e]] = scratch.pair_slot[i]
        fill[e] += 1
    sets = (seg.set_start, seg.set_low, seg.set_high)
    schemas = (seg.hash_first, seg.hash_present, (seg.hash_attrs, seg.hash_base, seg.hash_radix, seg.hash_factor))
    runs_of = (
        seg.sorted_first, seg.sorted_start, seg.sorted_upper, seg.sorted_fixed, seg.sorted_second, seg.sorted_bound,
        seg.sorted_low, seg.sorted_high, seg.sorted_slot,
    )  # fmt: skip
    value, present_attrs, stamp, run = scratch.value, scratch.present, scratch.stamp, scratch.run
    context = (sets, value, attrs, ranks, stamp)
    groups = (seg.hash_item_start, seg.hash_items, seg.hash_group, seg.hash_slot)
    item_start, always = seg.hash_item_start, seg.always
    table, refs, sorted_first = seg.hash_table, seg.hash_refs, seg.sorted_first
    alive = scratch.alive
    epoch = scratch.epoch[0]
    n = 0
    out_offsets[0] = 0
    candidates = 0
    for e in range(count):
        i, end = offsets[first + e], offsets[first + e + 1]
        several = False
        present = 0
        while i < end:
            a = attrs[i]
            j = i + 1
            while j < end and attrs[j] == a:
                j += 1
            value[a] = ranks[i] if j == i + 1 else -2 - i
            several |= j != i + 1
            present_attrs[present] = a
            present += 1
            i = j
        epoch += np.uint32(1)
        if n + always.size > out.size:
            n = -1
        else:
            for i in range(always.size):
                out[n + i] = always[i]
            n += always.size
        for p in range(pair_start[e], pair_start[e + 1]):
            if n >= 0:
                n = _emit(by_event[p], several, stamp, epoch, out, n)
        runs = 0
        if n >= 0:
            runs = _probe(
                schemas, table, item_start, refs, attrs, ranks, end, value, present_attrs, present, run, scratch.counts
            )
        if runs < 0:
            n = -1
        kept = 0
        for r in range(runs):
            start, left = run[r] >> 32, run[r] & (REFERENCES - 1)
            candidates += left
            if run[r] & REFERENCES == 0:
                if n >= 0:
                    n = _visit(groups, alive, start, left, context, end, several, epoch, out, n)
                continue
            while left > 0:
                if kept == alive.size:
                    if n >= 0:
                        n = _visit(groups, alive, -1, kept, context, end, several, epoch, out, n)
                    kept = 0
                size = min(left, alive.size - kept)
                for i in range(start, start + size):  # append always, keep if inside: no branch to mispredict
                    v = value[refs[i, 1]]
                    alive[kept] = refs[i, 0]
                    kept += ((refs[i, 2] <= v) & (v <= refs[i, 3])) | (v < -1)
                start += size
                left -= size
        if kept and n >= 0:
            n = _visit(groups, alive, -1, kept, context, end, several, epoch, out, n)
        for x in range(present):
            a = present_attrs[x]
            v = value[a]
            if n < 0 or sorted_first[a] == sorted_first[a + 1]:
                continue
            if v > 0:
                n = _match_sorted(runs_of, a, v, value, attrs, ranks, end, several, stamp, epoch, out, n)
            elif v < 0:
                i = -2 - v
                while i < end and attrs[i] == a and n >= 0:
                    if ranks[i] > 0:
                        n = _match_sorted(runs_of, a, ranks[i], value, attrs, ranks, end, True, stamp, epoch, out, n)
                    i += 1
        for x in range(present):
            value[present_attrs[x]] = -1
        if n < 0:
            scratch.epoch[0] = epoch
            return -1
        out_offsets[e + 1] = n
    scratch.epoch[0] = epoch
    scratch.counts[0] += candidates
    return n
