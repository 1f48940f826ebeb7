"""Whether one filter covers another, as routers ask it."""

from __future__ import annotations

from whimbrel.model.filter import Filter

_COMPARED = 4_096
"""Pairs of conjunctions, at most: filters with more count as not covering each other, which costs bandwidth only."""


def covers(one: Filter, two: Filter) -> bool:
    """`one.covers(two)`, with a quick look at the attributes first. A filter that matches nothing is not covered."""
    if not two.conjunctions or len(one.conjunctions) * len(two.conjunctions) > _COMPARED:
        return False
    theirs = two.conjunctions[0].attributes
    return any(mine.attributes <= theirs for mine in one.conjunctions) and one.covers(two)
