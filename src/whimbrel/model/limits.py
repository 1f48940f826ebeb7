"""Every limit on what users may send: its value, its unit and its reason.

Exceeding one raises `LimitExceeded`, which carries the limit and the size that was seen.
"""

from __future__ import annotations

from dataclasses import dataclass

from whimbrel.model.errors import LimitExceeded


@dataclass(frozen=True, slots=True)
class Limit:
    """One bound: `value` in `unit`s, and why it is there."""

    name: str
    value: int
    unit: str
    reason: str

    def check(self, size: int, where: str = "", row: int | None = None) -> None:
        """Raise `LimitExceeded` when `size` is above the limit."""
        if size > self.value:
            raise LimitExceeded(self.name, size, self.value, self.unit, where, row)


FILTER_BYTES = Limit("filter bytes", 1 << 20, "bytes of UTF-8", "a filter is parsed whole, in memory")
FILTER_DEPTH = Limit("filter depth", 64, "nested parentheses or NOTs", "each level costs a stack frame")
EXPRESSION_DEPTH = Limit("expression depth", 200, "levels of AND, OR and NOT", "each level costs a stack frame")
FILTER_PREDICATES = Limit("filter predicates", 10_000, "predicates", "bounds the work of one evaluation")
FILTER_CONJUNCTIONS = Limit(
    "filter conjunctions", 1_024, "conjunctions", "the normal form of AND over OR is exponential"
)
FILTER_CONSTRAINTS = Limit(
    "filter constraints", 100_000, "constraints of all conjunctions", "each conjunction repeats what all share"
)
FILTER_VALUES = Limit(
    "filter values", 1_000_000, "values and patterns of all conjunctions", "each conjunction repeats what all share"
)
IN_MEMBERS = Limit("list members", 50_000, "members of IN or CONTAINS", "every member is an entry of the index")
LIKE_WILDCARDS = Limit("LIKE wildcards", 64, "% and _ in one pattern", "bounds the search of one value")
LIKE_BYTES = Limit("LIKE bytes", 8_192, "bytes of UTF-8", "bounds the search of one value")
REGEX_BYTES = Limit("regular expression bytes", 4_096, "bytes of UTF-8", "a compiled automaton grows with it")
INTEGER_DIGITS = Limit("integer digits", 1_000, "decimal digits", "conversion of digits is quadratic")
EVENT_BYTES = Limit("event bytes", 1 << 20, "bytes of JSON", "an event is decoded whole, in memory")
EVENT_DEPTH = Limit("event depth", 64, "nested objects or lists", "each level costs a stack frame")
EVENT_VALUES = Limit("event values", 100_000, "values of all attributes", "bounds the work of one match")
EVENT_ATTRIBUTES = Limit("event attributes", 10_000, "attributes", "bounds the work of one match")
BINDING_STEPS = Limit(
    "binding steps", 1_000_000, "combinations tried", "coupled attributes are searched by backtracking"
)
LOG_ENTRY_BYTES = Limit("log entry bytes", 64 << 20, "bytes of event and match list", "an entry is written whole")
FACTS_BYTES = Limit("facts bytes", 64 << 10, "bytes of JSON", "facts are written and read whole with each save")
DOMAIN_VALUES = Limit("domain values", 1_000_000, "values of a domain", "a schema is held whole, in memory")
ORDERED_VALUES = Limit(
    "ordered values", 10_000, "values of an enumeration with an order", "what lies below each is held as bits"
)
