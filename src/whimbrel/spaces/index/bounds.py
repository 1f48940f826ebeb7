"""Binary searches in ordered lists. They search the zones first, which are few enough to stay in the cache."""

from __future__ import annotations

from whimbrel.compiled.array_types import Int64s
from whimbrel.compiled.jit import kernel
from whimbrel.spaces.index.region_arrays import CUT, FIRST_CUT, LOW, REACH, ZONE, OrderedList


@kernel
def lower_bound(table: Int64s, column: int, begin: int, end: int, cut: int) -> int:
    """The first row in a sorted range whose value in a column is not below `cut`."""
    length = end - begin
    while length > 0:
        half = length >> 1
        below = table[begin + half, column] < cut
        begin = begin + half + 1 if below else begin  # no branches: half of them would be predicted wrong
        length = length - half - 1 if below else half
    return begin


@kernel
def first_place(ends: OrderedList, d: int, cut: int) -> int:
    """The first entry of dimension d whose cut is not below `cut`."""
    begin, end = int(ends.start[0, d]), int(ends.start[0, d + 1])
    if begin == end:
        return begin
    first = ends.start[1, d]
    zone = lower_bound(ends.zones, FIRST_CUT, first, ends.start[1, d + 1], cut) - first
    if zone > 0:
        begin += (zone - 1) * ZONE
    return lower_bound(ends.entries, CUT, begin, min(begin + ZONE, end), cut)


@kernel
def crossed_upward(lows: OrderedList, d: int, old_high: int, new_low: int, new_high: int) -> tuple[int, int]:
    """The range of entries that a high end crosses when it moves up, rounded to zones.

    It holds all entries with old high <= low cut < new high whose high cut is above the new low end.
    """
    start, stop = lows.start[0, d], lows.start[0, d + 1]
    if old_high >= new_high or start == stop:
        return 0, 0
    first, last = lows.start[1, d], lows.start[1, d + 1]
    begin = max(lower_bound(lows.zones, FIRST_CUT, first, last, old_high) - 1, first)
    end = lower_bound(lows.zones, FIRST_CUT, begin, last, new_high)
    begin = lower_bound(lows.zones, REACH, begin, end, new_low + 1)
    return start + (begin - first) * ZONE, min(start + (end - first) * ZONE, stop)


@kernel
def crossed_downward(highs: OrderedList, d: int, old_low: int, new_low: int, new_high: int) -> tuple[int, int]:
    """The range of entries that a low end crosses when it moves down, rounded to zones.

    It holds all entries with new low < high cut <= old low whose low cut is below the new high end.
    """
    start, stop = highs.start[0, d], highs.start[0, d + 1]
    if new_low >= old_low or start == stop:
        return 0, 0
    first, last = highs.start[1, d], highs.start[1, d + 1]
    begin = max(lower_bound(highs.zones, FIRST_CUT, first, last, new_low + 1) - 1, first)
    end = lower_bound(highs.zones, FIRST_CUT, begin, last, old_low + 1)
    end = lower_bound(highs.zones, REACH, begin, end, new_high)
    return start + (begin - first) * ZONE, min(start + (end - first) * ZONE, stop)


@kernel
def between(entries: Int64s, begin: int, end: int, low: int, high: int) -> tuple[int, int]:
    """The entries with low <= cut < high within a range that was rounded to zones."""
    if end - begin <= 2 * ZONE:
        begin = lower_bound(entries, CUT, begin, end, low)
        return begin, lower_bound(entries, CUT, begin, end, high)
    return (
        lower_bound(entries, CUT, begin, begin + ZONE, low),
        lower_bound(entries, CUT, end - ZONE, end, high),
    )


@kernel
def disjoint_places(lows: OrderedList, highs: OrderedList, d: int, low: int, high: int) -> tuple[int, int]:
    """The entries disjoint from [low, high): low cuts from the first place on, and high cuts before the second."""
    above = first_place(lows, d, high)
    below = int(highs.start[0, d]) if low == LOW else first_place(highs, d, low + 1)
    return above, below


@kernel
def overlap_count(lows: OrderedList, highs: OrderedList, d: int, low: int, high: int) -> int:
    """The number of entries of dimension d that overlap an interval."""
    above, below = disjoint_places(lows, highs, d, low, high)
    return int((above - lows.start[0, d]) - (below - highs.start[0, d]))
