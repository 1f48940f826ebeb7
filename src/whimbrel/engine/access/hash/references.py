"""References: how a conjunction with several hash keys stands under each of them.

A reference has three attributes, by the numbers that they have in references, with a range of *coarse* ranks each,
ranks that are shortened to 16 bits. An event outside one of them need not visit the record. Where the key and the
ranges say all that the record does, and it has a single row that no other conjunction has, the reference *decides*: it
names the row in place of the record.

It lies in two arrays. `refs`, an int64 each, has the attributes and the first range, all that most events read;
`targets`, three int32 each, has the place of the record, or the row, complemented, and the other two ranges.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.intrinsics import prefetch
from whimbrel.compiled.jit import expanded, helper, kernel
from whimbrel.engine.access.shared.arrays import EventState, EventValues, Items, items_of
from whimbrel.engine.access.shared.groups import AHEAD, Groups
from whimbrel.engine.access.shared.items import ATTR_MASK, KIND_SHIFT
from whimbrel.engine.access.shared.rows import SHARED_BIT, emit
from whimbrel.ranks.clauses.clauses import RANGE, SET, Clauses

COARSE_BITS = 16
COARSE = (1 << COARSE_BITS) - 1
"""The largest rank of a reference."""
NUMBER_BITS = 10
NUMBER = (1 << NUMBER_BITS) - 1
"""The largest number of an attribute in a reference."""
RANGES = 3
_LINES = 8
"""Cache lines of a run that are asked for at once: the processor itself asks for what follows."""
_TARGETS_AHEAD = 16
"""How many references before its own the cache is asked for the target of a reference."""


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
    groups: Groups, clauses: Clauses, keys: np.ndarray, rows: np.ndarray, place: np.ndarray, shift: np.ndarray,
    numbers: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """`refs` and `targets` of groups, given the items of their keys, the rows of their conjunctions, their places."""
    refs, targets = np.empty(groups.size, np.int64), np.empty((groups.size, RANGES), np.int32)
    _fill(
        groups.first, groups.item_start, groups.items, keys, items_of(clauses), rows, place, shift, numbers, refs,
        targets,
    )  # fmt: skip
    return refs, targets


@kernel
def _fill(
    first: np.ndarray, item_start: np.ndarray, items: np.ndarray, keys: np.ndarray, source: Items, rows: np.ndarray,
    place: np.ndarray, shift: np.ndarray, numbers: np.ndarray, refs: np.ndarray, targets: np.ndarray,
) -> None:  # fmt: skip
    _, attr, kinds, lows, highs, set_start, set_low, set_high = source
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
        decides = first[g + 1] - first[g] == 1 and rows[first[g]] & SHARED_BIT == 0
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
        targets[g, 0] = ~rows[first[g]] if decides else place[g]
        targets[g, 1], targets[g, 2] = spans[1], spans[2]


@helper
def ask_for(refs: np.ndarray, first: int, count: int) -> None:
    """Ask the cache for the first references of a run."""
    for line in range(min(_LINES, (count + 7) >> 3)):
        prefetch(refs, first + 8 * line)  # type: ignore[call-arg]


@expanded
def _admits(span: int, c: int) -> bool:
    """Whether a coarse rank is in a range, or there are several."""
    span = np.uint32(span)  # type: ignore[assignment]
    low, width = span & np.uint32(COARSE), span >> np.uint32(COARSE_BITS)
    return (np.uint32(np.uint32(c) - low) <= width) | (c < -1)  # type: ignore[return-value]


@helper
def collect(refs: np.ndarray, first: int, count: int, coarse: np.ndarray, alive: np.ndarray, kept: int) -> int:
    """Append the references of a run that their first range does not rule out; return how many are listed now."""
    for i in range(first, first + count):  # append always, keep if inside: no branch to mispredict
        ref = np.uint64(refs[np.uint64(i)])
        alive[np.uint64(kept)] = i
        kept += _admits(ref >> np.uint64(32), coarse[ref & np.uint64(NUMBER)])  # type: ignore[arg-type]
    return kept


@helper
def _holds(
    refs: np.ndarray, targets: np.ndarray, i: int, shift: np.ndarray, coarse: np.ndarray, attrs: np.ndarray,
    ranks: np.ndarray, end: int,
) -> bool:  # fmt: skip
    """Whether the ranges of a reference that decides hold for an event with several values."""
    for r in range(RANGES):
        c = coarse[(refs[i] >> (NUMBER_BITS * r)) & NUMBER]
        if c >= -1:
            continue  # seen to hold already
        j = -2 - c
        a = attrs[j]
        good = False
        while j < end and attrs[j] == a:
            span = refs[i] >> 32 if r == 0 else np.int64(targets[i, r])
            good |= _admits(span, ranks[j] >> shift[a])  # type: ignore[arg-type]
            j += 1
        if not good:
            return False
    return True


@helper
def sift(
    refs: np.ndarray, targets: np.ndarray, shift: np.ndarray, listed: np.ndarray, count: int, coarse: np.ndarray,
    values: EventValues, event: EventState, out: np.ndarray, n: int,
) -> tuple[int, int]:  # fmt: skip
    """Append the rows of listed references that decide, and leave the records of the others in the list.

    Return how many records there are, and the new length of `out`, -1 without room.
    """
    if n + count > out.size:
        return np.int64(0), np.int64(-1)  # type: ignore[return-value]
    kept = np.int64(0)
    for x in range(min(count, _TARGETS_AHEAD)):
        prefetch(targets, RANGES * np.int64(listed[x]))  # type: ignore[call-arg]
    for x in range(count):
        if x + _TARGETS_AHEAD < count:
            prefetch(targets, RANGES * np.int64(listed[x + _TARGETS_AHEAD]))  # type: ignore[call-arg]
        i = np.uint64(listed[np.uint64(x)])
        ref, target = np.uint64(refs[i]), targets[i, 0]
        good = _admits(targets[i, 1], coarse[(ref >> np.uint64(NUMBER_BITS)) & np.uint64(NUMBER)])
        good &= _admits(targets[i, 2], coarse[(ref >> np.uint64(2 * NUMBER_BITS)) & np.uint64(NUMBER)])
        if event.several and target < 0:
            if good and _holds(refs, targets, i, shift, coarse, values.attrs, values.ranks, event.end):  # type: ignore[arg-type]
                n = emit(~target, event.several, values.stamp, event.epoch, out, n)
            continue
        out[np.uint64(n)] = ~target
        n += good & (target < 0)
        listed[np.uint64(kept)] = target
        kept += good & (target >= 0)
    return kept, n  # type: ignore[return-value]
