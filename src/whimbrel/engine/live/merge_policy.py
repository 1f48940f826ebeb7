"""Which segments to merge: pure functions from sizes to the segments that should become one.

Segments are merged when enough of them are of like size, so that a subscription is rewritten only a few times while an
index grows: a tier holds sizes up to four times its smallest, and `fanout` segments of one tier become one. A segment
that is mostly dead is rewritten without its dead. And whatever the sizes, segments are merged once searches have spent
as much on their number as merging them takes: an index that is searched much and changed little ends as one segment.
"""

from __future__ import annotations

from collections.abc import Sequence

MERGE_NS, ROW_NS = 10_000_000, 2_000
"""What a merge takes, about: by itself, and for each subscription."""


def like_sized(sizes: Sequence[int], head: int, fanout: int) -> list[int]:
    """The segments of the lowest tier that has at least `fanout` of them, by place in `sizes`; none if no tier has.

    `head` is the size of a full head: smaller segments are all in the lowest tier.

    >>> like_sized([9_000, 1_024, 1_024, 500, 1_024], head=1_024, fanout=4)
    [1, 2, 3, 4]
    """
    tiers: dict[int, list[int]] = {}
    for place, size in enumerate(sizes):
        tiers.setdefault((size // head).bit_length() // 2, []).append(place)
    return next((tiers[tier] for tier in sorted(tiers) if len(tiers[tier]) >= fanout), [])


def mostly_dead(sizes: Sequence[int], dead: Sequence[int]) -> list[int]:
    """The segments of which at least half the subscriptions are dead, by place in `sizes`.

    >>> mostly_dead([10, 10, 0], [5, 4, 0])
    [0]
    """
    return [place for place, size in enumerate(sizes) if size and 2 * dead[place] >= size]


def is_time_to_count(deaths: int, sizes: Sequence[int], head: int) -> bool:
    """Whether enough subscriptions died since the last count that some segment may be mostly dead.

    Counting reads the numbers of all subscriptions, so a third of them, and at least a head, must have died.

    >>> is_time_to_count(2_000, [3_000], head=1_024), is_time_to_count(2_000, [9_000], head=1_024)
    (True, False)
    """
    return deaths >= head and 3 * deaths >= sum(sizes)


def paid_for(sizes: Sequence[int], spent: int) -> list[int]:
    """The smallest segments, as many as can be merged in the time that was spent, by place in `sizes`; none if too few.

    Searches spend it on every segment but one, so that merging at most doubles what they would have spent at best.

    >>> paid_for([9_000, 1_000, 1_000], 20_000_000), paid_for([9_000, 1_000, 1_000], 40_000_000)
    ([1, 2], [0, 1, 2])
    """
    order = sorted(range(len(sizes)), key=sizes.__getitem__)
    rows = chosen = 0
    for count, place in enumerate(order, 1):
        rows += sizes[place]
        if merge_cost(rows) <= spent:
            chosen = count
    return sorted(order[:chosen]) if chosen > 1 else []


def merge_cost(rows: int) -> int:
    """Nanoseconds that it takes to merge segments of so many subscriptions, about."""
    return MERGE_NS + ROW_NS * rows
