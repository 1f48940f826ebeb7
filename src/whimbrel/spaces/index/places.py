"""Where in an ordered list something begins: binary searches, by zones first."""

from __future__ import annotations

from whimbrel.compiled.jit import kernel
from whimbrel.spaces.layout import CUT, FIRST_CUT, LOW, REACH, ZONE, Ends, Int64s


@kernel
def lower_bound(table: Int64s, column: int, begin: int, end: int, cut: int) -> int:
    """The first row in a sorted range whose value in a column is not below `cut`."""
    length = end - begin
    while length > 0:
        half = length >> 1
        below = table[begin + half, column] < cut
        begin = begin + half + 1 if below else begin  # no branches: half of them would go wrong
        length = length - half - 1 if below else half
    return begin


@kernel
def first_place(ends: Ends, d: int, cut: int) -> int:
    """The first entry of dimension d whose cut is not below `cut`; zones are few enough to stay in the cache."""
    begin, end = int(ends.start[0, d]), int(ends.start[0, d + 1])
    if begin == end:
        return begin
    first = ends.start[1, d]
    zone = lower_bound(ends.zones, FIRST_CUT, first, ends.start[1, d + 1], cut) - first
    if zone > 0:
        begin += (zone - 1) * ZONE
    return lower_bound(ends.entries, CUT, begin, min(begin + ZONE, end), cut)


@kernel
def flips_up(lows: Ends, d: int, old_high: int, new_low: int, new_high: int) -> tuple[int, int]:
    """Zones that hold the entries with old high <= low < new high and high > new low, as places from and to."""
    start, stop = lows.start[0, d], lows.start[0, d + 1]
    if old_high >= new_high or start == stop:
        return 0, 0
    first, last = lows.start[1, d], lows.start[1, d + 1]
    begin = max(lower_bound(lows.zones, FIRST_CUT, first, last, old_high) - 1, first)
    end = lower_bound(lows.zones, FIRST_CUT, begin, last, new_high)
    begin = lower_bound(lows.zones, REACH, begin, end, new_low + 1)
    return start + (begin - first) * ZONE, min(start + (end - first) * ZONE, stop)


@kernel
def flips_down(highs: Ends, d: int, old_low: int, new_low: int, new_high: int) -> tuple[int, int]:
    """Zones that hold the entries with new low < high <= old low and low < new high, as places from and to."""
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
    """The entries with low <= cut < high, of which all those are in zones from `begin` to `end` that count."""
    if end - begin <= 2 * ZONE:
        begin = lower_bound(entries, CUT, begin, end, low)
        return begin, lower_bound(entries, CUT, begin, end, high)
    return (
        lower_bound(entries, CUT, begin, begin + ZONE, low),
        lower_bound(entries, CUT, end - ZONE, end, high),
    )


@kernel
def disjoint_places(lows: Ends, highs: Ends, d: int, low: int, high: int) -> tuple[int, int]:
    """Where the low cuts from `high` on begin, and where the high cuts up to `low` end."""
    above = first_place(lows, d, high)
    below = int(highs.start[0, d]) if low == LOW else first_place(highs, d, low + 1)
    return above, below


@kernel
def overlap_count(lows: Ends, highs: Ends, d: int, low: int, high: int) -> int:
    """How many entries of dimension d overlap an interval."""
    above, below = disjoint_places(lows, highs, d, low, high)
    return int((above - lows.start[0, d]) - (below - highs.start[0, d]))
