"""The shape of a columnar filter: conjunctions of terms, each with the numbers of the slots that hold its literals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from whimbrel.model.expression import And, Compare, Contains, Expression, In, Not, Or, StartsWith
from whimbrel.model.values import Value

SlotType: TypeAlias = Literal["number", "string", "timestamp"]
Kind: TypeAlias = Literal["range", "points", "excluded", "required", "prefix"]


@dataclass(frozen=True, slots=True)
class Operand:
    """A literal of a term: the number of its slot, or the value of TRUE and FALSE, which are part of the shape."""

    slot: int | None
    value: bool | None = None

    def of(self, values: Sequence[Value]) -> Value:
        """The value of the literal, given the values of all slots."""
        if self.slot is not None:
            return values[self.slot]
        assert self.value is not None
        return self.value


@dataclass(frozen=True, slots=True)
class Term:
    """One attribute's constraint.

    `range`: between `lower` and `upper`, within the type of their slots; a lower above the upper is an empty range.
    `points`: one of the operands. `excluded`: none of them. `required`: the attribute has all of them as values.
    `prefix`: a string that starts with the operand.
    """

    attribute: str
    kind: Kind
    operands: tuple[Operand, ...] = ()
    lower: Operand | None = None
    lower_inclusive: bool = False
    upper: Operand | None = None
    upper_inclusive: bool = False

    def expression(self, values: Sequence[Value]) -> Expression:
        """The term as an expression, given the values of the slots."""
        if self.kind == "range":
            bounds: list[Expression] = []
            if self.lower is not None:
                bounds.append(Compare(self.attribute, ">=" if self.lower_inclusive else ">", self.lower.of(values)))
            if self.upper is not None:
                bounds.append(Compare(self.attribute, "<=" if self.upper_inclusive else "<", self.upper.of(values)))
            return And(tuple(bounds))
        literals = tuple(operand.of(values) for operand in self.operands)
        if self.kind == "required":
            return Contains(self.attribute, "ALL", literals)
        if self.kind == "prefix":
            assert isinstance(literals[0], str)
            return StartsWith(self.attribute, literals[0])
        points = In(self.attribute, literals)
        return Not(points) if self.kind == "excluded" else points


@dataclass(frozen=True, slots=True)
class ColumnarShape:
    """A columnar normal form: an OR of conjunctions, each with at most one term per attribute.

    The slots are the strings in the order of the text, then the numbers.
    """

    conjunctions: tuple[tuple[Term, ...], ...]
    slot_types: tuple[SlotType, ...]

    def expression(self, values: Sequence[Value]) -> Expression:
        """The expression with these literals in the slots."""
        return Or(tuple(And(tuple(term.expression(values) for term in terms)) for terms in self.conjunctions))
