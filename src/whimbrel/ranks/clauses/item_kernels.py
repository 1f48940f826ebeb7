"""The loops that write the items of terms in ranks, and combine them to conjunctions.

In a conjunction an attribute has one set of values to pick from: sets of several terms are intersected here. Tests of
members and of states, which look at all values, stay items of their own. Conjunctions of one filter that differ in one
set of values are united.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.helpers import Integer
from whimbrel.compiled.jit import helper, inlined, kernel
from whimbrel.ranks.clauses.clauses import RANGE, SET, SHARED, VERIFY

SPAN, OUTSIDE, LISTED, EXCEPT, EVERY, FIXED, MARK = range(7)
"""What a descriptor asks for: an interval; the rest of a type; a list; all but a list; an item for each member of a
list; all ranks from 0 or 1 on; a mark for the conjunction."""
BLOCK_END, CONSTANT = -1, -2
"""Instead of a pool: the edge of a type, or a rank."""
MEMBER, UNSURE, IMPOSSIBLE = 4, 8, 16
"""Kinds of items before they are combined. MEMBER is added where some value must be in the set, whatever is picked.
The others are marks: the filter must be verified; nothing matches."""

_FACTOR = 1_000_003


class UseArrays(NamedTuple):
    """The places of the uses of all descriptors, and the lengths of the lists of those that have lists."""

    place: np.ndarray
    length: np.ndarray


class RankArrays(NamedTuple):
    """The ranks of all literals, where those of each pool begin, and the first rank of each attribute and type."""

    pooled: np.ndarray
    base: np.ndarray
    first: np.ndarray


class ItemArrays(NamedTuple):
    """Items: see `Clauses`."""

    attr: np.ndarray
    kind: np.ndarray
    low: np.ndarray
    high: np.ndarray


class SetBuffer(NamedTuple):
    """Sets of intervals: set s has the intervals `start[s]` to `start[s + 1]`. `used` counts sets and intervals."""

    start: np.ndarray
    low: np.ndarray
    high: np.ndarray
    used: np.ndarray


@helper
def _end(pool: int, at: int, step: int, a: int, ranks: RankArrays) -> tuple[Integer, Integer]:  # pragma: no cover
    """Where the ranks of one end of a range begin in the pools, and what to add to each; or -1 and one rank for all."""
    if pool == BLOCK_END:
        return np.int64(-1), ranks.first[a, at] + step
    return (np.int64(-1), at + step) if pool == CONSTANT else (ranks.base[pool] + at, step)


@helper
def _sort(points: np.ndarray, n: int) -> None:  # pragma: no cover
    """Shell sort: short lists are the rule, and NumPy's sort takes seconds to compile."""
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            x = points[i]
            j = i
            while j >= gap and points[j - gap] > x:
                points[j] = points[j - gap]
                j -= gap
            points[j] = x
        gap //= 3


@inlined
def _store(items: ItemArrays, k: int, kind: int, sets: SetBuffer, end: Integer) -> None:  # pragma: no cover
    """Make the intervals behind the used ones, up to `end`, item k: a range if there is one, else a new set."""
    count, begin = sets.used[0], sets.used[1]
    if end == begin + 1:
        items.kind[k], items.low[k], items.high[k] = kind & ~1, sets.low[begin], sets.high[begin]
    elif end == begin:
        items.kind[k] = IMPOSSIBLE
    else:
        items.kind[k], items.low[k], items.high[k] = kind | 1, count, 0
        sets.start[count + 1] = end
        sets.used[0], sets.used[1] = count + 1, end


@inlined
def _put(sets: SetBuffer, at: Integer, low: Integer, high: Integer) -> Integer:  # pragma: no cover
    """Write an interval unless it is empty; return the next place."""
    sets.low[at], sets.high[at] = low, high
    return at + 1 if low <= high else at


@inlined
def _write_span(
    descriptor: np.ndarray,
    place: np.ndarray,
    start: np.ndarray,
    ranks: RankArrays,
    items: ItemArrays,
    sets: SetBuffer,
) -> None:  # pragma: no cover
    """Write the intervals of a range, or what is outside of them, for every use."""
    what, a = descriptor[0], descriptor[1]
    low_from, low_more = _end(descriptor[5], descriptor[6], descriptor[7], a, ranks)
    high_from, high_more = _end(descriptor[8], descriptor[9], -descriptor[10], a, ranks)
    bottom, top = np.int64(ranks.first[a, descriptor[11]]), np.int64(ranks.first[a, descriptor[12]]) - 1
    for use in range(place.size):
        k = start[place[use]]
        low = low_more if low_from < 0 else ranks.pooled[low_from + use] + low_more
        high = high_more if high_from < 0 else ranks.pooled[high_from + use] + high_more
        items.attr[k] = a
        if what == SPAN or low > high:
            whole = what == OUTSIDE
            items.kind[k] = RANGE if whole or low <= high else IMPOSSIBLE
            items.low[k], items.high[k] = bottom if whole else low, top if whole else high
        else:
            end = _put(sets, sets.used[1], bottom, low - 1)
            _store(items, k, RANGE, sets, _put(sets, end, high + 1, top))


