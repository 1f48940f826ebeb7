"""The elementary tests of the general matching tree, and what predicates imply about them.

Gryphon, section 3. A test is a function of the event with results that exclude each other. `examine(a)` gives the value
of a. `lt(a, c)` and `le(a, c)` ask whether a lies below a cut: just before c, or just after it. `lt(a, b)`, `le(a, b)`
and `eq(a, b)` compare two attributes. Where a test says nothing, because an attribute is missing or two values have no
order, its result is ABSENT.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from whimbrel.model.conjunction import Conjunction
from whimbrel.model.event import Event
from whimbrel.model.expression import Comparison
from whimbrel.model.intervals import Cut, IntervalSet, after, before, edge
from whimbrel.model.values import BOOLEAN, TYPE_NAMES, SortKey, from_key
from whimbrel.ranks.links import DIFFERENT, EQUAL, GREATER, HOLDS, LESS, SAME

Result = SortKey | bool | None
"""A value that was examined, whether a test holds, or ABSENT."""

Interval = tuple[Cut, Cut]

ABSENT = STAR = None
"""No test has the result that a don't-care edge, `*`, has as its label."""

Orders = frozenset[int]
"""Ways in which two values can compare: LESS, EQUAL, GREATER and, without an order, SAME and DIFFERENT."""


class TreeTest(NamedTuple):
    """A test of one attribute. The cut of `examine` is empty; other tests know the values of one type (`kind`)."""

    attribute: str
    kind: int = 0
    cut: Cut | tuple[()] = ()

    def read(self, event: Event) -> Result:
        """The result of the test on an event."""
        keys = event.keys(self.attribute)
        if not keys or not self.cut:
            return keys[0] if keys else ABSENT
        key = keys[0]
        return (key[0], 1, key[1], 0) < self.cut if key[0] == self.kind else ABSENT

    def interval(self, result: Result) -> Interval:
        """The values on which the test has this result."""
        if not self.cut:
            assert isinstance(result, tuple)
            return before(result), after(result)
        return (edge(self.kind), self.cut) if result else (self.cut, edge(self.kind + 1))

    def implied(self, facts: Facts) -> Result:
        """The result that the test must have where the facts hold, or ABSENT."""
        interval = facts.intervals.get(self.attribute)
        if interval is None:
            return ABSENT
        if not self.cut:
            return IntervalSet(interval).single()
        low, high = interval
        if edge(self.kind) <= low and high <= edge(self.kind + 1):
            if high <= self.cut:
                return True
            if self.cut <= low:
                return False
        return ABSENT

    def __str__(self) -> str:
        if not self.cut:
            return f"examine({self.attribute})"
        kind, inside, value, above = self.cut
        if not inside or value is None:
            return f"lt({self.attribute}, end of {TYPE_NAMES[kind - 1]})"
        return f"{'le' if above else 'lt'}({self.attribute}, {from_key((kind, value))!r})"


_TEST_OF: dict[Comparison, tuple[Literal["lt", "le", "eq"], bool]] = {
    "<": ("lt", True), ">=": ("lt", False), "<=": ("le", True), ">": ("le", False),
    "=": ("eq", True), "!=": ("eq", False),
}  # fmt: skip
_ORDERS = {test: frozenset(HOLDS[op]) for op, test in _TEST_OF.items()}
"""How two values compare where a test has a result."""


class PairTest(NamedTuple):
    """A test of two attributes."""

    attribute: str
    other: str
    comparison: Literal["lt", "le", "eq"]

    def read(self, event: Event) -> Result:
        """The result of the test on an event."""
        order = compared(event, self.attribute, self.other)
        return next((result for result in (True, False) if order in self.orders(result)), ABSENT)

    def orders(self, result: Result) -> Orders:
        """How two values compare where the test has this result."""
        return _ORDERS[self.comparison, bool(result)]

    def implied(self, facts: Facts) -> Result:
        """The result that the test must have where the facts hold, or ABSENT."""
        known = facts.orders.get((self.attribute, self.other))
        return next((result for result in (True, False) if known and known <= self.orders(result)), ABSENT)

    def __str__(self) -> str:
        return f"{self.comparison}({self.attribute}, {self.other})"


AnyTest = TreeTest | PairTest
Predicates = dict[AnyTest, Result]
"""test -> result, in the order of the tests."""


@dataclass(slots=True)
class Facts:
    """What predicates say together: the interval of each attribute, and how two attributes can compare."""

    intervals: dict[str, Interval] = field(default_factory=dict)
    orders: dict[tuple[str, str], Orders] = field(default_factory=dict)

    @staticmethod
    def of(conjunction: Conjunction) -> Facts:
        """The facts that follow from a conjunction."""
        ranges = {name: constraint.values.cuts for name, constraint in conjunction.constraints}
        facts = Facts({name: (low, high) for name, (low, high) in ranges.items()})
        for link in conjunction.links:
            test, result = _TEST_OF[link.op]
            facts.add(PairTest(link.left, link.right, test), result)
        return facts

    def add(self, test: AnyTest, result: Result) -> None:
        """Add what follows from one more predicate: the test has this result."""
        if isinstance(test, PairTest):
            pair, orders = (test.attribute, test.other), test.orders(result)
            self.orders[pair] = self.orders.get(pair, orders) & orders
            return
        low, high = test.interval(result)
        known = self.intervals.get(test.attribute, (low, high))
        self.intervals[test.attribute] = max(known[0], low), min(known[1], high)


def compared(event: Event, left: str, right: str) -> int | None:
    """How the values of two attributes compare in an event; None if one has none."""
    keys, others = event.keys(left), event.keys(right)
    if not keys or not others or keys[0][0] < 0 or others[0][0] < 0:
        return None
    one, two = keys[0], others[0]
    if one[0] != two[0] or one[0] == BOOLEAN:
        return SAME if one == two else DIFFERENT
    return EQUAL if one == two else LESS if one < two else GREATER


def predicates_of(conjunction: Conjunction, places: Mapping[str, int]) -> Predicates:
    """The conjunction as elementary predicates, attributes in the order of their places, pairs last.

    >>> from whimbrel.model.filter import Filter
    >>> (conjunction,) = Filter.parse("a > 5 AND a <= 9 AND b = 1 AND b < c").conjunctions
    >>> {str(test): result for test, result in predicates_of(conjunction, {"b": 0, "a": 1}).items()}
    {'examine(b)': (1, 1), 'le(a, 5)': False, 'le(a, 9)': True, 'lt(b, c)': True}
    """
    out: Predicates = {}
    for name, constraint in sorted(conjunction.constraints, key=lambda item: places[item[0]]):
        value = constraint.values.single()
        if value is not None:
            out[TreeTest(name)] = value
            continue
        low, high = constraint.values.cuts
        kind = low[0]
        if low != edge(kind):
            out[TreeTest(name, kind, low)] = False
        if high != edge(kind + 1) or low == edge(kind):  # a whole type: below its end
            out[TreeTest(name, kind, high)] = True
    for link in conjunction.links:
        test, result = _TEST_OF[link.op]
        out[PairTest(link.left, link.right, test)] = result
    return out
