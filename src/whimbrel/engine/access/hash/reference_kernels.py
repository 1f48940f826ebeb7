"""Matching an event against references: which records it must visit, and which slots are decided without."""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.intrinsics import prefetch
from whimbrel.compiled.jit import expanded, helper
from whimbrel.engine.access.hash.kernel import emit
from whimbrel.engine.access.hash.references import COARSE, COARSE_BITS, NUMBER, NUMBER_BITS, RANGES

_LINES = 8
"""Cache lines of a run that are asked for at once: the processor itself asks for what follows."""
_AHEAD = 16
"""How many references before its own the cache is asked for what one leads to."""


@helper
def ask_for(refs, first, count):  # type: ignore[no-untyped-def]
    """Hints to bring the first references of a run into the cache."""
    for line in range(min(_LINES, (count + 7) >> 3)):
        prefetch(refs, first + 8 * line)  # type: ignore[call-arg]


@expanded
def _admits(span, c):  # type: ignore[no-untyped-def]
    """Whether a coarse rank is in a range, or there are several."""
    span = np.uint32(span)
    low, width = span & np.uint32(COARSE), span >> np.uint32(COARSE_BITS)
    return (np.uint32(np.uint32(c) - low) <= width) | (c < -1)


@helper
def collect(refs, first, count, coarse, alive, kept):  # type: ignore[no-untyped-def]
    """Appends the references of a run that their first range does not rule out: how many are listed now."""
    for i in range(first, first + count):  # append always, keep if inside: no branch to mispredict
        ref = np.uint64(refs[np.uint64(i)])
        alive[np.uint64(kept)] = i
        kept += _admits(ref >> np.uint64(32), coarse[ref & np.uint64(NUMBER)])
    return kept


@helper
def _holds(refs, targets, i, shift, coarse, attrs, ranks, end):  # type: ignore[no-untyped-def]
    """Whether the ranges of a reference that decides hold for an event with several values."""
    for r in range(RANGES):
        c = coarse[(refs[i] >> (NUMBER_BITS * r)) & NUMBER]
        if c >= -1:
            continue  # seen to hold already
        j = -2 - c
        a = attrs[j]
        good = False
        while j < end and attrs[j] == a:
            good |= _admits(refs[i] >> 32 if r == 0 else np.int64(targets[i, r]), ranks[j] >> shift[a])
            j += 1
        if not good:
            return False
    return True


@helper
def sift(refs, targets, listed, count, coarse, shift, attrs, ranks, end, several, stamp, epoch, out, n):  # type: ignore[no-untyped-def]
    """Of listed references, appends the slots of those that decide, and leaves the records of the others in the list.

    How many records there are, and the new length of `out`, -1 without room.
    """
    if n + count > out.size:
        return np.int64(0), np.int64(-1)
    kept = np.int64(0)
    for x in range(min(count, _AHEAD)):
        prefetch(targets, RANGES * np.int64(listed[x]))  # type: ignore[call-arg]
    for x in range(count):
        if x + _AHEAD < count:
            prefetch(targets, RANGES * np.int64(listed[x + _AHEAD]))  # type: ignore[call-arg]
        i = np.uint64(listed[np.uint64(x)])
        ref, target = np.uint64(refs[i]), targets[i, 0]
        good = _admits(targets[i, 1], coarse[(ref >> np.uint64(NUMBER_BITS)) & np.uint64(NUMBER)])
        good &= _admits(targets[i, 2], coarse[(ref >> np.uint64(2 * NUMBER_BITS)) & np.uint64(NUMBER)])
        if several and target < 0:
            if good and _holds(refs, targets, i, shift, coarse, attrs, ranks, end):
                n = emit(~target, several, stamp, epoch, out, n)
            continue
        out[np.uint64(n)] = ~target
        n += good & (target < 0)
        listed[np.uint64(kept)] = target
        kept += good & (target >= 0)
    return kept, n
