"""Matches an event against sorted keys: the bounds of a group that admit the event's value come first in it."""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.array_types import Int32s
from whimbrel.compiled.intrinsics import copy, keep_inside
from whimbrel.compiled.jit import helper, inlined
from whimbrel.engine.access.shared.arrays import EventState, EventValues, Scratch, SharedArrays
from whimbrel.engine.access.shared.packing import emit, holds
from whimbrel.engine.access.sorted.plan import SortedArrays


@inlined
def match_sorted(
    keys: SortedArrays, shared: SharedArrays, values: EventValues, event: EventState, scratch: Scratch, out: Int32s,
    n: int,
) -> int:  # fmt: skip
    """Append the rows whose ranges admit the event; return the new length, or -1 if `out` is full."""
    value, attrs, ranks = values.value, values.attrs, values.ranks
    present = scratch.present
    for x in range(event.attributes if keys.row.size else 0):
        a = present[x]
        v = value[a]
        if n < 0 or keys.first[a] == keys.first[a + 1]:
            continue
        if v > 0:
            n = _match_rank(keys, a, v, values, event, out, n)
        elif v < 0:
            i = -2 - v
            while i < event.end and attrs[i] == a and n >= 0:
                if ranks[i] > 0:
                    n = _match_rank(keys, a, ranks[i], values, event, out, n)
                i += 1
    return n


@helper
def _match_rank(keys: SortedArrays, a: int, v: int, values: EventValues, event: EventState, out: Int32s, n: int) -> int:
    """Append the rows whose ranges of attribute a admit rank v; return the new length, or -1 if `out` is full."""
    first_group, start, upper, fixed, second, bound, low, high, row = keys
    sets, value, attrs, ranks, stamp = values
    for g in range(first_group[a], first_group[a + 1]):
        if (v < fixed[g]) if upper[g] else (v > fixed[g]):
            continue
        w = value[second[g]] if second[g] >= 0 else 0
        if w == -1:
            continue
        first = start[g]
        end = _run_end(bound, first, start[g + 1], upper[g] != 0, v)
        if n + end - first > out.size:
            return -1
        if event.several:
            for i in range(first, end):
                if second[g] < 0 or holds(sets, 0, low[i], high[i], w, attrs, ranks, event.end):
                    n = emit(row[i], event.several, stamp, event.epoch, out, n)
        elif second[g] < 0:
            copy(row, np.int64(first), np.int64(end - first), out, np.int64(n))
            n += end - first
        else:
            eights = (end - first) & ~7
            for i in range(first, first + eights, 8):
                n += keep_inside(row, low, high, np.int64(i), np.int32(w), out, np.int64(n))
            for i in range(first + eights, end):  # append always, keep if inside: no branch to mispredict
                out[n] = row[i]
                n += (low[i] <= w) & (w <= high[i])
    return n


@helper
def _run_end(bound: Int32s, first: int, last: int, is_upper: bool, v: int) -> int:
    """Find the end of the bounds in bound[first:last] that rank v satisfies, by binary search."""
    low, high = first, last
    while low < high:
        middle = (low + high) >> 1
        if (bound[middle] >= v) if is_upper else (bound[middle] <= v):
            low = middle + 1
        else:
            high = middle
    return low
