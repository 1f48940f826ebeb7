"""Intersects and unites the sets of items in compiled code.

The sets of several terms on one attribute are intersected; conjunctions of one filter that differ in one set are united
to one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Bytes, Int32s, Int64s
from whimbrel.compiled.helpers import Integer
from whimbrel.compiled.jit import helper, inlined
from whimbrel.ranks.clauses.clauses import RANGE, SET

IMPOSSIBLE = 16
"""The kind of an item that nothing satisfies."""
_FACTOR = 1_000_003


class ItemArrays(NamedTuple):
    """Items: see `Clauses`."""

    attr: Int32s
    kind: Bytes
    low: Int32s
    high: Int32s


class Item(NamedTuple):
    """An item without its attribute."""

    kind: Integer
    low: Integer
    high: Integer


class SetBuffer(NamedTuple):
    """Sets of intervals: set s has the intervals `start[s]` to `start[s + 1]`. `used` counts sets and intervals."""

    start: Int64s
    low: Int32s
    high: Int32s
    used: Int64s


@inlined
def stored(kind: int, sets: SetBuffer, end: Integer) -> Item:
    """Make an item of the intervals behind the used ones, up to `end`: a range if there is one, else a new set."""
    count, begin = sets.used[0], sets.used[1]
    if end == begin + 1:
        return Item(np.int64(kind & ~1), np.int64(sets.low[begin]), np.int64(sets.high[begin]))
    if end == begin:
        return Item(np.int64(IMPOSSIBLE), np.int64(0), np.int64(0))
    sets.start[count + 1] = end
    sets.used[0], sets.used[1] = count + 1, end
    return Item(np.int64(kind | 1), count, np.int64(0))


@helper
def _size(kind: Integer, low: Integer, sets: SetBuffer) -> Integer:
    """The number of intervals of an item."""
    return sets.start[low + 1] - sets.start[low] if kind & 1 else np.int64(1)


@helper
def _interval(kind: int, low: int, high: int, i: Integer, sets: SetBuffer) -> tuple[Integer, Integer]:
    """Interval i of an item."""
    if kind & 1:
        return np.int64(sets.low[sets.start[low] + i]), np.int64(sets.high[sets.start[low] + i])
    return np.int64(low), np.int64(high)


@inlined
def join(items: ItemArrays, j: int, other: Item, is_union: bool, sets: SetBuffer, given: int) -> bool:
    """Intersect item j with another item of its attribute, or unite them; False if there is no space for a set.

    This function made the sets behind the first `given` ones, each for one item. If the last one is that of item j, the
    new set takes its place: a chain of joins then takes no more space than the largest of its sets.
    """
    kind = items.kind[j]
    n, m = _size(kind, items.low[j], sets), _size(other.kind, other.low, sets)
    begin = end = sets.used[1]
    if end + n + m + 1 > sets.low.size or sets.used[0] + 2 > sets.start.size:
        return False
    lows, highs = sets.low, sets.high  # not `sets` in the loop: its arrays would be reference-counted at every step
    own, its = np.int64(items.low[j]), np.int64(other.low)
    own_high, its_end = np.int64(items.high[j]), np.int64(other.high)
    own_at = sets.start[own] if kind & 1 else np.int64(-1)
    its_at = sets.start[its] if other.kind & 1 else np.int64(-1)
    x = y = np.int64(0)
    while (x < n or y < m) if is_union else (x < n and y < m):
        low, high = own, own_high
        its_low, its_high = its, its_end
        if own_at >= 0:
            low, high = np.int64(lows[own_at + min(x, n - 1)]), np.int64(highs[own_at + min(x, n - 1)])
        if its_at >= 0:
            its_low, its_high = np.int64(lows[its_at + min(y, m - 1)]), np.int64(highs[its_at + min(y, m - 1)])
        if not is_union:
            lows[end], highs[end] = max(low, its_low), min(high, its_high)
            end += lows[end] <= highs[end]
            x, y = (x + 1, y) if high <= its_high else (x, y + 1)
            continue
        if x < n and (y == m or low <= its_low):
            x += 1
        else:
            low, high = its_low, its_high
            y += 1
        if end > begin and low <= highs[end - 1] + 1:
            highs[end - 1] = max(high, np.int64(highs[end - 1]))
        else:
            lows[end], highs[end] = low, high
            end += low <= high
    if kind & 1 and items.low[j] >= given and items.low[j] == sets.used[0] - 1:
        down = begin - sets.start[items.low[j]]
        for i in range(begin, end):
            lows[i - down], highs[i - down] = lows[i], highs[i]
        sets.used[0], sets.used[1], end = sets.used[0] - 1, begin - down, end - down
    items.kind[j], items.low[j], items.high[j] = stored(RANGE, sets, end)
    return True


@inlined
def _are_equal(items: ItemArrays, j: int, k: int, sets: SetBuffer) -> bool:
    """Whether two items of one attribute are the same test."""
    kind, low, other = items.kind[j], items.low[j], items.low[k]
    if kind != items.kind[k]:
        return False
    size = _size(kind, low, sets)
    if size != _size(kind, other, sets):
        return False
    for i in range(size):
        if _interval(kind, low, items.high[j], i, sets) != _interval(kind, other, items.high[k], i, sets):
            return False
    return True


@inlined
def _unite_two(
    items: ItemArrays, begin: Int64s, size: Int64s, earlier: int, later: int, sets: SetBuffer, given: int
) -> int:
    """Unite two conjunctions if they differ in at most one set of values: the later one then has no items.

    Returns 1 if they were united, else 0; -1 if there is no space for a set.
    """
    if size[later] == 0 or size[earlier] != size[later]:
        return 0
    unlike, place = 0, np.int64(0)
    for i in range(size[later]):
        j, k = begin[earlier] + i, begin[later] + i
        if items.attr[j] != items.attr[k]:
            return 0
        if not _are_equal(items, j, k, sets):
            unlike += 1 if items.kind[j] <= SET and items.kind[k] <= SET else 2
            place = np.int64(i)
        if unlike > 1:
            return 0
    j, k = begin[earlier] + place, begin[later] + place
    if unlike == 1 and not join(items, j, Item(items.kind[k], items.low[k], items.high[k]), True, sets, given):
        return -1
    size[later] = 0
    return 1


@inlined
def unite(items: ItemArrays, begin: Int64s, size: Int64s, keys: Int64s, n: int, sets: SetBuffer, given: int) -> bool:
    """Unite conjunctions that differ in one set of values; False if there is no space for a set.

    First adjacent ones are united, then every second of the rest, and so on: a long OR of values of one attribute costs
    little more than its length. `keys` is scratch for a number of each conjunction, equal for those with the same
    attributes and the same tests that cannot be united.
    """
    kind, low, high = items.kind, items.low, items.high
    for c in range(n):
        keys[c] = 0
        for i in range(begin[c], begin[c] + size[c]):
            keys[c] = keys[c] * _FACTOR + items.attr[i] + 1
            if kind[i] > SET:
                keys[c] = keys[c] * _FACTOR + kind[i] + (0 if kind[i] & 1 else low[i])
    step = 1
    while step < n:
        for earlier in range(0, n - step, 2 * step):
            if keys[earlier] == keys[earlier + step]:
                found = _unite_two(items, begin, size, earlier, earlier + step, sets, given)
                if found < 0:
                    return False
        step *= 2
    is_changed = True
    while is_changed:
        is_changed = False
        for later in range(1, n):
            if size[later] == 0:
                continue
            for earlier in range(later):
                if keys[earlier] != keys[later] or size[earlier] == 0:
                    continue
                unlike = 0
                for i in range(size[later]):
                    j, k = begin[earlier] + i, begin[later] + i
                    unlike += (kind[j] | kind[k]) & 1 == 0 and (low[j] != low[k] or high[j] != high[k])
                if unlike > 1:
                    continue
                found = _unite_two(items, begin, size, earlier, later, sets, given)
                if found < 0:
                    return False
                is_changed |= found > 0
    return True
