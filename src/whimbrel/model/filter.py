"""A filter: a boolean expression over attributes, and the reference evaluator that defines what matching means.

`Filter.matches` is the semantics: a plain check of each conjunction of the normal form, with no index. Every
matcher is tested against it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from whimbrel.model import dialects
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.event import AnyEvent, Event
from whimbrel.model.event_schema import EventSchema
from whimbrel.model.expression import Expression
from whimbrel.model.normal_form import is_surely_small, normal_form
from whimbrel.model.options import check_instance


class Filter:
    """A filter over events. Immutable; equal filters have equal canonical normal forms.

    A filter with a `schema` fits it, and its normal form has codes for the values of ordered domains.

    >>> toys = Filter.parse("category = 'Toy' AND price < 5")
    >>> toys.matches({"category": "Toy", "price": 3})
    True
    """

    def __init__(
        self, expression: Expression, text: str | None = None, dialect: str = "sql", schema: EventSchema | None = None
    ) -> None:
        self.expression = expression
        self.text = text
        self.dialect = dialect
        self.schema = schema

    @staticmethod
    def parse(source: object, dialect: str = "sql", schema: EventSchema | None = None) -> Filter:
        """The filter that a text stands for in a dialect; FilterTypeError if it does not fit the schema.

        LimitExceeded if its normal form is too large. A filter that might be so is expanded here, others on first use.
        """
        parsed = dialects.get(dialect).parse(source)
        if schema is not None:
            check_instance("schema", schema, EventSchema, "a Schema")
            parsed = schema.typed(parsed)
        if not parsed.is_surely_small():
            _ = parsed.conjunctions
        return parsed

    def is_surely_small(self) -> bool:
        """Whether the normal form surely is within the limits, so that it need not be made to know."""
        return is_surely_small(self.expression)

    @cached_property
    def conjunctions(self) -> tuple[Conjunction, ...]:
        """The normal form: the filter holds iff one of these does. Empty if it is unsatisfiable."""
        if self.schema is None:
            return normal_form(self.expression)
        return normal_form(self.schema.coded(self.expression), self.schema.refined)

    @cached_property
    def attributes(self) -> frozenset[str]:
        """The attributes that the normal form mentions."""
        return frozenset().union(*(c.attributes for c in self.conjunctions))

    def matches(self, event: AnyEvent, timestamps: Iterable[str] = ()) -> bool:
        """Whether the event satisfies the filter: whether it is true under some binding."""
        event = Event.of(event, timestamps).plain if self.schema is None else self.schema.read(event)
        return any(c.matches(event) for c in self.conjunctions)

    def is_satisfiable(self) -> bool:
        """Whether some event can match (True may mean: not known, where string patterns meet)."""
        return bool(self.conjunctions)

    def is_always_true(self) -> bool:
        """Whether every event matches."""
        return any(c.is_true() for c in self.conjunctions)

    def covers(self, other: Filter) -> bool:
        """Whether every event that matches other surely matches self (False may mean: not known)."""
        return self._agrees(other) and all(
            any(mine.covers(theirs) for mine in self.conjunctions) for theirs in other.conjunctions
        )

    def intersects(self, other: Filter) -> bool:
        """Whether some event can match both (True may mean: not known)."""
        return not self._agrees(other) or any(
            mine.coexists(theirs) for mine in self.conjunctions for theirs in other.conjunctions
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and self.conjunctions == other.conjunctions and self._agrees(other)

    def _agrees(self, other: Filter) -> bool:
        """Whether values mean the same in both: no schema, or equal domains for the attributes of both."""
        check_instance("other", other, Filter, "a Filter")
        if self.schema is None or other.schema is None:
            return self.schema is other.schema
        names = self.attributes & other.attributes
        return self.schema is other.schema or all(
            self.schema.domain_of(name) == other.schema.domain_of(name) for name in names
        )

    def __hash__(self) -> int:
        return hash(self.conjunctions)

    def __str__(self) -> str:
        return dialects.printer().print(self)

    def __repr__(self) -> str:
        return f"Filter.parse({str(self)!r})"
