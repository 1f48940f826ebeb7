"""The cost expressions of Le Subscribe's three algorithms: the work that an event takes, from the definitions alone.

Fabret et al., section 3 (docs/papers.md, sections 11, 13 and 14). An event costs the searches for satisfied predicates,
one by hash and one for each ordered operator of each of its attributes; an addition for each satisfied predicate of
each subscription that is counted; and a comparison for each count that is looked at. Which subscriptions are counted
is what the three differ in. The counters of the matchers must show these numbers.

Constraints are those of the paper's language, an equality or an interval on each attribute, which has one value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from whimbrel.matchers.shared.capabilities import shape_of
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter
from whimbrel.model.intervals import IntervalSet, edge


@dataclass(frozen=True, slots=True)
class CountingCost:
    """The work of one event: searches and probes, additions, candidates that were looked up, comparisons of counts."""

    probes: int
    additions: int
    candidates: int
    comparisons: int


@dataclass(frozen=True, slots=True)
class ElementaryPredicate:
    """One comparison of one attribute with a constant: the set of values that satisfy it."""

    attribute: str
    operator: str
    values: IntervalSet

    def holds(self, event: Event) -> bool:
        """Whether the event's value satisfies it."""
        return any(key in self.values for key in event.keys(self.attribute))


def elementary(conjunction: Conjunction) -> list[ElementaryPredicate]:
    """The comparisons of a conjunction; ValueError outside of the paper's language.

    >>> [one.operator for one in elementary(Filter.parse("a = 1 AND b > 2 AND b <= 5").conjunctions[0])]
    ['=', '>', '<=']
    """
    found: list[ElementaryPredicate] = []
    if conjunction.links:
        raise ValueError("Expected equalities and intervals, but got a comparison of two attributes")
    for name, constraint in conjunction.constraints:
        shape = shape_of(constraint) if constraint.is_plain else "no set of values"
        if shape not in ("equality", "ranges"):
            raise ValueError(f"Expected equalities and intervals, but got {shape} on {name!r}")
        if shape == "equality":
            found.append(ElementaryPredicate(name, "=", constraint.values))
            continue
        low, high = constraint.values.cuts
        kind = low[0]
        if low[1]:  # there is a lower bound; the last part of a cut says whether it lies behind its value
            found.append(ElementaryPredicate(name, ">" if low[3] else ">=", IntervalSet((low, edge(kind + 1)))))
        if high[1] or not low[1]:
            found.append(ElementaryPredicate(name, "<=" if high[3] else "<", IntervalSet((edge(kind), high))))
    return found


def counting_costs(filters: Iterable[Filter], event: Mapping[str, object]) -> dict[str, CountingCost]:
    """The cost of one event by the name of the matcher. Equal conjunctions count once. O(all predicates)."""
    read = Event.of(event)
    rows = [elementary(conjunction) for conjunction in {c for one in filters for c in one.conjunctions}]
    fair = free = looked_up = candidates = 0  # additions of all, of rows without an equality, of the others
    shapes: set[frozenset[str]] = set()
    for row in rows:
        equal = [one for one in row if one.operator == "="]
        other = sum(one.holds(read) for one in row if one.operator != "=")
        held = sum(one.holds(read) for one in equal)
        fair += held + other
        if equal:
            looked_up += other
            candidates += held == len(equal)
            shapes.add(frozenset(one.attribute for one in equal))
        else:
            free += other
    present = {name for row in rows for name in (one.attribute for one in row) if read.keys(name)}
    probes = sum(shape <= present for shape in shapes)
    unequal = [[one for one in row if one.operator != "="] for row in rows]
    quarantined = [row for row in rows if all(one.operator != "=" for one in row)]
    return {
        "fair_predicate": CountingCost(_searches(rows, present), fair, 0, fair),
        "equality_preferred": CountingCost(
            probes + _searches(unequal, present), looked_up + free, candidates, free + candidates
        ),
        "quarantine": CountingCost(probes + _searches(quarantined, present), free, candidates, free),
    }


def _searches(rows: list[list[ElementaryPredicate]], present: set[str]) -> int:
    """One hash look-up for each attribute of the event, and a binary search for each ordered cluster that it has.

    The ends of intervals with two are clusters of their own.
    """
    clusters: set[tuple[str, str]] = set()
    for row in rows:
        for one in row:
            both = sum(other.attribute == one.attribute for other in row) > 1
            end = "from" if one.operator in (">", ">=") else "to"
            clusters.add((one.attribute, end if both else one.operator))
    return len(present) + sum(name in present and operator != "=" for name, operator in clusters)
