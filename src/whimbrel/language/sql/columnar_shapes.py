"""Which shapes have a columnar normal form, and what it is: conjunctions of terms whose literals are slots.

The form is the part of the language that bulk loads are made of: an OR of conjunctions with one set of values per
attribute, each set given by its literals alone. Everything else is loaded as filters, one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from whimbrel.language.sql.template import (
    CONSTANTS,
    FIRST_NUMBER,
    NULL,
    AllOf,
    AnyOf,
    CompareSlot,
    ContainsSlots,
    InSlots,
    Negation,
    Node,
    Ready,
    Template,
    TextSlot,
)
from whimbrel.model.expression import (
    NEGATED,
    And,
    Compare,
    Constant,
    Contains,
    Expression,
    In,
    Not,
    Or,
    StartsWith,
)
from whimbrel.model.values import Value

SlotType: TypeAlias = Literal["number", "string", "timestamp"]
Kind: TypeAlias = Literal["range", "points", "excluded", "required", "prefix"]


@dataclass(frozen=True, slots=True)
class Operand:
    """A literal of a term: the number of its slot, or for TRUE and FALSE, which are part of the shape, the value."""

    slot: int | None
    value: bool | None = None

    def of(self, values: Sequence[Value]) -> Value:
        """The value, given those of the slots."""
        if self.slot is not None:
            return values[self.slot]
        assert self.value is not None
        return self.value


@dataclass(frozen=True, slots=True)
class Term:
    """One attribute's constraint.

    `range`: between `lower` and `upper`, within the type of their slots; a lower above the upper is an empty range.
    `points`, `excluded`: one, or none, of the operands. `required`: the set of values has all of them.
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
class Shape:
    """A columnar normal form: an OR of conjunctions, each with at most one term per attribute.

    The slots are the strings in the order of the text, then the numbers.
    """

    conjunctions: tuple[tuple[Term, ...], ...]
    slot_types: tuple[SlotType, ...]

    def expression(self, values: Sequence[Value]) -> Expression:
        """The expression that the shape is with these literals."""
        return Or(tuple(And(tuple(term.expression(values) for term in terms)) for terms in self.conjunctions))


def columnar_shape(template: Template) -> Shape | None:
    """The columnar normal form of a template, or None where it has none."""
    root = template.root
    types: list[SlotType] = [*template.strings]
    types += ["number"] * template.numbers
    if root == Ready(Constant(True)):
        return Shape(((),), tuple(types))
    conjunctions: list[tuple[Term, ...]] = []
    for part in root.terms if isinstance(root, AnyOf) else (root,):
        nodes = part.terms if isinstance(part, AllOf) else (part,)
        conjunction = _Conjunction(types, len(template.strings))
        if not all(map(conjunction.add, nodes)):
            return None
        conjunctions.append(tuple(conjunction.terms.values()))
    return Shape(tuple(conjunctions), tuple(types))


class _Conjunction:
    """The terms of a conjunction by attribute, as far as it has been read."""

    def __init__(self, types: Sequence[SlotType], strings: int) -> None:
        self.types = types
        self.strings = strings
        self.terms: dict[str, Term] = {}

    def add(self, node: Node) -> bool:
        """Takes one more predicate in; False if the conjunction then has no columnar form."""
        term = self._term(node)
        earlier = None if term is None else self.terms.get(term.attribute)
        if earlier is not None and term is not None:
            term = self._both(earlier, term)
        if term is None:
            return False
        self.terms[term.attribute] = term
        return True

    def _term(self, node: Node) -> Term | None:
        negated = isinstance(node, Negation)
        leaf = node.term if isinstance(node, Negation) else node
        if isinstance(leaf, CompareSlot):
            return self._compared(leaf, negated)
        if isinstance(leaf, InSlots):
            return self._listed(leaf.attribute, "excluded" if negated else "points", leaf.slots)
        if isinstance(leaf, ContainsSlots) and leaf.quantifier == "ALL" and not negated:
            return self._listed(leaf.attribute, "required", leaf.slots)
        if isinstance(leaf, TextSlot) and leaf.operator == "STARTS" and not negated:
            return self._listed(leaf.attribute, "prefix", (leaf.slot,))
        return None

    def _compared(self, leaf: CompareSlot, negated: bool) -> Term | None:
        op = NEGATED[leaf.op] if negated else leaf.op
        if op in ("=", "!="):
            return self._listed(leaf.attribute, "points" if op == "=" else "excluded", (leaf.slot,))
        if NULL <= leaf.slot < 0:  # booleans have no order
            return None
        bound, inclusive = self._operand(leaf.slot), op in ("<=", ">=")
        if op in ("<", "<="):
            return Term(leaf.attribute, "range", upper=bound, upper_inclusive=inclusive)
        return Term(leaf.attribute, "range", lower=bound, lower_inclusive=inclusive)

    def _listed(self, attribute: str, kind: Kind, slots: Sequence[int]) -> Term | None:
        if NULL in slots:
            return None
        return Term(attribute, kind, tuple(map(self._operand, slots)))

    def _operand(self, slot: int) -> Operand:
        if NULL <= slot < 0:
            return Operand(None, bool(CONSTANTS[slot]))
        return Operand(slot if slot >= 0 else self.strings + FIRST_NUMBER - slot)

    def _both(self, one: Term, two: Term) -> Term | None:
        """Two terms on one attribute as one, where that is a term."""
        if one.kind != two.kind:
            return None
        if one.kind in ("excluded", "required"):
            return replace(one, operands=one.operands + two.operands)
        if one.kind != "range" or self._range_type(one) != self._range_type(two):
            return None
        if one.upper is None and two.lower is None:
            return replace(one, upper=two.upper, upper_inclusive=two.upper_inclusive)
        if one.lower is None and two.upper is None:
            return replace(one, lower=two.lower, lower_inclusive=two.lower_inclusive)
        return None

    def _range_type(self, term: Term) -> SlotType:
        bound = term.lower or term.upper
        assert bound is not None and bound.slot is not None
        return self.types[bound.slot]
