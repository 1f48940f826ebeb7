"""The kernel that matches a block of encoded events, or a single event, against one segment.

It takes arrays by their addresses (`compiled/views.py`), and it is one entry for blocks and for single events, as all
of this is compiled anew for every entry. Chunks come first, for all events of the block; then each event goes through
the other keys. Results are rows with their flags, events in order, in one buffer.

The steps are inlined: a tuple of many arrays that is passed to a function is copied at every call.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.jit import inlined, kernel
from whimbrel.compiled.views import view
from whimbrel.engine.access.bitmap.kernel import append_chunk_rows, match_chunks
from whimbrel.engine.access.hash.kernel import match_hash
from whimbrel.engine.access.registry import GROUPS, PLACES, SegmentArrays
from whimbrel.engine.access.shared.arrays import SCRATCH, TASK, EventState, EventValues, Scratch, Task
from whimbrel.engine.access.signature.kernel import match_signatures
from whimbrel.engine.access.sorted.kernel import match_sorted
from whimbrel.ranks.kernel_arrays import ENTRIES, ENTRIES_AT, NUMBERS, NUMBERS_AT
from whimbrel.ranks.rank_kernels import rank_cells

SHARED_AT, HASH_AT, SIGNATURE_AT, SORTED_AT, BITMAP_AT, SCRATCH_AT = PLACES
TASK_AT = SCRATCH_AT + SCRATCH.words

_shared, _hash, _signature, _sorted, _bitmap = (view(group.kind) for group in GROUPS)
_scratch, _task, _entries, _numbers = map(view, (SCRATCH, TASK, ENTRIES, NUMBERS))


@kernel
def match(words: np.ndarray, first: int, count: int, is_single: bool) -> int:
    """Match events first .. first + count of the task, or a single event given as `count` entries without ranks.

    The rows of event e end at ends[e + 1]. Returns the number of rows, or -1 if a buffer is too small: then nothing is
    reported.
    """
    task = _task(words, TASK_AT)
    if is_single:
        entries = _entries(words, ENTRIES_AT)
        task.offsets[1] = count
        rank_cells(
            entries.attrs, entries.cells, entries.bits, _numbers(words, NUMBERS_AT), task.offsets, task.attrs,
            task.ranks,
        )  # fmt: skip
        count = 1
    segment = SegmentArrays(
        _shared(words, SHARED_AT), _hash(words, HASH_AT), _signature(words, SIGNATURE_AT), _sorted(words, SORTED_AT),
        _bitmap(words, BITMAP_AT),
    )  # fmt: skip
    return _match_block(segment, task, first, count, _scratch(words, SCRATCH_AT))


@inlined
def _match_block(segment: SegmentArrays, task: Task, first: int, count: int, scratch: Scratch) -> int:
    """What `match` does, with the arrays at hand: one call per key."""
    shared, out = segment.shared, task.out
    sets = (shared.set_start, shared.set_low, shared.set_high)
    values = EventValues(sets, scratch.value, task.attrs, task.ranks, scratch.stamp)
    present = scratch.present
    counts = scratch.counts
    candidates, probes, opened = counts[0], counts[1], counts[2]
    n: int = np.int64(0)  # type: ignore[assignment]
    task.ends[0] = 0
    chunk_start = np.zeros(count + 1, np.int64)
    chunk_rows = match_chunks(segment.bitmap, sets, task, first, count, scratch, chunk_start)
    if chunk_start[0] < 0:
        return -1
    for e in range(count):
        event = _load_event(values, task.offsets[first + e], task.offsets[first + e + 1], scratch)
        n = _append_always(shared.always, out, n)
        n = append_chunk_rows(chunk_rows, chunk_start[e], chunk_start[e + 1], values.stamp, event, out, n)
        n = match_hash(segment.hash, shared.records, values, event, scratch, out, n)
        n = match_signatures(segment.signature, shared.records, values, event, scratch, out, n)
        n = match_sorted(segment.sorted, values, event, present, out, n)
        for x in range(event.attributes):
            values.value[present[x]] = -1
        if n < 0:
            counts[0], counts[1], counts[2] = candidates, probes, opened  # the block will come again
            return -1
        task.ends[e + 1] = n
    return n


@inlined
def _load_event(values: EventValues, i: int, end: int, scratch: Scratch) -> EventState:
    """Write the values of the event with these entries by attribute, and the attributes that it has."""
    _, value, attrs, ranks, _ = values
    present = scratch.present
    several = False
    count = 0
    while i < end:
        a = attrs[i]
        j = i + 1
        while j < end and attrs[j] == a:
            j += 1
        if j == i + 1:
            value[a] = ranks[i]
        else:
            value[a] = -2 - i
            several = True
        present[count] = a
        count += 1
        i = j
    scratch.epoch[0] += np.uint32(1)
    return EventState(count, end, several, scratch.epoch[0])


@inlined
def _append_always(always: np.ndarray, out: np.ndarray, n: int) -> int:
    """Append the rows that every event matches; the new length, or -1 without room."""
    if n + always.size > out.size:
        return -1
    for i in range(always.size):
        out[n + i] = always[i]
    return n + always.size
