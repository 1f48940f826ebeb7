"""The kernels that match a block of encoded events against one segment.

`match` is what is called: it takes arrays by their addresses (`views`). It is one entry for blocks and for single
events, as all of this is compiled anew for every entry. `match_block` runs the chunks first (chunk outer, events inner,
so that a chunk's bits are read once for the block), then goes event by event through the always-true slots, the hash
keys, the signatures and the sorted runs. Results are slots, events in order, in one buffer; it returns -1 when the
buffer is too small. Per event a value per attribute is looked up in `scratch.value`: a rank, -1 for missing, or -2 - i
for several values, which start at entry i of the block.

Helpers take the few arrays that they need: a tuple of forty would be copied at every call.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.intrinsics import copy, keep_inside, prefetch
from whimbrel.compiled.jit import helper, kernel
from whimbrel.compiled.views import view
from whimbrel.engine.access.bitmap.kernel import chunk_pairs
from whimbrel.engine.access.hash.kernel import emit, probe, visit
from whimbrel.engine.access.hash.layout import REFERENCES
from whimbrel.engine.access.hash.reference_kernels import ask_for, collect, sift
from whimbrel.engine.access.shared.arrays import SCRATCH, SCRATCH_AT, SEGMENT, SEGMENT_AT, TASK, TASK_AT
from whimbrel.engine.access.shared.items import holds
from whimbrel.engine.access.shared.packing import SHARED_BIT
from whimbrel.engine.access.signature.kernel import match_signatures
from whimbrel.ranks.kernel_arrays import ENTRIES, ENTRIES_AT, NUMBERS, NUMBERS_AT
from whimbrel.ranks.rank_kernels import rank_cells

RUNS_AHEAD = 3
"""How many runs before its own the cache is asked for a run."""

_segment, _numbers, _scratch, _entries, _task = map(view, (SEGMENT, NUMBERS, SCRATCH, ENTRIES, TASK))


@helper
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


@helper
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
                    n = emit(slot[i], several, stamp, epoch, out, n)
        elif second[g] < 0:
            copy(slot, np.int64(first), np.int64(end - first), out, np.int64(n))  # type: ignore[call-arg]
            n += end - first
        else:
            eights = (end - first) & ~7
            for i in range(first, first + eights, 8):
                n += keep_inside(slot, low, high, np.int64(i), np.int32(w), out, np.int64(n))  # type: ignore[call-arg]
            for i in range(first + eights, end):  # append always, keep if inside: no branch to mispredict
                out[n] = slot[i]
                n += (low[i] <= w) & (w <= high[i])
    return n


@helper
def match_block(seg, offsets, attrs, ranks, first, count, scratch, out_offsets, out):  # type: ignore[no-untyped-def]
    """Match events first .. first + count: slots in `out`, the slots of event e end at out_offsets[e + 1].

    Returns the number of slots, or -1 if a buffer is too small: then nothing is reported.
    """
    sets = (seg.set_start, seg.set_low, seg.set_high)
    schemas = (seg.hash_first, seg.hash_lines, (seg.hash_attrs, seg.hash_base, seg.hash_radix, seg.hash_factor))
    runs_of = (
        seg.sorted_first, seg.sorted_start, seg.sorted_upper, seg.sorted_fixed, seg.sorted_second, seg.sorted_bound,
        seg.sorted_low, seg.sorted_high, seg.sorted_slot,
    )  # fmt: skip
    signatures = (
        seg.signature_first, seg.signature_classes, seg.signature_bits, seg.signature_key, seg.signature_radix,
        seg.signature_start, seg.signature_dead, seg.signature_slot, seg.signature_record,
    )  # fmt: skip
    has_keys, has_runs = seg.hash_lines.shape[0] > 0, seg.sorted_slot.size > 0
    has_signatures = seg.signature_slot.size > 0
    value, present_attrs, stamp, run = scratch.value, scratch.present, scratch.stamp, scratch.run
    context = (sets, value, attrs, ranks, stamp)
    records, always = seg.hash_records, seg.always
    table, refs, shift, sorted_first = seg.hash_table, seg.hash_refs, seg.hash_shift, seg.sorted_first
    alive, coarse, codes, factor = scratch.alive, scratch.coarse, scratch.codes, seg.hash_buckets
    numbers, targets = seg.hash_numbers, seg.hash_targets
    listed = np.int64(-1)  # not a literal, for which helpers would be compiled once more
    epoch = scratch.epoch[0]
    n: int = np.int64(0)  # type: ignore[assignment]
    out_offsets[0] = 0
    candidates = 0
    pair_start = np.zeros(count + 1, np.int64)
    pairs = chunk_pairs(seg, offsets, attrs, ranks, first, count, scratch, pair_start)
    if pair_start[0] < 0:
        return -1
    for e in range(count):
        i, end = offsets[first + e], offsets[first + e + 1]
        several = False
        present = 0
        while i < end:
            a = attrs[i]
            j = i + 1
            while j < end and attrs[j] == a:
                j += 1
            if j == i + 1:
                v = ranks[i]
                value[a] = v
                if has_keys:
                    codes[2 * a + 1] = v
                    codes[2 * a + 2] = (v * factor[a]) >> 32
                    coarse[numbers[a]] = v >> shift[a]
            else:
                value[a] = -2 - i
                several = True
                if has_keys:
                    codes[2 * a + 1] = codes[2 * a + 2] = -2
                    coarse[numbers[a]] = -2 - i
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
        if n + pair_start[e + 1] - pair_start[e] > out.size:
            n = -1
        if n >= 0:
            for p in range(pair_start[e], pair_start[e + 1]):
                packed = pairs[p]
                if several or packed & SHARED_BIT:
                    n = emit(packed, several, stamp, epoch, out, n)
                else:
                    out[n] = packed
                    n += 1
        runs = 0
        if n >= 0 and has_keys:
            runs = probe(
                schemas, table, attrs, ranks, end, value, codes, several, present_attrs, present, run, scratch.counts
            )  # fmt: skip
        if runs < 0:
            n = -1
        kept = np.int64(0)
        for r in range(-RUNS_AHEAD, runs):
            if r + RUNS_AHEAD < runs:
                asked = run[r + RUNS_AHEAD]
                if asked & REFERENCES:
                    ask_for(refs, asked >> 32, asked & (REFERENCES - 1))
                else:
                    prefetch(records, asked >> 32)  # type: ignore[call-arg]
            if r < 0:
                continue
            start, left = run[r] >> 32, run[r] & (REFERENCES - 1)
            candidates += left
            if run[r] & REFERENCES == 0:
                if n >= 0:
                    n = visit(records, alive, start, left, context, end, several, epoch, out, n)
                continue
            while left > 0:
                if kept == alive.size:
                    if n >= 0:
                        kept, n = sift(
                            refs, targets, alive, kept, coarse, shift, attrs, ranks, end, several, stamp, epoch, out, n
                        )  # fmt: skip
                    if n >= 0:
                        n = visit(records, alive, listed, kept, context, end, several, epoch, out, n)
                    kept = np.int64(0)
                size = min(left, alive.size - kept)
                kept = collect(refs, start, size, coarse, alive, kept)
                start += size
                left -= size
        if kept and n >= 0:
            kept, n = sift(refs, targets, alive, kept, coarse, shift, attrs, ranks, end, several, stamp, epoch, out, n)
            if n >= 0:
                n = visit(records, alive, listed, kept, context, end, several, epoch, out, n)
        if n >= 0 and has_signatures:
            n = match_signatures(
                signatures, records, context, present_attrs, present, end, several, run, alive, epoch, out, n,
                scratch.counts,
            )  # fmt: skip
        for x in range(present if has_runs else 0):
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
                        n = _match_sorted(runs_of, a, ranks[i], value, attrs, ranks, end, several, stamp, epoch, out, n)
                    i += 1
        for x in range(present):
            a = present_attrs[x]
            value[a] = -1
            if has_keys:
                codes[2 * a + 1] = codes[2 * a + 2] = coarse[numbers[a]] = -1
        if n < 0:
            scratch.epoch[0] = epoch
            return -1
        out_offsets[e + 1] = n
    scratch.epoch[0] = epoch
    scratch.counts[0] += candidates
    return n


@kernel
def match(words, first, count, is_single):  # type: ignore[no-untyped-def]
    """`match_block` with all arrays by address; a single event is given as `count` entries, to be ranked first."""
    task = _task(words, TASK_AT)
    if is_single:
        entries = _entries(words, ENTRIES_AT)
        task.offsets[1] = count
        rank_cells(
            entries.attrs, entries.cells, entries.bits, _numbers(words, NUMBERS_AT), task.offsets, task.attrs,
            task.ranks,
        )  # fmt: skip
        count = 1
    return match_block(
        _segment(words, SEGMENT_AT), task.offsets, task.attrs, task.ranks, first, count, _scratch(words, SCRATCH_AT),
        task.ends, task.out,
    )  # fmt: skip
