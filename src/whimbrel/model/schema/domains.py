"""Domains: which values an attribute may have, which operators they have, and how they are compared.

A domain checks keys: `code` gives the key under which a value is matched, or None for a value outside. For most
domains that is the key itself. A string of a timestamp domain becomes an instant, and a value of an ordered domain
(`ordered.py`) becomes its code, so that everything behind the schema compares numbers only.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from whimbrel.model.intervals import IntervalSet
from whimbrel.model.limits import DOMAIN_VALUES
from whimbrel.model.schema.canonical_sets import within_integers, within_type
from whimbrel.model.schema.errors import SchemaError
from whimbrel.model.values import BOOLEAN, NUMBER, STRING, TIMESTAMP, SortKey, Timestamp, canonical_number, is_text

Operators: TypeAlias = frozenset[str]

EQUAL: Operators = frozenset({"=", "!=", "IN", "CONTAINS"})
ORDER: Operators = frozenset({"<", "<=", ">", ">="})
TEXT: Operators = frozenset({"LIKE", "ILIKE", "STARTS WITH", "ENDS WITH", "RLIKE", "IN CIDR"})

_SHOWN = 400
"""Characters of a definition that an error shows."""


class Domain(ABC):
    """A set of values with their operators. Immutable; equal definitions are equal domains."""

    kind: str
    """The name of this kind of domain in documents."""
    rank: ClassVar[int]
    """The type of the keys that `code` gives."""
    operators: Operators

    @property
    @abstractmethod
    def expected(self) -> str:
        """What a value must be; part of error messages."""

    def code(self, key: SortKey) -> SortKey | None:
        """The key that a value is matched by, or None if the value is not in the domain."""
        return key if key[0] == self.rank else None

    def definition(self) -> dict[str, object]:
        """The definition of the domain as a document writes it."""
        return {"kind": self.kind}

    def canonical(self, values: IntervalSet) -> IntervalSet:
        """The canonical form of a set of coded values of this domain."""
        return within_type(values, self.rank)

    def is_of_type(self, key: SortKey) -> bool:
        """Whether a value has the type of the domain, even if it is outside."""
        return key[0] == self.rank

    def suggestions(self) -> Iterable[str]:
        """The texts among which a misspelt value is looked up."""
        return ()

    def __str__(self) -> str:
        shown = self.definition()
        kind = str(shown.pop("kind"))
        fields = ", ".join(f"{name} {value}" for name, value in shown.items())
        if len(fields) > _SHOWN:
            fields = f"{fields[:_SHOWN]}…"
        return f"{kind} ({fields})" if fields else kind


@dataclass(frozen=True)
class Number(Domain):
    """Numbers: `integer` is whole, `decimal` finite with at most `scale` digits after the point, `float` any."""

    kind: Literal["integer", "float", "decimal"]
    minimum: int | float | None = None
    maximum: int | float | None = None
    scale: int | None = None

    rank = NUMBER
    operators = EQUAL | ORDER

    def __post_init__(self) -> None:
        for name in ("minimum", "maximum"):
            bound = getattr(self, name)
            if bound is None:
                continue
            if isinstance(bound, bool) or not isinstance(bound, int | float) or not -math.inf < bound < math.inf:
                raise SchemaError(f"Expected a number, but got {bound!r}", name)
            object.__setattr__(self, name, canonical_number(bound))
            if self.kind == "integer" and canonical_number(bound) != math.floor(bound):
                raise SchemaError(f"Expected a whole number, but got {bound!r}", name)
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise SchemaError(f"Expected a minimum of at most {self.maximum}, but got {self.minimum}", "minimum")
        if self.scale is not None:
            if self.kind != "decimal":
                raise SchemaError(f"Expected a scale in a decimal domain only, but got one in {self.kind}", "scale")
            if isinstance(self.scale, bool) or not isinstance(self.scale, int) or not 0 <= self.scale <= 300:
                raise SchemaError(f"Expected a whole number from 0 to 300, but got {self.scale!r}", "scale")

    @property
    def expected(self) -> str:
        name = {"integer": "an integer", "float": "a number", "decimal": "a decimal number"}[self.kind]
        if self.scale is not None:
            name += f" of at most {self.scale} digits after the point"
        if self.minimum is not None and self.maximum is not None:
            return f"{name} from {self.minimum} to {self.maximum}"
        if self.minimum is not None:
            return f"{name} of at least {self.minimum}"
        return name if self.maximum is None else f"{name} of at most {self.maximum}"

    def code(self, key: SortKey) -> SortKey | None:
        rank, value = key
        if rank != NUMBER:
            return None
        assert isinstance(value, int | float)
        if isinstance(value, float):
            if self.kind != "float" and not math.isfinite(value):
                return None
            if self.kind == "integer" and not value.is_integer():
                return None
            if self.scale is not None and round(value, self.scale) != value:
                return None
        if self.minimum is not None and value < self.minimum:
            return None
        return None if self.maximum is not None and value > self.maximum else key

    def canonical(self, values: IntervalSet) -> IntervalSet:
        if self.kind != "integer":
            return within_type(values, NUMBER)
        low = None if self.minimum is None else int(self.minimum)
        return within_integers(values, low, None if self.maximum is None else int(self.maximum))

    def definition(self) -> dict[str, object]:
        fields = {"minimum": self.minimum, "maximum": self.maximum, "scale": self.scale}
        return {"kind": self.kind, **{name: value for name, value in fields.items() if value is not None}}


@dataclass(frozen=True)
class String(Domain):
    """Any text, compared by code point."""

    rank = STRING
    operators = EQUAL | ORDER | TEXT
    expected = "text"
    kind = "string"


@dataclass(frozen=True)
class Boolean(Domain):
    """TRUE and FALSE, which have no order."""

    rank = BOOLEAN
    operators = EQUAL
    expected = "TRUE or FALSE"
    kind = "boolean"


@dataclass(frozen=True)
class Instant(Domain):
    """Instants in nanoseconds; text of ISO 8601 is read as one."""

    rank = TIMESTAMP
    operators = EQUAL | ORDER
    expected = "a timestamp such as '2026-01-31T12:00:00Z'"
    kind = "timestamp"

    def code(self, key: SortKey) -> SortKey | None:
        rank, value = key
        if rank == STRING:
            try:
                return TIMESTAMP, Timestamp.parse(str(value)).nanoseconds
            except ValueError:
                return None
        return key if rank == TIMESTAMP else None

    def is_of_type(self, key: SortKey) -> bool:
        return key[0] in (TIMESTAMP, STRING)


@dataclass(frozen=True)
class Enumeration(Domain):
    """Listed texts without an order. `values` keeps the order of the list, which does not count for equality."""

    values: tuple[str, ...] = field(compare=False)
    members: frozenset[str] = field(init=False)

    kind = "enumerated"
    rank = STRING
    operators = EQUAL

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", check_values(self.values))
        object.__setattr__(self, "members", frozenset(self.values))

    @property
    def expected(self) -> str:
        return one_of(self.values)

    def code(self, key: SortKey) -> SortKey | None:
        return key if key[0] == STRING and key[1] in self.members else None

    def suggestions(self) -> Iterable[str]:
        return self.values

    def definition(self) -> dict[str, object]:
        return {"kind": self.kind, "values": list(self.values)}


def check_values(values: object) -> tuple[str, ...]:
    """The texts of a list, each once and at least one, or SchemaError."""
    if not isinstance(values, list | tuple) or not values:
        raise SchemaError(f"Expected a list of texts, but got {values!r}", "values")
    DOMAIN_VALUES.check(len(values), "values")
    seen: set[str] = set()
    for value in values:
        if not is_text(value):
            raise SchemaError(f"Expected text, but got {value!r}", "values")
        if value in seen:
            raise SchemaError(f"Expected every value once, but {value!r} comes twice", "values")
        seen.add(value)
    return tuple(values)


def one_of(values: tuple[str, ...]) -> str:
    """`'a'`, `'a' or 'b'`, or the first of many values."""
    if len(values) > 8:
        return f"one of {', '.join(map(repr, values[:8]))} and {len(values) - 8:,} more"
    return " or ".join([", ".join(map(repr, values[:-1])), repr(values[-1])]) if len(values) > 1 else repr(values[0])
