"""The kernels that write the items of terms in ranks, and combine them to conjunctions.

In a conjunction an attribute has one set of values to pick from: the sets of several terms are intersected
(`item_sets`). Tests that look at all values, of members and of null or missing, stay separate items.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Bytes, Int32Matrix, Int32s, Int64Matrix, Int64s
from whimbrel.compiled.helpers import Integer
from whimbrel.compiled.jit import helper, inlined, kernel
from whimbrel.ranks.clauses.clauses import RANGE, SET, SHARED, VERIFY
from whimbrel.ranks.clauses.item_sets import IMPOSSIBLE, Item, ItemArrays, SetBuffer, join, stored, unite

SPAN, OUTSIDE, LISTED, EXCEPT, EVERY, FIXED, MARK = range(7)
"""What a descriptor produces: an interval; the rest of a type; a list; all but a list; an item for each member of a
list; all ranks from 0 or 1 on; a mark for the conjunction."""
BLOCK_END, CONSTANT = -1, -2
"""Instead of a pool: the edge of a type, or a rank."""
MEMBER, UNSURE = 4, 8
"""Kinds of items before they are combined. MEMBER is added if any value may be in the set, not only the picked one.
UNSURE is a mark: the filter must be verified. `IMPOSSIBLE` is a mark too."""


ATTR, KIND, LOW, HIGH = range(4)
"""The columns of items before they are combined: uses are written term by term, so an item is in one cache line."""


BEHIND = 13
"""The last number of a descriptor."""


class UseArrays(NamedTuple):
    """The places of the uses of all descriptors, and the lengths of the lists of those that have lists."""

    place: np.ndarray
    length: np.ndarray


class RankArrays(NamedTuple):
    """The ranks of all literals, where those of each pool begin, and the first rank of each attribute and type."""

    pooled: Int32s
    base: Int64s
    first: Int32Matrix


@helper
def _end(pool: int, at: int, step: int, a: int, ranks: RankArrays) -> tuple[Integer, Integer]:
    """Where the ranks of one end of a range begin in the pools, and what to add to each; or -1 and a constant rank."""
    if pool == BLOCK_END:
        return np.int64(-1), ranks.first[a, at] + step
    return (np.int64(-1), at + step) if pool == CONSTANT else (ranks.base[pool] + at, step)


@helper
def _sort(points: Int32s, n: int) -> None:
    """Shell sort of the first n points: most lists are short, and NumPy's sort takes seconds to compile."""
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
def _put(sets: SetBuffer, at: Integer, low: Integer, high: Integer) -> Integer:
    """Write an interval unless it is empty; return the next place."""
    sets.low[at], sets.high[at] = low, high
    return at + 1 if low <= high else at


@inlined
def _write_span(
    descriptor: Int64s,
    place: Int64s,
    start: Int64s,
    ranks: RankArrays,
    items: Int32Matrix,
    sets: SetBuffer,
) -> None:
    """Write the interval of a range, or all outside it, for every use of a descriptor."""
    what, a = descriptor[0], descriptor[1]
    low_from, low_more = _end(descriptor[5], descriptor[6], descriptor[7], a, ranks)
    high_from, high_more = _end(descriptor[8], descriptor[9], -descriptor[10], a, ranks)
    bottom, top = np.int64(ranks.first[a, descriptor[11]]), np.int64(ranks.first[a, descriptor[12]]) - 1
    for use in range(place.size):
        k = start[place[use]] + descriptor[BEHIND]
        low = low_more if low_from < 0 else ranks.pooled[low_from + use] + low_more
        high = high_more if high_from < 0 else ranks.pooled[high_from + use] + high_more
        items[k, ATTR] = a
        if what == SPAN or low > high:
            whole = what == OUTSIDE
            items[k, KIND] = RANGE if whole or low <= high else IMPOSSIBLE
            items[k, LOW], items[k, HIGH] = bottom if whole else low, top if whole else high
        else:
            end = _put(sets, sets.used[1], bottom, low - 1)
            items[k, KIND], items[k, LOW], items[k, HIGH] = stored(RANGE, sets, _put(sets, end, high + 1, top))