@inlined
def _write_list(
    descriptor: np.ndarray, uses: UseArrays, members: np.ndarray, start: np.ndarray, ranks: RankArrays,
    items: ItemArrays, sets: SetBuffer, points: np.ndarray,
) -> None:  # fmt: skip  # pragma: no cover
    """Write the items of a list, or of all but a list, for every use."""
    what, a, kind, first, n = descriptor[0], descriptor[1], descriptor[5], descriptor[6], descriptor[7]
    is_ragged = descriptor[4] >= 0
    begin = np.int64(0)
    for use in range(descriptor[3]):
        k = start[uses.place[descriptor[2] + use]]
        if is_ragged:
            n = uses.length[descriptor[4] + use]
        for i in range(n):
            member = first if is_ragged else first + i
            pool, at = members[member, 0], members[member, 1] + (begin + i if is_ragged else use)
            points[i] = members[member, 1] if pool == CONSTANT else ranks.pooled[ranks.base[pool] + at]
        begin += n
        if what == EVERY:
            for i in range(n):
                items.attr[k + i], items.kind[k + i] = a, kind
                items.low[k + i] = items.high[k + i] = points[i]
            continue
        _sort(points, n)
        end = sets.used[1]
        above = np.int64(1)
        for i in range(n):
            if i == 0 or points[i] != points[i - 1]:
                end = _put(sets, end, points[i] if what == LISTED else above, points[i] - int(what != LISTED))
                above = np.int64(points[i]) + 1
        if what == EXCEPT:
            end = _put(sets, end, above, np.int64(ranks.first[a, 4]) - 1)
        items.attr[k] = a
        _store(items, k, kind, sets, end)


@kernel
def write_items(
    descriptors: np.ndarray, uses: UseArrays, members: np.ndarray, start: np.ndarray, ranks: RankArrays,
    items: ItemArrays, sets: SetBuffer, longest: int,
) -> None:  # fmt: skip  # pragma: no cover
    """Write the items of every use of a term from `start[use]` on, and the sets that they name.

    A descriptor has: what, attribute, its first use and their number, its first length or -1; then of a range: pool,
    place and step of the lower end and of the upper one, and its types; of a list, of at most `longest` members: kind,
    first member, members; else kind and lowest rank. `start` is where the next item of each use goes.
    """
    points = np.empty(longest, np.int32)
    for d in range(descriptors.shape[0]):
        descriptor = descriptors[d]
        what, a = descriptor[0], descriptor[1]
        place = uses.place[descriptor[2] : descriptor[2] + descriptor[3]]
        if what in (SPAN, OUTSIDE):
            _write_span(descriptor, place, start, ranks, items, sets)
        elif what in (FIXED, MARK):
            for use in place:
                k = start[use]
                items.attr[k], items.kind[k], items.low[k] = a, descriptor[5], descriptor[6]
                items.high[k] = ranks.first[a, 4] - 1
        else:
            _write_list(descriptor, uses, members, start, ranks, items, sets, points)
        step = descriptor[7] if what == EVERY else 1
        for i in range(place.size):
            start[place[i]] += uses.length[descriptor[4] + i] if what == EVERY and descriptor[4] >= 0 else step


@helper
def _size(kind: int, low: int, sets: SetBuffer) -> Integer:  # pragma: no cover
    """The number of intervals of an item."""
    return sets.start[low + 1] - sets.start[low] if kind & 1 else np.int64(1)


@helper
def _interval(
    kind: int, low: int, high: int, i: Integer, sets: SetBuffer
) -> tuple[Integer, Integer]:  # pragma: no cover
    """Interval i of an item."""
    if kind & 1:
        return np.int64(sets.low[sets.start[low] + i]), np.int64(sets.high[sets.start[low] + i])
    return np.int64(low), np.int64(high)


@inlined
def _join(
    one: ItemArrays, j: int, two: ItemArrays, k: int, is_union: bool, sets: SetBuffer, given: int
) -> bool:  # pragma: no cover
    """Make item j of `one` the intersection or the union with item k of `two`; False if there is no place for a set.

    The sets behind the first `given` ones were made by this function, each for one item. If the last of them is that of
    item j, the new set takes its place: a row of joins then takes no more space than the largest of its sets.
    """
    kind, other = one.kind[j], two.kind[k]
    n, m = _size(kind, one.low[j], sets), _size(other, two.low[k], sets)
    begin = end = sets.used[1]
    if end + n + m + 1 > sets.low.size or sets.used[0] + 2 > sets.start.size:
        return False
    lows, highs = sets.low, sets.high  # not `sets` in the loop, whose arrays would be counted at every step
    own, its = np.int64(one.low[j]), np.int64(two.low[k])
    own_high, its_end = np.int64(one.high[j]), np.int64(two.high[k])
    own_at = sets.start[own] if kind & 1 else np.int64(-1)
    its_at = sets.start[its] if other & 1 else np.int64(-1)
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
    if kind & 1 and one.low[j] >= given and one.low[j] == sets.used[0] - 1:
        down = begin - sets.start[one.low[j]]
        for i in range(begin, end):
            lows[i - down], highs[i - down] = lows[i], highs[i]
        sets.used[0], sets.used[1], end = sets.used[0] - 1, begin - down, end - down
    _store(one, j, RANGE, sets, end)
    return True


