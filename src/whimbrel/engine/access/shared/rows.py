"""Tombstones: leaving dead slots out of what was found."""

from __future__ import annotations

from whimbrel.compiled.jit import kernel
from whimbrel.engine.access.shared.packing import SLOT_MASK


@kernel
def leave_out_dead(offsets, slots, died, version):  # type: ignore[no-untyped-def]
    """Close up the slots that had not died at that version, row by row, in place; flags stay. How many there are."""
    kept = 0
    begin = offsets[0]
    for row in range(offsets.size - 1):
        end = offsets[row + 1]
        for i in range(begin, end):
            slot = slots[i]
            death = died[slot & SLOT_MASK]
            slots[kept] = slot
            kept += (death == 0) | (death > version)
        begin = end
        offsets[row + 1] = kept
    return kept
