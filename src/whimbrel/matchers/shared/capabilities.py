"""Which constructs of filters and events a matcher supports, and the errors for all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

from whimbrel.model.conjunction import Conjunction
from whimbrel.model.constraint import NULL_KEY, Constraint
from whimbrel.model.errors import UnsupportedEvent
from whimbrel.model.event import Event
from whimbrel.model.intervals import ALL, edge


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Which constructs a matcher supports, in filters (all but the last two) and in events.

    A constraint that is one point is an equality, one interval a range; `exclusions` is all values but some points
    (`!=`, NOT IN), `unions` is several intervals or points (IN, OR on one attribute). `members` is CONTAINS with
    values, `nonmembers` its negation.
    """

    equality: bool = True
    ranges: bool = True
    exclusions: bool = True
    unions: bool = True
    patterns: bool = True
    members: bool = True
    nonmembers: bool = True
    states: bool = True
    links: bool = True
    lists: bool = True
    elements: bool = True

    def supports(self, conjunction: Conjunction) -> bool:
        """Whether every construct of the conjunction is supported."""
        return self.unsupported(conjunction) is None

    def unsupported(self, conjunction: Conjunction) -> str | None:
        """The first construct of the conjunction that is not supported, in words; None if all are."""
        return next((CONSTRUCTS[one] for one in constructs(conjunction) if not getattr(self, one)), None)

    def check_event(self, matcher: str, event: Event, mentioned: Callable[[str], bool]) -> None:
        """Raise `UnsupportedEvent` for a list or an array of objects, if not supported, on a mentioned attribute."""
        if self.lists and self.elements:
            return
        for name in filter(mentioned, event.attributes):
            if not self.lists and len(event.keys(name)) > 1:
                raise UnsupportedEvent(matcher, "several values of an attribute", name)
            if not self.elements and event.has_elements and any(o.elements for o in event.occurrences(name)):
                raise UnsupportedEvent(matcher, "arrays of objects", name)

    def summary(self) -> list[str]:
        """The names of the supported constructs."""
        return [field.name for field in fields(self) if getattr(self, field.name)]


PLAIN_SETS = Capabilities(patterns=False, nonmembers=False, states=False, links=False, elements=False)
"""What most of Le Subscribe's algorithms support: sets of values to pick from, CONTAINS, and lists in events."""

CONSTRUCTS = {
    "equality": "equality",
    "ranges": "ranges (< <= > >= BETWEEN and prefixes)",
    "exclusions": "exclusions (!= and NOT IN)",
    "unions": "unions of points or intervals (IN and OR on one attribute)",
    "patterns": "string patterns (LIKE, ENDS WITH, RLIKE, CIDR)",
    "members": "set tests (CONTAINS)",
    "nonmembers": "set tests for what is not there (NOT CONTAINS)",
    "states": "tests for null and missing",
    "links": "comparisons of two attributes",
    "lists": "lists in events",
    "elements": "arrays of objects in events",
}


def constructs(conjunction: Conjunction) -> Iterator[str]:
    """The constructs that a conjunction uses, by their field name in `Capabilities`."""
    for _, constraint in conjunction.constraints:
        yield from constraint_constructs(constraint)
    if conjunction.links:
        yield "links"


def constraint_constructs(constraint: Constraint) -> Iterator[str]:
    """The constructs that one constraint uses."""
    if constraint.include or constraint.exclude:
        yield "patterns"
    if constraint.required:
        yield "members"
    if constraint.forbidden:
        yield "nonmembers"
    if any(len(group) > 1 for group in constraint.required):
        yield "unions"
    tests_null = any(NULL_KEY in group for group in constraint.required)
    if constraint.missing or constraint.null or tests_null or not (constraint.bound or constraint.required):
        yield "states"
    if constraint.is_plain or (constraint.bound and constraint.required and constraint.values != ALL):
        yield shape_of(constraint)


def shape_of(constraint: Constraint) -> str:
    """equality, ranges, exclusions or unions: the shape of a plain constraint's set of values."""
    points = constraint.values.as_points()
    if points is not None:
        return "equality" if len(points) == 1 else "unions"
    cuts = constraint.values.cuts
    if len(cuts) == 2 and (cuts[0][0] == cuts[1][0] or cuts[1] == edge(cuts[0][0] + 1)):  # within one type
        return "ranges"
    return "exclusions" if constraint.values.complement().as_points() is not None else "unions"
