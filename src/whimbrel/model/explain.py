"""Why a filter matches an event or not, constraint by constraint.

Each constraint of the normal form is checked alone on the values that the event has. Where all of them hold and the
conjunction does not, comparisons of two attributes or arrays of objects couple them, and the explanation says so.
Texts are in the canonical dialect of `model/dialects.py`.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from whimbrel.model import dialects
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.constraint import Constraint
from whimbrel.model.event import Event
from whimbrel.model.event_schema import EventSchema
from whimbrel.model.expression import Comparison
from whimbrel.model.filter import Filter
from whimbrel.model.intervals import Cut
from whimbrel.model.values import BOOLEAN, NUMBER, STRING, TIMESTAMP, TYPE_NAMES, SortKey, Timestamp, Value

Seen = tuple[Value | None, ...]

_SHOWN = 8
"""Values of an attribute that the text shows."""
_WIDTH = 200
"""Characters of a constraint or value that the text shows."""
_NANOSECONDS = 1_000_000_000
_INSTEAD = {
    (STRING, NUMBER): "; write the number without quotes",
    (STRING, BOOLEAN): "; write TRUE or FALSE without quotes",
    (STRING, TIMESTAMP): "; write TIMESTAMP '...'",
    (NUMBER, STRING): "; write the text in quotes",
    (BOOLEAN, STRING): "; write the text in quotes",
}
"""What to write, by the type that the filter wants and the one that the event has."""
_COUPLED = "each holds alone, but no one choice of values makes all hold together"


@dataclass(frozen=True, slots=True)
class ConstraintExplanation:
    """One constraint: its canonical text, whether it held, and the values `seen` (empty: the attribute is missing).

    `distance` says how far the nearest number, or timestamp in seconds, lies outside. It is None if the constraint held
    or the event has neither. A comparison of two attributes has the second one in `other` and its values in
    `other_seen`.
    """

    attribute: str
    text: str
    held: bool
    seen: Seen
    distance: float | None = None
    other: str | None = None
    other_seen: Seen = ()
    hint: str | None = None
    """What to write instead, if the event has values of another type than the constraint."""

    def to_dict(self) -> dict[str, object]:
        """The explanation as JSON-ready data."""
        out: dict[str, object] = {
            "attribute": self.attribute,
            "constraint": self.text,
            "held": self.held,
            "seen": [_json_value(value) for value in self.seen],
            "distance": _json_value(self.distance),
        }
        if self.other is not None:
            out |= {"other": self.other, "other_seen": [_json_value(value) for value in self.other_seen]}
        return out if self.hint is None else {**out, "hint": self.hint}

    def __str__(self) -> str:
        values = f"{dialects.printer().print_name(self.attribute)}: {_seen_text(self.seen)}"
        if self.other is not None:
            values += f"; {dialects.printer().print_name(self.other)}: {_seen_text(self.other_seen)}"
        away = "" if self.distance is None else f", off by {self.distance:g}"
        hint = "" if self.hint is None else f"; {self.hint}"
        return f"{'+' if self.held else '-'} {_short(self.text)}  [{values}{away}{hint}]"


@dataclass(frozen=True, slots=True)
class ConjunctionExplanation:
    """One conjunction of a filter: whether it holds, and each of its constraints."""

    matched: bool
    constraints: tuple[ConstraintExplanation, ...]

    @property
    def coupled(self) -> bool:
        """Whether every constraint holds alone and yet they do not hold together."""
        return not self.matched and all(constraint.held for constraint in self.constraints)

    @property
    def failed(self) -> int:
        """The number of constraints that do not hold; 1 if each holds alone but not all together."""
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
    """Why a filter matched or not: it matches if one of its conjunctions does; without any it is unsatisfiable.

    `hints` say what the writer of its text probably meant.
    """

    matched: bool
    conjunctions: tuple[ConjunctionExplanation, ...]
    hints: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """The explanation as JSON-ready data."""
        out: dict[str, object] = {"matched": self.matched, "conjunctions": [c.to_dict() for c in self.conjunctions]}
        return {**out, "hints": list(self.hints)} if self.hints else out

    def __str__(self) -> str:
        return "\n".join([*self._lines(), *(f"  {hint}" for hint in self.hints)])

    def _lines(self) -> list[str]:
        verdict = "match" if self.matched else "no match"
        if not self.conjunctions:
            return [f"{verdict}: the filter is unsatisfiable"]
        if len(self.conjunctions) == 1:
            return [verdict, indented(str(self.conjunctions[0]))]
        lines = [
            f"{verdict}: {sum(c.matched for c in self.conjunctions)} of {len(self.conjunctions)} alternatives hold"
        ]
        for number, conjunction in enumerate(self.conjunctions, 1):
            lines += [f"  {'+' if conjunction.matched else '-'} alternative {number}", indented(str(conjunction), 4)]
        return lines


def explain(filter: Filter, event: Event) -> Explanation:
    """Each constraint of each conjunction, held or not, with the values that the event has.

    >>> print(explain(Filter.parse("category = 'Toy' AND price < 5"), Event({"category": "Toy", "price": 7})))
    no match
      + category = 'Toy'  [category: 'Toy']
      - price < 5  [price: 7, off by 2]
    """
    conjunctions = tuple(explain_conjunction(c, event, filter.schema) for c in filter.conjunctions)
    matched = any(conjunction.matched for conjunction in conjunctions)
    return Explanation(matched, conjunctions, tuple(hint.message for hint in dialects.hints(filter)))


def explain_conjunction(conjunction: Conjunction, event: Event, schema: EventSchema | None) -> ConjunctionExplanation:
    """Each constraint and each comparison of two attributes of a conjunction, held or not."""
    printer = dialects.printer()
    explained = []
    for name, constraint in conjunction.constraints:
        alone = Conjunction(((name, constraint),))
        keys = event.keys(name)
        held = constraint.admits(keys)
        coded = schema is not None and schema.order_of(name) is not None
        distance = None if held or coded else _constraint_distance(constraint, keys)
        text = printer.print_conjunction(alone, schema)
        hint = None if held or coded else _type_hint(name, constraint, keys)
        explained.append(ConstraintExplanation(name, text, held, event.values(name), distance, hint=hint))
    for link in conjunction.links:
        alone = Conjunction((), (link,))
        held = alone.matches(event)
        coded = schema is not None and schema.order_of(link.left) is not None
        distance = None if held or coded else _link_distance(link.op, event.keys(link.left), event.keys(link.right))
        left, right = event.values(link.left), event.values(link.right)
        text = printer.print_conjunction(alone)
        explained.append(ConstraintExplanation(link.left, text, held, left, distance, link.right, right))
    return ConjunctionExplanation(conjunction.matches(event), tuple(explained))


def _type_hint(name: str, constraint: Constraint, keys: Collection[SortKey]) -> str | None:
    """What to write where the filter wants values of one type and the event has values of others."""
    wanted = {cut[0] for cut in constraint.values.cuts if cut[1]} or ({STRING} if constraint.include else set())
    seen = {rank for rank, _ in keys if rank >= 0}
    if len(wanted) != 1 or not seen:
        return None
    (rank,) = wanted
    if rank in seen:
        if rank == STRING and any(map(_is_moment, constraint.values.cuts)):
            return f"texts are compared letter by letter; write TIMESTAMP '...' and name {name} in timestamps"
        return None
    other = min(seen)
    instead = _INSTEAD.get((rank, other), "")
    if rank == TIMESTAMP and other == STRING:
        instead = f"; name {name} in timestamps, so that its texts are read as such"
    return f"{TYPE_NAMES[rank]}s and {TYPE_NAMES[other]}s are never compared{instead}"


def _is_moment(cut: Cut) -> bool:
    try:
        Timestamp.parse(str(cut[2]))
    except ValueError:
        return False
    return True


def _constraint_distance(constraint: Constraint, keys: Collection[SortKey]) -> float | None:
    """The least distance between a value and an end of an interval of its type.

    None if there is no such pair, or if some value is inside, so that something else failed.
    """
    if any(constraint.admits_value(key) for key in keys):
        return None
    return _least_gap(keys, [(cut[0], cut[2]) for cut in constraint.values.cuts if cut[2] is not None])


def _link_distance(op: Comparison, left: Collection[SortKey], right: Collection[SortKey]) -> float | None:
    """The least distance between two values of one type for which a comparison of two attributes failed."""
    return None if op == "!=" else _least_gap(left, right)


def _least_gap(ones: Collection[SortKey], others: Collection[SortKey]) -> float | None:
    """The least distance between a number or timestamp and another one; None if there are no two of one type."""
    values = [(rank, value) for rank, value in ones if rank in (NUMBER, TIMESTAMP)]
    gaps = [_gap(rank, value, other) for rank, value in values for its_rank, other in others if its_rank == rank]
    return min(gaps, default=None)


def _gap(rank: int, one: object, two: object) -> float:
    assert isinstance(one, int | float) and isinstance(two, int | float)
    if one == two:
        return 0.0
    try:
        gap = float(abs(one - two))
    except OverflowError:  # integers of many digits
        return math.inf
    return gap / _NANOSECONDS if rank == TIMESTAMP else gap


def _seen_text(seen: Seen) -> str:
    if not seen:
        return "missing"
    shown = ", ".join(_short(dialects.printer().print_value(value)) for value in seen[:_SHOWN])
    return shown if len(seen) <= _SHOWN else f"{shown} and {len(seen) - _SHOWN:,} more"


def _short(text: str) -> str:
    """The text, cut to one line, with control characters escaped: they could move the cursor of a terminal."""
    cut = text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


def _json_value(value: Value | None) -> object:
    """The value; timestamps and infinities, which JSON does not have, as text."""
    if isinstance(value, Timestamp):
        return str(value)
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def indented(text: str, width: int = 2) -> str:
    """The text with that many spaces before each line."""
    return "\n".join(" " * width + line for line in text.split("\n"))
