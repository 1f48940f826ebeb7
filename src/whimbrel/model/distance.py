"""How far an event's values lie outside a constraint: in the unit of the numbers, for timestamps in seconds."""

from __future__ import annotations

import math
from collections.abc import Collection

from whimbrel.model.constraint import Constraint
from whimbrel.model.expression import Comparison
from whimbrel.model.values import NUMBER, TIMESTAMP, SortKey

_NANOSECONDS = 1_000_000_000


def constraint_distance(constraint: Constraint, keys: Collection[SortKey]) -> float | None:
    """The least distance between a value and an end of an interval of its type.

    None if there is no such pair, or if some value is inside, so that something else failed.
    """
    if any(constraint.admits_value(key) for key in keys):
        return None
    distances = [
        _gap(rank, value, bound)
        for rank, value in keys
        if rank in (NUMBER, TIMESTAMP)
        for cut in constraint.values.cuts
        if cut[0] == rank and (bound := cut[2]) is not None
    ]
    return min(distances, default=None)


def link_distance(op: Comparison, left: Collection[SortKey], right: Collection[SortKey]) -> float | None:
    """The least distance between two values of one type that a comparison of two attributes failed on."""
    if op == "!=":
        return None
    distances = [
        _gap(rank, value, other)
        for rank, value in left
        if rank in (NUMBER, TIMESTAMP)
        for other_rank, other in right
        if other_rank == rank
    ]
    return min(distances, default=None)


def json_number(number: float) -> float | str:
    """The number, or its name where JSON has none for it."""
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return number


def _gap(rank: int, one: object, two: object) -> float:
    assert isinstance(one, int | float) and isinstance(two, int | float)
    if one == two:
        return 0.0
    try:
        gap = float(abs(one - two))
    except OverflowError:  # integers of many digits
        return math.inf
    return gap / _NANOSECONDS if rank == TIMESTAMP else gap
