"""Matching an event against the signatures of a segment."""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.jit import helper
from whimbrel.engine.access.hash.kernel import emit, visit
from whimbrel.engine.access.shared.packing import SHARED_BIT

_ONE, _NONE = np.uint64(1), np.uint64(0)


@helper
def _runs(first, classes, key, radix, value, attrs, ranks, end, run):  # type: ignore[no-untyped-def]
    """The places of the event in the table of runs, with each attribute of the key or without: their number, or -1."""
    run[0] = 0
    n = 1
    for f in range(key.size):
        a = key[f]
        v = value[a]
        if v == -1:
            continue
        i = -2 - v if v < 0 else end - 1  # one value is like a list that ends with it
        seen = _ONE
        before = n
        while i < end and (v >= 0 or attrs[i] == a):
            c = classes[first[a, 0] + (v if v >= 0 else ranks[i])] - first[a, 1]
            i += 1
            if (seen >> np.uint64(c)) & _ONE != _NONE:
                continue
            seen |= _ONE << np.uint64(c)
            if n + before > run.size:
                return -1
            for j in range(before):
                run[n + j] = run[j] + np.int64(c) * radix[f]
            n += before
    return n


@helper
def _emit_all(slots, record, records, alive, kept, context, end, several, epoch, out, n):  # type: ignore[no-untyped-def]
    """Appends the slots of signatures that are alive, visiting the records of those that bits do not decide."""
    if n + kept > out.size:
        return -1
    for x in range(kept):
        i = np.uint64(alive[x])
        packed = slots[i]
        if several or packed < 0:
            n = visit(records, alive, np.int64(record[i]), np.int64(1), context, end, several, epoch, out, n)
            if n < 0:
                return -1
        elif packed & SHARED_BIT:
            n = emit(packed, several, context[4], epoch, out, n)
        else:
            out[np.uint64(n)] = packed
            n += 1
    return n


@helper
def match_signatures(arrays, records, context, present, count, end, several, run, alive, epoch, out, n, counts):  # type: ignore[no-untyped-def]
    """Appends the slots whose signatures the event does not kill; the new length, or -1 without room."""
    first, classes, bits, key, radix, start, dead, slots, record = arrays
    _, value, attrs, ranks, _ = context
    runs = _runs(first, classes, key, radix, value, attrs, ranks, end, run)
    if runs < 0:
        return -1
    e0, e1 = bits[-1, 0], bits[-1, 1]  # an event without attributes
    for x in range(count):
        a = present[x]
        if first[a, 0] < 0:
            continue
        e0 &= ~bits[first[a, 1], 0]
        e1 &= ~bits[first[a, 1], 1]
        v = value[a]
        if v >= 0:  # several values kill nothing
            c = classes[first[a, 0] + v]
            e0 |= bits[c, 0]
            e1 |= bits[c, 1]
    kept = np.int64(0)
    for r in range(runs):
        i, last = np.int64(start[run[r]]), np.int64(start[run[r] + 1])
        counts[0] += last - i
        while i < last:
            if kept == alive.size:
                n = _emit_all(slots, record, records, alive, kept, context, end, several, epoch, out, n)
                kept = np.int64(0)
                if n < 0:
                    return -1
            stop = min(last, i + alive.size - kept)
            for j in range(i, stop):  # append always, keep if alive: no branch to mispredict
                u = np.uint64(j)
                alive[np.uint64(kept)] = j
                kept += ((dead[u, 0] & e0) | (dead[u, 1] & e1)) == _NONE
            i = stop
    return _emit_all(slots, record, records, alive, kept, context, end, several, epoch, out, n)
