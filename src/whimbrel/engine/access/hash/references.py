"""References: how a conjunction with several hash keys stands under each of them.

A reference has three attributes, by the numbers that they have in references, with a range of *coarse* ranks each,
ranks that are shortened to 16 bits. An event outside one of them is done with the record without having seen it. Where
the key and the ranges say all that the record does, and it has a single slot that no other conjunction shares, the
reference *decides*: it names the slot in place of the record.

It lies in two arrays. `refs`, an int64 each, has the attributes and the first range, all that most events read;
`targets`, three int32 each, has where the record lies, or the slot, complemented, and the other two ranges.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.intrinsics import prefetch
from whimbrel.compiled.jit import kernel
from whimbrel.engine.access.shared.groups import AHEAD, Groups
from whimbrel.engine.access.shared.packing import ATTR_MASK, KIND_SHIFT, SHARED_BIT
from whimbrel.ranks.clauses.clauses import RANGE, SET, Clauses

COARSE_BITS = 16
COARSE = (1 << COARSE_BITS) - 1
"""The largest rank that a reference has room for."""
NUMBER_BITS = 10
NUMBER = (1 << NUMBER_BITS) - 1
"""The largest number of an attribute that a reference has room for."""
RANGES = 3


def coarse_shifts(total: np.ndarray) -> np.ndarray:
    """Per attribute by how many bits a rank is shortened to fit into the 16 bits that it has in a reference."""
    shift: np.ndarray = np.maximum(0, np.ceil(np.log2(np.maximum(1, total))).astype(np.int32) - COARSE_BITS)
    return shift


def attribute_numbers(groups: Groups, attributes: int) -> np.ndarray:
    """The number of each attribute in references, from 1 on; beyond NUMBER, the least used share NUMBER + 1."""
    used = np.bincount(groups.items[:, 0] & ATTR_MASK, minlength=attributes)
    order = np.argsort(-used, kind="stable") if attributes > NUMBER else np.arange(attributes)
    numbers = np.full(attributes, NUMBER + 1, np.int32)
    numbers[order[:NUMBER]] = np.arange(1, min(attributes, NUMBER) + 1)
    return numbers


def group_references(
    groups: Groups, clauses: Clauses, keys: np.ndarray, slot: np.ndarray, place: np.ndarray, shift: np.ndarray,
    numbers: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The reference to each group, given the items of its key, the slots of its conjunctions and its record's place."""
    refs, targets = np.empty(groups.count, np.int64), np.empty((groups.count, RANGES), np.int32)
    _fill(
        groups.first, groups.item_start, groups.items, keys, clauses.attr, clauses.kind, clauses.low, clauses.high,
        clauses.set_start, clauses.set_low, clauses.set_high, slot, place, shift, numbers, refs, targets,
    )  # fmt: skip
    return refs, targets


@kernel
def _fill(  # type: ignore[no-untyped-def]
    first, item_start, items, keys, attr, kinds, lows, highs, set_start, set_low, set_high, slot, place, shift, numbers,
    refs, targets,
):  # fmt: skip
    spans = np.empty(RANGES, np.int64)
    proven = np.empty((keys.shape[1], 3), np.int32)
    for g in range(refs.size):
        if g + AHEAD < refs.size and keys[g + AHEAD, 0] >= 0:
            soon = keys[g + AHEAD, 0]
            prefetch(attr, soon)  # type: ignore[call-arg]
            prefetch(kinds, soon)
            prefetch(lows, soon)
            prefetch(highs, soon)
        count = 0  # of the items that the key proves: equalities, and an IN that is filed by its members
        for i in range(keys.shape[1]):
            k = keys[g, i]
            if k >= 0 and (kinds[k] == SET or lows[k] == highs[k]):
                proven[count, 0] = attr[k] | (np.int32(kinds[k]) << KIND_SHIFT)
                proven[count, 1], proven[count, 2] = lows[k], highs[k]
                count += 1
        used = np.int64(0)
        spans[:] = np.int64(COARSE) << COARSE_BITS  # from 0 on, and as wide as can be
        n = 0
        decides = first[g + 1] - first[g] == 1 and slot[first[g]] & SHARED_BIT == 0
        for k in range(item_start[g], item_start[g + 1]):
            packed, low, high = items[k, 0], items[k, 1], items[k, 2]
            is_proven = False
            for i in range(count):
                is_proven |= packed == proven[i, 0] and low == proven[i, 1] and high == proven[i, 2]
            if is_proven:
                continue
            kind, a = packed >> KIND_SHIFT, packed & ATTR_MASK
            if n == RANGES or kind > SET or numbers[a] > NUMBER:
                decides = False
                continue
            if kind == SET:
                low, high = set_low[set_start[low]], set_high[set_start[low + 1] - 1]
            start, end = low >> shift[a], high >> shift[a]
            decides &= kind == RANGE and start << shift[a] == low and ((end + 1) << shift[a]) - 1 == high
            used |= np.int64(numbers[a]) << (NUMBER_BITS * n)
            spans[n] = start | (np.int64(end - start) << COARSE_BITS)
            n += 1
        refs[g] = used | (spans[0] << 32)
        targets[g, 0] = ~slot[first[g]] if decides else place[g]
        targets[g, 1], targets[g, 2] = spans[1], spans[2]
