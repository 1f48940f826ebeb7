"""Why a filter matches an event or not, constraint by constraint, and which subscriptions almost match.

Each constraint of the normal form is judged alone on the values that the event has. Where all of them hold and the
conjunction does not, comparisons of two attributes or arrays of objects couple them, and the explanation says so.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whimbrel.model import dialects
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.distance import constraint_distance, json_number, link_distance
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter
from whimbrel.model.subscription import Id, Subscription
from whimbrel.model.values import Timestamp, Value

if TYPE_CHECKING:
    from whimbrel.model.event_schema import EventSchema

Seen = tuple[Value | None, ...]

_SHOWN = 8
_WIDTH = 200
_COUPLED = "each holds alone, but no one choice of values makes all hold together"


@dataclass(frozen=True, slots=True)
class ConstraintExplanation:
    """One constraint: its canonical text, whether it held, and the values `seen` (empty: the attribute is missing).

    `distance` is how far the nearest number, or timestamp in seconds, lies outside; None where it held or where
    there is none. A comparison of two attributes has the second one and its values in `other` and `other_seen`.
    """

    attribute: str
    text: str
    held: bool
    seen: Seen
    distance: float | None = None
    other: str | None = None
    other_seen: Seen = ()

    def to_dict(self) -> dict[str, object]:
        """The explanation as JSON-ready data."""
        out: dict[str, object] = {
            "attribute": self.attribute,
            "constraint": self.text,
            "held": self.held,
            "seen": [_json_value(value) for value in self.seen],
            "distance": None if self.distance is None else json_number(self.distance),
        }
        if self.other is not None:
            out |= {"other": self.other, "other_seen": [_json_value(value) for value in self.other_seen]}
        return out

    def __str__(self) -> str:
        values = f"{dialects.printer().print_name(self.attribute)}: {_seen_text(self.seen)}"
        if self.other is not None:
            values += f"; {dialects.printer().print_name(self.other)}: {_seen_text(self.other_seen)}"
        away = "" if self.distance is None else f", off by {self.distance:g}"
        return f"{'+' if self.held else '-'} {_short(self.text)}  [{values}{away}]"


@dataclass(frozen=True, slots=True)
class ConjunctionExplanation:
    """One way for the filter to hold: whether it does, and each of its constraints."""

    matched: bool
    constraints: tuple[ConstraintExplanation, ...]

    @property
    def coupled(self) -> bool:
        """Whether every constraint holds alone and yet they do not hold together."""
        return not self.matched and all(constraint.held for constraint in self.constraints)

    @property
    def failed(self) -> int:
        """How many constraints do not hold; 1 where they only do not hold together."""
        return sum(not constraint.held for constraint in self.constraints) or int(self.coupled)

    def to_dict(self) -> dict[str, object]:
        """The explanation as JSON-ready data."""
        constraints = [constraint.to_dict() for constraint in self.constraints]
        return {"matched": self.matched, "coupled": self.coupled, "constraints": constraints}

    def __str__(self) -> str:
        lines = [str(constraint) for constraint in self.constraints] or ["+ TRUE"]
        if self.coupled:
            lines.append(f"- together  [{_COUPLED}]")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a filter matched or not: it does if one of its conjunctions does; without any it is unsatisfiable."""

    matched: bool
    conjunctions: tuple[ConjunctionExplanation, ...]

    def to_dict(self) -> dict[str, object]:
        """The explanation as JSON-ready data."""
        return {"matched": self.matched, "conjunctions": [c.to_dict() for c in self.conjunctions]}

    def __str__(self) -> str:
        verdict = "match" if self.matched else "no match"
        if not self.conjunctions:
            return f"{verdict}: the filter is unsatisfiable"
        if len(self.conjunctions) == 1:
            return "\n".join([verdict, _indented(str(self.conjunctions[0]))])
        lines = [
            f"{verdict}: {sum(c.matched for c in self.conjunctions)} of {len(self.conjunctions)} alternatives hold"
        ]
        for number, conjunction in enumerate(self.conjunctions, 1):
            lines += [f"  {'+' if conjunction.matched else '-'} alternative {number}", _indented(str(conjunction), 4)]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A subscription that does not match: its id, how many constraints `failed`, and its best conjunction."""

    id: Id
    failed: int
    explanation: ConjunctionExplanation

    def to_dict(self) -> dict[str, object]:
        """The near miss as JSON-ready data."""
        return {"subscription": self.id, "failed": self.failed, **self.explanation.to_dict()}

    def __str__(self) -> str:
        return f"{self.id}: {self.failed} failed\n{_indented(str(self.explanation))}"


def explain(filter: Filter, event: Event) -> Explanation:
    """Each constraint of each conjunction, held or not, with the values that the event has.

    >>> print(explain(Filter.parse("category = 'Toy' AND price < 5"), Event({"category": "Toy", "price": 7})))
    no match
      + category = 'Toy'  [category: 'Toy']
      - price < 5  [price: 7, off by 2]
    """
    conjunctions = tuple(_explain_conjunction(c, event, filter.schema) for c in filter.conjunctions)
    return Explanation(any(conjunction.matched for conjunction in conjunctions), conjunctions)


def near_misses(subscriptions: Iterable[Subscription], event: Event, limit: int = 10) -> list[NearMiss]:
    """The subscriptions that almost match: fewest failed constraints first, then in the order given.

    Checks every subscription, with constraints counted only while it can still be among the best.
    """
    best: list[tuple[int, int, Subscription, Conjunction]] = []  # a heap whose first entry is the worst that is kept
    for place, subscription in enumerate(subscriptions):
        if limit < 1:
            break
        worst = -best[0][0] if len(best) == limit else None
        found = nearest_conjunction(subscription.filter, event, worst)
        if found is None:
            continue
        entry = (-found[0], -place, subscription, found[1])
        if worst is None:
            heapq.heappush(best, entry)
        else:
            heapq.heapreplace(best, entry)
    ranked = sorted(best, key=lambda entry: entry[:2], reverse=True)
    return [NearMiss(s.id, -failed, _explain_conjunction(c, event, s.filter.schema)) for failed, _, s, c in ranked]


def nearest_conjunction(filter: Filter, event: Event, below: int | None) -> tuple[int, Conjunction] | None:
    """The conjunction with the fewest failures, if they are fewer than `below`; None if one matches."""
    best: tuple[int, Conjunction] | None = None
    for conjunction in filter.conjunctions:
        failed = _count_failed(conjunction, event, below)
        if failed == 0:
            if conjunction.matches(event):
                return None
            failed = 1
        if below is None or failed < below:
            best, below = (failed, conjunction), failed
    return best


def _count_failed(conjunction: Conjunction, event: Event, enough: int | None) -> int:
    failed = 0
    for name, constraint in conjunction.constraints:
        failed += not constraint.admits(event.keys(name))
        if failed == enough:
            return failed
    for link in conjunction.links:
        failed += not Conjunction((), (link,)).matches(event)
    return failed


def _explain_conjunction(conjunction: Conjunction, event: Event, schema: EventSchema | None) -> ConjunctionExplanation:
    explained = []
    for name, constraint in conjunction.constraints:
        alone = Conjunction(((name, constraint),))
        keys = event.keys(name)
        held = constraint.admits(keys)
        coded = schema is not None and schema.order_of(name) is not None
        distance = None if held or coded else constraint_distance(constraint, keys)
        text = dialects.printer().print_conjunction(alone, schema)
        explained.append(ConstraintExplanation(name, text, held, event.values(name), distance))
    for link in conjunction.links:
        alone = Conjunction((), (link,))
        held = alone.matches(event)
        coded = schema is not None and schema.order_of(link.left) is not None
        distance = None if held or coded else link_distance(link.op, event.keys(link.left), event.keys(link.right))
        left, right = event.values(link.left), event.values(link.right)
        text = dialects.printer().print_conjunction(alone)
        explained.append(ConstraintExplanation(link.left, text, held, left, distance, link.right, right))
    return ConjunctionExplanation(conjunction.matches(event), tuple(explained))


def _seen_text(seen: Seen) -> str:
    if not seen:
        return "missing"
    shown = ", ".join(_short(dialects.printer().print_value(value)) for value in seen[:_SHOWN])
    return shown if len(seen) <= _SHOWN else f"{shown} and {len(seen) - _SHOWN:,} more"


def _short(text: str) -> str:
    """One line of text without control characters, which could move a terminal's cursor."""
    cut = text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


def _json_value(value: Value | None) -> object:
    if isinstance(value, Timestamp):
        return dialects.printer().print_value(value)[len("TIMESTAMP '") : -1]
    return json_number(value) if isinstance(value, float) else value


def _indented(text: str, width: int = 2) -> str:
    return "\n".join(" " * width + line for line in text.split("\n"))
