"""Elementary tests of the general matching tree, their results, and when one result implies another.

Gryphon, section 3. `examine(a)` gives the value of a. `lt(a, c)` and `le(a, c)`
ask whether a lies below a cut: just before c, or just after it. Where the test says nothing, because a is missing or
of another type, its result is ABSENT, which is no edge's label.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from whimbrel.model.conjunction import Conjunction
from whimbrel.model.constraint import Constraint
from whimbrel.model.intervals import Cut, after, before, edge
from whimbrel.model.values import TYPE_NAMES, SortKey, from_key

Result = SortKey | bool | None
"""A value that was examined, whether it lies below the cut, or ABSENT."""

Interval = tuple[Cut, Cut]
Predicates = dict["TreeTest", Result]
"""test -> result, in the order of the tests."""

ABSENT = None


class TreeTest(NamedTuple):
    """A function of the event. The cut of `examine` is empty; other tests know the values of one type (`kind`)."""

    attribute: str
    kind: int = 0
    cut: Cut | tuple[()] = ()

    def result(self, key: SortKey) -> Result:
        """The result on the attribute's value."""
        if not self.cut:
            return key
        if key[0] != self.kind:
            return ABSENT
        return (key[0], 1, key[1], 0) < self.cut

    def interval(self, result: Result) -> Interval:
        """The values on which the test has this result."""
        if not self.cut:
            assert isinstance(result, tuple)
            return before(result), after(result)
        return (edge(self.kind), self.cut) if result else (self.cut, edge(self.kind + 1))

    def implied(self, interval: Interval) -> Result:
        """The result that the test must have on every value of the interval, or ABSENT."""
        if self.cut and edge(self.kind) <= interval[0] and interval[1] <= edge(self.kind + 1):
            if interval[1] <= self.cut:
                return True
            if self.cut <= interval[0]:
                return False
        return ABSENT

    def __str__(self) -> str:
        if not self.cut:
            return f"examine({self.attribute})"
        kind, inside, value, above = self.cut
        if not inside or value is None:
            return f"lt({self.attribute}, end of {TYPE_NAMES[kind - 1]})"
        return f"{'le' if above else 'lt'}({self.attribute}, {from_key((kind, value))!r})"


def interval_of(constraint: Constraint) -> Interval:
    """The values that an equality or a range admits."""
    low, high = constraint.values.cuts
    return low, high


def predicates_of(conjunction: Conjunction, places: Mapping[str, int]) -> Predicates:
    """The conjunction as elementary predicates, attributes in the order of their places.

    >>> from whimbrel.model.filter import Filter
    >>> (conjunction,) = Filter.parse("a > 5 AND a <= 9 AND b = 1").conjunctions
    >>> {str(test): result for test, result in predicates_of(conjunction, {"b": 0, "a": 1}).items()}
    {'examine(b)': (1, 1), 'le(a, 5)': False, 'le(a, 9)': True}
    """
    out: Predicates = {}
    for name, constraint in sorted(conjunction.constraints, key=lambda item: places[item[0]]):
        points = constraint.values.as_points()
        if points is not None:
            out[TreeTest(name)] = points[0]
            continue
        low, high = interval_of(constraint)
        kind = low[0]
        if low != edge(kind):
            out[TreeTest(name, kind, low)] = False
        if high != edge(kind + 1) or low == edge(kind):  # a whole type: below its end
            out[TreeTest(name, kind, high)] = True
    return out
