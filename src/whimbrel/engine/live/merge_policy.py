"""Decides which segments to merge: pure functions from sizes to the segments that should become one.

Segments of like size are merged when there are enough, so that a subscription is rewritten only a few times while an
index grows: a tier holds sizes up to four times its smallest, and `fanout` segments of one tier become one. A segment
that is mostly dead is rewritten without its dead rows. Whatever the sizes, segments are merged once searches have spent
as much time on their number as merging takes: an index that is searched much and changed little ends as one segment.
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
    """The segments with at least half of their subscriptions dead, by place in `sizes`.

    Added are segments with no more living subscriptions than the largest of these has: merging them costs little more.

    >>> mostly_dead([10, 10, 0], [5, 4, 0]), mostly_dead([10, 10, 4], [5, 4, 0])
    ([0], [0, 2])
    """
    alive = [size - gone for size, gone in zip(sizes, dead, strict=True)]
    highest = max((left for left, gone in zip(alive, dead, strict=True) if gone and gone >= left), default=-1)
    return [place for place, left in enumerate(alive) if sizes[place] and (left <= highest or dead[place] >= left)]


def deaths_to_count(sizes: Sequence[int], dead: Sequence[int], head: int) -> int:
    """How many more subscriptions must die before the dead ones of each segment are counted again.

    After so many deaths a segment worth rewriting, of at least two heads, may be mostly dead. Counting reads a number
    for each subscription, so at least one in 64 must die.

    >>> deaths_to_count([3_000, 8_000], [0, 3_900], head=1_024), deaths_to_count([3_000, 8_000], [0, 0], head=1_024)
    (171, 1500)
    """
    lacking = ((size + 1) // 2 - gone for size, gone in zip(sizes, dead, strict=True) if size >= 2 * head)
    return max(min(lacking, default=head), sum(sizes) // 64)


def paid_for(sizes: Sequence[int], spent: Sequence[int]) -> list[int]:
    """The smallest segments, as many as merge in the time that searches spent on all of them but the largest.

    `sizes` and `spent` are by place, as is the result. So merging at most doubles the time of searches. The cost of a
    small segment beside a large one does not pay for merging it with each new head, which has cost little yet.

    >>> paid_for([9_000, 1_000, 100], [0, 0, 14_000_000]), paid_for([9_000, 1_000, 100], [0, 28_000_000, 14_000_000])
    ([1, 2], [0, 1, 2])
    """
    order = sorted(range(len(sizes)), key=sizes.__getitem__)
    rows = paid = chosen = 0
    for count, place in enumerate(order, 1):
        rows += sizes[place]
        if count > 1 and merge_cost(rows) <= paid:
            chosen = count
        paid += spent[place]
    return sorted(order[:chosen])


def merge_cost(rows: int) -> int:
    """Nanoseconds that it takes to merge segments of so many subscriptions, about."""
    return MERGE_NS + ROW_NS * rows
