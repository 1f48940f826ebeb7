"""Paths: what a routing tree can say of a filter.

A path is a list of (attribute, constraint), sorted by attribute. An event that matches the filter satisfies one of
its paths: for every attribute on it, some value of the event is in the constraint. The other direction need not hold.
Constraints of a path are sets of values, which a tree can split, or have suffixes and substrings, which it cannot.
Everything else is widened to such a constraint or left out, and is checked where the event is delivered.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TypeAlias

from whimbrel.model.constraint import NULL_KEY, Constraint
from whimbrel.model.filter import Filter
from whimbrel.model.intervals import ALL, IntervalSet
from whimbrel.model.patterns import Substring, Suffix

Path: TypeAlias = tuple[tuple[str, Constraint], ...]

PATHS = 64
"""Paths of one filter, at most: one with more is widened to the empty path, which every event satisfies."""
INTERVALS = 64
"""Intervals of one constraint of a path, at most: one with more is widened to the interval around all of them."""
KEY_BYTES = 16


class Interest:
    """A filter as brokers know it: `key` is the hash of its tenant and canonical text, `paths` is its place in a tree.

    Equal filters have equal keys in every process. Making one takes some 100 us.
    """

    __slots__ = ("filter", "key", "paths", "tenant", "text")

    def __init__(self, filter: Filter, tenant: str = "") -> None:
        self.filter = filter
        self.tenant = tenant
        self.text = str(filter)
        self.key = interest_key(tenant, self.text)
        self.paths = paths_of(filter)

    def __repr__(self) -> str:
        return f"Interest({self.text!r})"


def interest_key(tenant: str, text: str) -> bytes:
    """The key of a filter with this canonical text."""
    return blake2b(f"{len(tenant)}:{tenant}{text}".encode(), digest_size=KEY_BYTES).digest()


def paths_of(filter: Filter) -> tuple[Path, ...]:
    """The paths of a filter, one for each conjunction; () if nothing satisfies it.

    >>> [[name for name, _ in path] for path in paths_of(Filter.parse("y < 3 AND x > 5 OR z = w"))]
    [['w', 'z'], ['x', 'y']]
    """
    if filter.schema is not None:  # its values are codes, which events do not have
        return ((),)
    paths: dict[Path, None] = {}
    for conjunction in filter.conjunctions:
        constraints = {name: Constraint() for link in conjunction.links for name in (link.left, link.right)}
        for name, constraint in conjunction.constraints:
            wider = widened(constraint)
            if wider is not None:
                constraints[name] = wider
        paths[tuple(sorted(constraints.items(), key=lambda item: item[0]))] = None
    return tuple(paths) if len(paths) <= PATHS and () not in paths else ((),)


def widened(constraint: Constraint) -> Constraint | None:
    """A constraint for a path that holds where this one does; None if it may hold without any value."""
    if constraint.missing or constraint.null:
        return None
    values = constraint.values
    if values == ALL and constraint.required:  # one of the members is there
        groups = [sorted(group) for group in constraint.required if NULL_KEY not in group]
        if groups:
            values = IntervalSet.points(min((len(group), group) for group in groups)[1])
    if len(values.cuts) > 2 * INTERVALS:
        values = IntervalSet((values.cuts[0], values.cuts[-1]))
    include = tuple(pattern for pattern in constraint.include if isinstance(pattern, Suffix | Substring))
    return Constraint(values=values, include=include)
