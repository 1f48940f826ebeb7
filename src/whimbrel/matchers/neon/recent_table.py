"""The table of predicates as it can change: for the conjunctions that came since the arrays were built."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from whimbrel.matchers.shared.conjunction_rows import needed_sets
from whimbrel.model.conjunction import Conjunction, holds
from whimbrel.model.event import Event
from whimbrel.model.expression import CompareAttributes
from whimbrel.model.intervals import IntervalSet, edge
from whimbrel.model.values import SortKey


class TableOperation(NamedTuple):
    """An attribute and a comparison, with a constant or with a second attribute, `other`."""

    attribute: str
    comparison: str
    other: str | None = None


Operand = IntervalSet | CompareAttributes
"""The values that satisfy a predicate, or the comparison of two attributes that it is."""
Rows = dict[TableOperation, dict[tuple[int, Operand], None]]


@dataclass
class RecentTable:
    """The rows of each operation, for each event type and for conjunctions that name no type (None)."""

    _event_type: str
    _rows: dict[SortKey | None, Rows] = field(default_factory=dict)
    _needed: dict[int, int] = field(default_factory=dict)

    def insert(self, number: int, conjunction: Conjunction) -> None:
        """Add the rows of a conjunction. O(its predicates)."""
        own, predicates = self._predicates(conjunction)
        rows = self._rows.setdefault(own, {})
        for operation, operand in predicates:
            rows.setdefault(operation, {})[number, operand] = None
        self._needed[number] = len(predicates)

    def delete(self, number: int, conjunction: Conjunction) -> None:
        """Remove the rows of a conjunction."""
        own, predicates = self._predicates(conjunction)
        rows = self._rows[own]
        for operation, operand in predicates:
            del rows[operation][number, operand]
            if not rows[operation]:
                del rows[operation]
        if not rows:
            del self._rows[own]
        del self._needed[number]

    def search(self, event: Event, work: Counter[str]) -> list[int]:
        """Evaluate every row of the event's type and attributes, and compare the counts that were reached."""
        counts: Counter[int] = Counter()
        for own in (None, *event.non_null_keys(self._event_type)):
            for operation, rows in self._rows.get(own, {}).items():
                left = event.non_null_keys(operation.attribute)
                right = left if operation.other is None else event.non_null_keys(operation.other)
                if left and right:
                    work["operations_used"] += 1
                    work["predicate_evaluations"] += len(rows)
                    counts.update(number for number, operand in rows if _is_satisfied(operand, left[0], right[0]))
        work["additions"] += counts.total()
        work["comparisons"] += len(counts)
        return [number for number, count in counts.items() if count == self._needed[number]]

    def _predicates(self, conjunction: Conjunction) -> tuple[SortKey | None, list[tuple[TableOperation, Operand]]]:
        """The event type of a conjunction, and its predicates: the type is one only if there is no other."""
        found = list(_predicates(conjunction))
        for place, (operation, operand) in enumerate(found):
            if operation == (self._event_type, "=", None) and isinstance(operand, IntervalSet):
                return operand.single(), found[:place] + found[place + 1 :] or found
        return None, found


def _is_satisfied(operand: Operand, left: SortKey, right: SortKey) -> bool:
    return left in operand if isinstance(operand, IntervalSet) else holds(operand.op, left, right)


def _predicates(conjunction: Conjunction) -> Iterator[tuple[TableOperation, Operand]]:
    """The predicates of a conjunction, each with its operation."""
    for name, constraint in conjunction.constraints:
        for values in needed_sets(constraint):
            others = values.complement().as_points()
            if values.as_points() is not None:
                yield TableOperation(name, "="), values
            elif others is not None:
                for key in others:
                    yield TableOperation(name, "!="), IntervalSet.points([key]).complement()
            else:
                low, high = values.cuts
                first, last = edge(low[0]), edge(low[0] + 1)
                if high != last:
                    yield TableOperation(name, "<=" if high[3] else "<"), IntervalSet((first, high))
                if low != first or high == last:
                    yield TableOperation(name, ">" if low[3] else ">="), IntervalSet((low, last))
    for link in conjunction.links:
        yield TableOperation(link.left, link.op, link.right), link