@inlined
def _write_list(
    descriptor: Int64s, uses: UseArrays, members: Int64Matrix, start: Int64s, ranks: RankArrays,
    items: Int32Matrix, sets: SetBuffer, points: Int32s,
) -> None:  # fmt: skip
    """Write the items of a list, or of all but a list, for every use of a descriptor; `points` is scratch."""
    what, a, kind, first, n = descriptor[0], descriptor[1], descriptor[5], descriptor[6], descriptor[7]
    is_ragged = descriptor[4] >= 0
    begin = np.int64(0)
    for use in range(descriptor[3]):
        k = start[uses.place[descriptor[2] + use]] + descriptor[BEHIND]
        if is_ragged:
            n = uses.length[descriptor[4] + use]
        for i in range(n):
            member = first if is_ragged else first + i
            pool, at = members[member, 0], members[member, 1] + (begin + i if is_ragged else use)
            points[i] = members[member, 1] if pool == CONSTANT else ranks.pooled[ranks.base[pool] + at]
        begin += n
        if what == EVERY:
            for i in range(n):
                items[k + i, ATTR], items[k + i, KIND] = a, kind
                items[k + i, LOW] = items[k + i, HIGH] = points[i]
            continue
        if what == LISTED and n == 1:  # an equality, as most are
            items[k, ATTR], items[k, KIND] = a, kind & ~1
            items[k, LOW] = items[k, HIGH] = points[0]
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
        items[k, ATTR] = a
        items[k, KIND], items[k, LOW], items[k, HIGH] = stored(kind, sets, end)


@kernel
def write_items(
    descriptors: Int64Matrix, uses: UseArrays, members: Int64Matrix, start: Int64s, ranks: RankArrays,
    items: Int32Matrix, sets: SetBuffer, longest: int,
) -> None:  # fmt: skip
    """Write the items of every use of a term from `start[use]` on, and the sets that they name.

    A descriptor has: what to do, the attribute, its first use and the number of uses, its first length or -1. For a
    range these follow: pool, place and step of the lower end and of the upper one, and its types; for a list, of at
    most `longest` members: kind, first member, number of members; else kind and lowest rank. At last, how many items
    other descriptors write for each of its uses before its own.
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
                k = start[use] + descriptor[BEHIND]
                items[k, ATTR], items[k, KIND], items[k, LOW] = a, descriptor[5], descriptor[6]
                items[k, HIGH] = ranks.first[a, 4] - 1
        else:
            _write_list(descriptor, uses, members, start, ranks, items, sets, points)


class Combined(NamedTuple):
    """The output of `combine`: row, flags and counts of conjunctions, their items, and rows that are always true."""

    row: Int64s
    flags: Bytes
    counts: Int64s
    items: ItemArrays
    always: Int64s


@kernel
def combine(
    rows: Int64s, counts: Int32s, uses: Int64s, start: Int64s, given: Int32Matrix, sets: SetBuffer,
    attributes: int, most: int, out: Combined,
) -> tuple[int, int, int]:  # fmt: skip
    """Combine the items of the uses of each conjunction; drop conjunctions that nothing satisfies.

    Conjunctions of one row, at most `most`, are adjacent. Returns the numbers of conjunctions, items and always true
    rows; -1 for all if there is no space for the sets.
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
            for v in range(u, u + counts[i]):
                for k in range(start[uses[v]], start[uses[v] + 1]):
                    kind, a = given[k, KIND], given[k, ATTR]
                    if kind >= UNSURE:
                        good &= kind == UNSURE
                        flags[n] = VERIFY
                        is_unsure = True
                    elif kind <= SET and seen[a] == i + 1:
                        item = Item(kind, given[k, LOW], given[k, HIGH])
                        if good and not join(items, at[a], item, False, sets, given_sets):
                            return -1, -1, -1
                        good &= items.kind[at[a]] != IMPOSSIBLE
                    else:
                        items.attr[end], items.kind[end] = a, kind
                        items.low[end], items.high[end] = given[k, LOW], given[k, HIGH]
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
        if n > 1 and not is_unsure and not unite(items, begin, size, keys, n, sets, given_sets):
            return -1, -1, -1
        left = 0
        for c in range(n):
            left += size[c] > 0
        for c in range(n):
            if size[c] == 0:
                continue
            if begin[c] == made_items:  # they stay where they are
                for k in range(made_items, made_items + size[c]):
                    items.kind[k] &= 3
                made_items += size[c]
            else:
                for k in range(begin[c], begin[c] + size[c]):
                    items.attr[made_items], items.kind[made_items] = items.attr[k], items.kind[k] & 3
                    items.low[made_items], items.high[made_items] = items.low[k], items.high[k]
                    made_items += 1
            out.row[made], out.flags[made], out.counts[made] = row, flags[c] | (SHARED if left > 1 else 0), size[c]
            made += 1
    return made, made_items, made_always
