"""References: how a conjunction with several hash keys stands under each of them.

A reference is four int32: where the record lies, and two attributes with a range of *coarse* ranks each, ranks that are
shortened to 16 bits. An event outside one of them is done with the record without having seen it.
"""

from __future__ import annotations

import numpy as np

from whimbrel.engine.compiled.jit import kernel
from whimbrel.engine.intake.clauses import SET, Clauses
from whimbrel.engine.planner.groups import Groups
from whimbrel.engine.planner.packing import ATTR_MASK, KIND_SHIFT

COARSE_BITS = 16
COARSE = (1 << COARSE_BITS) - 1
"""The largest number that a reference has room for, of an attribute or of a rank."""


def coarse_shifts(total: np.ndarray) -> np.ndarray:
    """Per attribute by how many bits a rank is shortened to fit into the 16 bits that it has in a reference."""
    shift: np.ndarray = np.maximum(0, np.ceil(np.log2(np.maximum(1, total))).astype(np.int32) - COARSE_BITS)
    return shift


def inline_ranges(groups: Groups, clauses: Clauses, shift: np.ndarray) -> np.ndarray:
    """Per group two attributes, and the coarse ranks of each that an event must have if it has one value there.

    Two numbers of 16 bits in each int32: the attributes plus one, 0 for none; then first rank and width, twice.
    """
    out = np.empty((groups.count, 3), np.int32)
    _fill_inline(
        groups.item_start,
        groups.items,
        clauses.set_start,
        clauses.set_low,
        clauses.set_high,
        shift,
        out.view(np.uint16),
    )
    return out


@kernel
def _fill_inline(item_start, items, set_start, set_low, set_high, shift, out):  # type: ignore[no-untyped-def]
    for g in range(out.shape[0]):
        out[g, 0] = out[g, 1] = out[g, 2] = out[g, 4] = 0
        out[g, 3] = out[g, 5] = COARSE
        n = 0
        for k in range(item_start[g], item_start[g + 1]):
            kind, a = items[k, 0] >> KIND_SHIFT, items[k, 0] & ATTR_MASK
            if kind > SET or a >= COARSE:
                continue
            low, high = items[k, 1], items[k, 2]
            if kind == SET:
                low, high = set_low[set_start[low]], set_high[set_start[low + 1] - 1]
            out[g, n] = a + 1
            out[g, 2 + 2 * n] = low >> shift[a]
            out[g, 3 + 2 * n] = (high >> shift[a]) - (low >> shift[a])
            n += 1
            if n == 2:
                break
