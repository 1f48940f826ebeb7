"""The canonical form of a set of values within a domain, so that filters that mean the same there are equal.

Without a schema `x > 3 AND x < 4` holds for 3.5, and `x != 5` holds for text too. In a domain of integers or codes, a
set is its runs of consecutive whole numbers; in every domain, values of other types do not count.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TypeAlias

from whimbrel.model.intervals import ALL, EMPTY, Cut, IntervalSet, after, before, edge
from whimbrel.model.values import NUMBER, SortKey, canonical_number

Run: TypeAlias = tuple[int | None, int | None]
"""The whole numbers from the first to the last; None: no end."""

FEW = 64
"""Excluded points up to which a set is written as everything but them."""


def within_type(values: IntervalSet, rank: int) -> IntervalSet:
    """The canonical set of the values that have one type: all, points, all but points, or intervals."""
    block = IntervalSet((edge(rank), edge(rank + 1)))
    inside = values.intersect(block)
    if inside.as_points() is not None:
        return inside
    holes = block.minus(inside)
    if not holes:
        return ALL
    return holes.complement() if holes.as_points() is not None else inside


def within_integers(values: IntervalSet, low: int | None, high: int | None) -> IntervalSet:
    """The canonical set of the whole numbers from low to high that are in the set."""
    return set_of(runs_of(values, low, high), low, high)


def runs_of(values: IntervalSet, low: int | None, high: int | None) -> list[Run]:
    """The runs of whole numbers in the set, lowest first, none next to another."""
    runs: list[Run] = []
    bottom, top = edge(NUMBER), edge(NUMBER + 1)
    for start, end in values.pairs():
        if end <= bottom or start >= top:
            continue
        starts = (low, None if start <= bottom else _first_after(start))
        ends = (high, None if end >= top else _last_before(end))
        first = max((number for number in starts if number is not None), default=None)
        last = min((number for number in ends if number is not None), default=None)
        if first is not None and last is not None and first > last:
            continue
        if runs and first is not None and (before_it := runs[-1][1]) is not None and before_it + 1 >= first:
            runs[-1] = (runs[-1][0], last)
        else:
            runs.append((first, last))
    return runs


def set_of(runs: Sequence[Run], low: int | None, high: int | None) -> IntervalSet:
    """The set of some runs within a domain: a run that ends where the domain does is open there."""
    if not runs:
        return EMPTY
    if len(runs) == 1:
        first, last = runs[0]
        if (first, last) == (low, high):
            return ALL
        return _interval(first, last, low, high)
    holes = _holes(runs, low, high)
    if holes is not None:
        return IntervalSet.points(holes).complement()
    return EMPTY.union(*(_interval(first, last, low, high) for first, last in runs))


def _holes(runs: Sequence[Run], low: int | None, high: int | None) -> list[SortKey] | None:
    """The numbers between the runs, if they are few and fewer than the numbers in the runs; else None."""
    gaps: list[tuple[int, int]] = []
    first, last = runs[0][0], runs[-1][1]
    if first is not None and first != low:
        if low is None:
            return None
        gaps.append((low, first - 1))
    if last is not None and last != high:
        if high is None:
            return None
        gaps.append((last + 1, high))
    for (_, end), (start, _) in itertools.pairwise(runs):
        assert end is not None and start is not None
        gaps.append((end + 1, start - 1))
    count = sum(end - start + 1 for start, end in gaps)
    held = sum(math.inf if start is None or end is None else end - start + 1 for start, end in runs)
    if count > FEW or count >= held:
        return None
    return [_key(number) for start, end in gaps for number in range(start, end + 1)]


def _interval(first: int | None, last: int | None, low: int | None, high: int | None) -> IntervalSet:
    if first is not None and first == last:
        return IntervalSet.points([_key(first)])
    start = edge(NUMBER) if first is None or first == low else before(_key(first))
    end = edge(NUMBER + 1) if last is None or last == high else after(_key(last))
    return IntervalSet((start, end))


def _key(number: int) -> SortKey:
    return NUMBER, canonical_number(number)


def _first_after(cut: Cut) -> int | None:
    """The first whole number above a cut; None if all are."""
    value = cut[2]
    assert isinstance(value, int | float)
    if value == -math.inf:
        return None
    ceiling = math.ceil(value)
    return ceiling + 1 if cut[3] and ceiling == value else ceiling


def _last_before(cut: Cut) -> int | None:
    value = cut[2]
    assert isinstance(value, int | float)
    if value == math.inf:
        return None
    floor = math.floor(value)
    return floor if cut[3] or floor != value else floor - 1
