"""The kernel that matches a block of encoded events, or a single event, against one segment.

It takes arrays by their addresses (`compiled/views.py`). Blocks and single events share one kernel, because each kernel
compiles all of this code again. Keys that match a block at once run first; then each event goes through all keys. The
result is one buffer of rows with their flags, event by event.

The steps are inlined: a call would copy a tuple of many arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from whimbrel.compiled.array_types import Int32s, Int64s, Uint32s
from whimbrel.compiled.jit import inlined, kernel
from whimbrel.compiled.views import view
from whimbrel.engine.access.registry import GROUPS, KEYS, PLACES
from whimbrel.engine.access.shared.arrays import SCRATCH, TASK, EventState, EventValues, Scratch
from whimbrel.engine.access.shared.packing import append_rows
from whimbrel.ranks.kernel_arrays import ENTRIES, ENTRIES_AT, NUMBERS, NUMBERS_AT
from whimbrel.ranks.rank_kernels import rank_cells

SCRATCH_AT = PLACES[-1]
TASK_AT = SCRATCH_AT + SCRATCH.words
SORTED = 32
"""At most so many rows of a single event are sorted here: calling NumPy would take longer."""
LAST_EPOCH = 1 << 31
"""After so many events the epoch starts again, and all stamps are cleared."""

_scratch, _task, _entries, _numbers = map(view, (SCRATCH, TASK, ENTRIES, NUMBERS))


@inlined
def _append_always(always: Int32s, out: Int32s, n: int) -> int:
    """Append the rows that every event matches; return the new length, or -1 if `out` is full."""
    if n + always.size > out.size:
        return -1
    for i in range(always.size):
        out[n + i] = always[i]
    return n + always.size


@inlined
def _append_found(found: Int32s, begin: int, end: int, stamp: Uint32s, event: EventState, out: Int32s, n: int) -> int:
    """Append found[begin:end], the rows of one event; return the new length, or -1 if `out` is full."""
    if n < 0 or begin < 0 or n + end - begin > out.size:
        return -1
    return append_rows(found, begin, end, event.several, stamp, event.epoch, out, n)


def _generate_helpers() -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """Generate three helpers that call every key in turn.

    They return the arrays of a segment, the rows that keys find for a block, and the rows that one event reaches. They
    are generated as source: a chain of functions, one per key, gives the same code but compiles a fifth longer.
    """
    names: dict[str, Any] = {"append_always": _append_always, "append_found": _append_found}
    arrays: list[str] = []
    blocks: list[str] = []
    steps = ["n = append_always(segment[0].always, out, n)"]
    for number, group in enumerate(GROUPS):
        names[f"view_{number}"] = view(group.kind)
        arrays.append(f"view_{number}(words, {PLACES[number]}),")
    for number, key in enumerate(KEYS, 1):
        names[f"match_{number}"] = key.match_block or key.match_event
        if key.match_block is not None:
            steps += [
                f"found, start = blocks[{len(blocks)}]",
                "n = append_found(found, start[e], start[e + 1], values.stamp, event, out, n)",
            ]
            blocks.append(f"match_{number}(segment[{number}], sets, task, first, count, scratch),")
        else:
            steps.append(f"n = match_{number}(segment[{number}], segment[0], values, event, scratch, out, n)")
    source = f"""
def arrays(words):
    return ({" ".join(arrays)})

def blocks(segment, sets, task, first, count, scratch):
    return ({" ".join(blocks)})

def rows(segment, blocks, e, values, event, scratch, out, n):
    {"; ".join(steps)}
    return n
"""
    exec(source, names)
    return inlined(names["arrays"]), inlined(names["blocks"]), inlined(names["rows"])


_arrays, _blocks, _rows = _generate_helpers()


@kernel
def match(words: Int64s, first: int, count: int, is_single: bool) -> int:
    """Match events first .. first + count of the task, or a single event given as `count` entries without ranks.

    `words` has the addresses of a segment's arrays and of a workspace's buffers. The rows of event e end at
    ends[e + 1]; up to SORTED rows of a single event are sorted. Returns the number of rows, or -1 if a buffer is too
    small: then nothing is reported.
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
    segment, scratch = _arrays(words), _scratch(words, SCRATCH_AT)
    shared = segment[0]
    sets = (shared.set_start, shared.set_low, shared.set_high)
    values = EventValues(sets, scratch.value, task.attrs, task.ranks, scratch.stamp)
    present = scratch.present
    counts = scratch.counts
    candidates, probes, opened = counts[0], counts[1], counts[2]
    n: int = np.int64(0)  # type: ignore[assignment]
    task.ends[0] = 0
    blocks = _blocks(segment, sets, task, first, count, scratch)
    for e in range(count):
        event = _load_event(values, task.offsets[first + e], task.offsets[first + e + 1], scratch)
        n = _rows(segment, blocks, e, values, event, scratch, task.out, n)
        for x in range(event.attributes):
            values.value[present[x]] = -1
        if n < 0:
            counts[0], counts[1], counts[2] = candidates, probes, opened  # the block will come again
            return -1
        task.ends[e + 1] = n
    if is_single and n <= SORTED:
        _sort(task.out, n)
    return n


@inlined
def _sort(rows: Int32s, count: int) -> None:
    """Sort the first `count` rows by insertion: they are few, and each key gives its rows in order."""
    for i in range(1, count):
        row, at = rows[i], i
        while at > 0 and rows[at - 1] > row:
            rows[at] = rows[at - 1]
            at -= 1
        rows[at] = row


@inlined
def _load_event(values: EventValues, i: int, end: int, scratch: Scratch) -> EventState:
    """Write the entries i .. end of an event to `value`, by attribute, and its attributes to `present`."""
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
    if scratch.epoch[0] == LAST_EPOCH:
        scratch.epoch[0] = 0
        scratch.stamp[:] = 0
    scratch.epoch[0] += np.uint32(1)
    return EventState(count, end, several, scratch.epoch[0])
