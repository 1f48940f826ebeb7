"""How rows and items are packed into int32, and the helpers that read them.

A row (the number of a subscription's version) carries two flags in its high bits. An item is a test of one attribute
that the key of a conjunction does not prove. It takes three int32: the attribute, with the kind of the item in bits 28
and 29, then the first and last rank of a range, or the number of a set of ranks and its mask.
"""

from __future__ import annotations

from whimbrel.compiled.array_types import Int32s, Int64s, Uint32s
from whimbrel.compiled.jit import expanded, helper, inlined, kernel, quick_kernel

VERIFY_BIT = 1 << 29
"""Ranks do not decide: the filter itself must be evaluated."""
SHARED_BIT = 1 << 30
"""Other conjunctions have the same row, so an event may reach it twice."""
ROW_MASK = VERIFY_BIT - 1
"""The largest row: the flags have the bits above it."""
FEW = 64
"""At most so many rows are sorted by insertion."""

KIND_SHIFT = 28
ATTR_MASK = (1 << KIND_SHIFT) - 1
NO_ITEM = 2 << KIND_SHIFT
"""Packed attributes from here on belong to negated items, which hold if no value lies in the range or set."""


@expanded
def in_set(sets: tuple[Int32s, Int32s, Int32s], number: int, rank: int) -> bool:
    """Whether a rank is in one of the intervals of a set."""
    start, lows, highs = sets
    low, end = start[number], start[number + 1]
    high = end
    while low < high:  # the first interval that does not end below the rank
        middle = (low + high) >> 1
        if highs[middle] < rank:
            low = middle + 1
        else:
            high = middle
    return bool(low < end and lows[low] <= rank)


@helper
def holds(
    sets: tuple[Int32s, Int32s, Int32s], kind: int, low: int, high: int, v: int, attrs: Int32s,
    ranks: Int32s, end: int,
) -> bool:  # fmt: skip
    """Whether an item holds for an event; `v` is `EventValues.value` of its attribute, `end` where its entries end."""
    if v >= 0:
        if kind & 1 == 0:
            return (low <= v <= high) == (kind < 2)
        # `high` is the set's mask: it rules out most ranks without a search.
        return ((high >> ((v >> 1) & 31)) & 1 == 1 and in_set(sets, low, v)) == (kind < 2)
    if v == -1:
        return kind >= 2
    i = -2 - v
    a = attrs[i]
    while i < end and attrs[i] == a:
        if (low <= ranks[i] <= high) if kind & 1 == 0 else in_set(sets, low, ranks[i]):
            return kind < 2
        i += 1
    return kind >= 2


@helper
def emit(packed: int, several: bool, stamp: Uint32s, epoch: int, out: Int32s, n: int) -> int:
    """Append a row unless this event has it already; return the new length, or -1 if `out` is full."""
    if several or packed & SHARED_BIT:
        row = packed & ROW_MASK
        if stamp[row] == epoch:
            return n
        stamp[row] = epoch
    if n >= out.size:
        return -1
    out[n] = packed & (ROW_MASK | VERIFY_BIT)
    return n + 1


@inlined
def append_rows(
    rows: Int32s, begin: int, end: int, several: bool, stamp: Uint32s, epoch: int, out: Int32s, n: int
) -> int:
    """Append rows[begin:end], each once per event; return the new length. `out` must have space for all."""
    for i in range(begin, end):
        packed = rows[i]
        if several or packed & SHARED_BIT:
            n = emit(packed, several, stamp, epoch, out, n)
        else:
            out[n] = packed
            n += 1
    return n


@kernel
def leave_out_dead(offsets: Int64s, rows: Int32s, died: Int32s, version: int) -> int:
    """Drop the rows that are dead at a version, in place, and fit the offsets; return how many are left. Flags stay."""
    kept = 0
    begin = offsets[0]
    for event in range(offsets.size - 1):
        end = offsets[event + 1]
        for i in range(begin, end):
            row = rows[i]
            death = died[row & ROW_MASK]
            rows[kept] = row
            kept += (death == 0) | (death > version)
        begin = end
        offsets[event + 1] = kept
    return kept


@quick_kernel
def sort_by_place(rows: Int32s, moved: Int32s) -> None:
    """Sort a few rows by their places, in place; the place of a row is row + moved[row]."""
    for i in range(1, rows.size):
        row = rows[i]
        place = row + moved[row]
        at = i
        while at > 0 and rows[at - 1] + moved[rows[at - 1]] > place:
            rows[at] = rows[at - 1]
            at -= 1
        rows[at] = row
