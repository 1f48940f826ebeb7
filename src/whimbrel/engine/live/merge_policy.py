"""Which segments to merge: pure functions from sizes to the segments that should become one.

Segments are merged when enough of them are of like size, so that a subscription is rewritten only a few times while an
index grows: a tier holds sizes up to four times its smallest, and `fanout` segments of one tier become one. A segment
that is mostly dead is rewritten without its dead.
"""

from __future__ import annotations

from collections.abc import Sequence


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