@inlined
def _are_equal(items: ItemArrays, j: int, k: int, sets: SetBuffer) -> bool:  # pragma: no cover
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
    items: ItemArrays, begin: np.ndarray, size: np.ndarray, earlier: int, later: int, sets: SetBuffer, given: int
) -> int:  # pragma: no cover
    """Unite two conjunctions if they differ in one set of values at most: the later has no items then.

    Returns 1 if they are one now, else 0; -1 if there is no place for a set.
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
    if unlike == 1 and not _join(items, j, items, k, True, sets, given):
        return -1
    size[later] = 0
    return 1


@inlined
def _unite(
    items: ItemArrays, begin: np.ndarray, size: np.ndarray, keys: np.ndarray, n: int, sets: SetBuffer, given: int
) -> bool:  # pragma: no cover
    """Unite conjunctions that differ in one set of values; False if there is no place for a set.

    First neighbours are united, then every second of what is left, and so on: a long OR of values of one attribute
    costs little more than its length. `keys` is space for a number of each conjunction, equal where all attributes are,
    and all tests that cannot be united.
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


class Combined(NamedTuple):
    """What `combine` writes: row, flags and counts of conjunctions, their items, and rows that are always true."""

    row: np.ndarray
    flags: np.ndarray
    counts: np.ndarray
    items: ItemArrays
    always: np.ndarray


@kernel
def combine(
    rows: np.ndarray, counts: np.ndarray, uses: np.ndarray, start: np.ndarray, given: ItemArrays, sets: SetBuffer,
    attributes: int, most: int, out: Combined,
) -> tuple[int, int, int]:  # fmt: skip  # pragma: no cover
    """Combine the items of the uses of each conjunction; drop conjunctions that nothing satisfies.

    Conjunctions of one row, at most `most`, are neighbours. Returns how many conjunctions, items and always true rows
    there are; -1 for all if there is no place for the sets.
    """
    items = out.items
    seen, at = np.zeros(attributes, np.int64), np.zeros(attributes, np.int64)
    begin, size, flags = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.uint8)
    keys = np.empty(most, np.int64)
    given_sets = sets.used[0]
    made = made_items = made_always = 0
    i = u = 0
    while i < rows.size:
        row = rows[i]
        n = 0
        end = made_items
        is_always = is_unsure = False
        while i < rows.size and rows[i] == row:
            begin[n], flags[n] = end, 0
            good = True
            for use in uses[u : u + counts[i]]:
                for k in range(start[use], start[use + 1]):
                    kind, a = given.kind[k], given.attr[k]
                    if kind >= UNSURE:
                        good &= kind == UNSURE
                        flags[n] = VERIFY
                        is_unsure = True
                    elif kind <= SET and seen[a] == i + 1:
                        if good and not _join(items, at[a], given, k, False, sets, given_sets):
                            return -1, -1, -1
                        good &= items.kind[at[a]] != IMPOSSIBLE
                    else:
                        items.attr[end], items.kind[end] = a, kind
                        items.low[end], items.high[end] = given.low[k], given.high[k]
                        if kind <= SET:
                            seen[a], at[a] = i + 1, end
                        end += 1
            u += counts[i]
            i += 1
            if good:
                size[n] = end - begin[n]
                is_always |= size[n] == 0 and flags[n] == 0
                n += 1
            else:
                end = begin[n]
        if is_always:
            out.always[made_always] = row
            made_always += 1
            continue
        if n > 1 and not is_unsure and not _unite(items, begin, size, keys, n, sets, given_sets):
            return -1, -1, -1
        left = 0
        for c in range(n):
            left += size[c] > 0
        for c in range(n):
            if size[c] == 0:
                continue
            for k in range(begin[c], begin[c] + size[c]):
                items.attr[made_items], items.kind[made_items] = items.attr[k], items.kind[k] & 3
                items.low[made_items], items.high[made_items] = items.low[k], items.high[k]
                made_items += 1
            out.row[made], out.flags[made], out.counts[made] = row, flags[c] | (SHARED if left > 1 else 0), size[c]
            made += 1
    return made, made_items, made_always
