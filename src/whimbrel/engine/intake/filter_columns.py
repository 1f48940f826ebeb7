"""Parsed filters to their columnar form, so that the head of an index is compiled like a bulk load.

A filter that is a conjunction of plain predicates, at most one constraint per attribute, gives its literals to columns,
which it shares with all filters that have the same predicate. Every other filter stays a filter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import TypeAlias

import numpy as np

from whimbrel.language.columnar import Column, ColumnarShape, Conjunctions, Operand, ParsedMany, ShapeGroup, Term
from whimbrel.language.columnar.columns import exact
from whimbrel.language.columnar.shapes import Kind, SlotType
from whimbrel.model.expression import And, Compare, Expression, In, Not
from whimbrel.model.filter import Filter
from whimbrel.model.values import Timestamp, Value

LiteralType: TypeAlias = SlotType | bool
"""The type of a literal that goes to a column, or a boolean, which is part of the predicate."""
Predicate: TypeAlias = tuple[str, str, tuple[LiteralType, ...]]
"""A predicate without its literals: the attribute, the operator, and the types of the literals."""
Constraint: TypeAlias = tuple[Predicate, tuple[Value, ...]]

_TYPES: dict[type, SlotType] = {int: "number", float: "number", str: "string", Timestamp: "timestamp"}
_KINDS: dict[str, Kind] = {"=": "points", "IN": "points", "!=": "excluded", "NOT IN": "excluded"}


def filter_columns(filters: Sequence[Filter]) -> ParsedMany:
    """The filters by number: plain conjunctions in columns, the others as they are. About 2 us per predicate.

    >>> parsed = filter_columns([Filter.parse("a = 1 AND b < 2"), Filter.parse("a = 7"), Filter.parse("a = b")])
    >>> [(group.rows.tolist(), group.columns) for group in parsed.conjunctions[0].groups]
    [([0, 2], (array([1, 7]),)), ([1], (array([2]),))]
    >>> parsed.filters
    {2: Filter.parse('a = b')}
    """
    parsed = ParsedMany(len(filters))
    groups: dict[Predicate, tuple[list[int], list[Value]]] = {}
    numbers: list[int] = []
    counts: list[int] = []
    place = 0
    for number, filter in enumerate(filters):
        constraints = None if filter.schema is not None else _constraints(filter.expression)
        if not constraints:
            parsed.filters[number] = filter
            continue
        numbers.append(number)
        counts.append(len(constraints))
        for predicate, literals in constraints.values():
            group = groups.get(predicate)
            if group is None:
                group = groups[predicate] = ([], [])
            group[0].append(place)
            group[1].extend(literals)
            place += 1
    if numbers:
        shaped = tuple(_shape_group(predicate, *group) for predicate, group in groups.items())
        parsed.conjunctions.append(Conjunctions(np.array(numbers, np.int64), np.array(counts, np.int64), shaped))
    return parsed


def _constraints(expression: Expression) -> dict[str, Constraint] | None:
    """The constraint of each attribute; None if the filter is not a conjunction of plain predicates."""
    found: dict[str, Constraint] = {}
    for term in _terms(expression):
        constraint = _constraint(term)
        if constraint is None:
            return None
        attribute = constraint[0][0]
        earlier = found.get(attribute)
        both = constraint if earlier is None else _range(earlier, constraint)
        if both is None:
            return None
        found[attribute] = both
    return found


def _terms(expression: Expression) -> Iterator[Expression]:
    """The terms of nested ANDs."""
    if type(expression) is And:
        for term in expression.terms:
            if type(term) is And:
                yield from _terms(term)
            else:
                yield term
    else:
        yield expression


def _constraint(term: Expression) -> Constraint | None:
    kind = type(term)
    if kind is Compare:
        assert isinstance(term, Compare)
        value = term.value
        type_ = _type(value)
        if type_ is None or value is None:
            return None
        if isinstance(type_, bool):
            return ((term.attribute, term.op, (type_,)), ()) if term.op in _KINDS else None
        return (term.attribute, term.op, (type_,)), (value,)
    if kind is Not:
        assert isinstance(term, Not)
        return _listed(term.term, "NOT IN") if type(term.term) is In else None
    return _listed(term, "IN") if kind is In else None


def _listed(term: Expression, operator: str) -> Constraint | None:
    assert isinstance(term, In)
    types = tuple([_type(value) for value in term.values])
    if not types or None in types:
        return None
    literals = tuple([value for value in term.values if value is not True and value is not False])
    return (term.attribute, operator, types), literals  # type: ignore[return-value]  # none of them is None


def _type(value: Value | None) -> LiteralType | None:
    """None for NULL, and for numbers that are not finite."""
    if value is True or value is False:
        return value
    if type(value) is float and not isfinite(value):
        return None
    return _TYPES.get(type(value))


def _range(one: Constraint, two: Constraint) -> Constraint | None:
    """A lower and an upper bound of the same type as one range, with the lower bound first."""
    ((attribute, first, types), low), ((_, second, other_types), high) = one, two
    if types != other_types or {first[0], second[0]} != {"<", ">"}:
        return None
    if first[0] == "<":
        first, low, second, high = second, high, first, low
    return (attribute, f"{first} {second}", types + types), low + high


def _shape_group(predicate: Predicate, places: list[int], literals: list[Value]) -> ShapeGroup:
    attribute, operator, types = predicate
    slots = [type for type in types if not isinstance(type, bool)]
    numbers = iter(range(len(slots)))
    operands = tuple(Operand(None, type) if isinstance(type, bool) else Operand(next(numbers)) for type in types)
    if operator in _KINDS:
        term = Term(attribute, _KINDS[operator], operands)
    else:
        bounds = dict(zip(operator.split(), operands, strict=True))
        term = Term(
            attribute,
            "range",
            lower=bounds.get(">") or bounds.get(">="),
            lower_inclusive=">=" in bounds,
            upper=bounds.get("<") or bounds.get("<="),
            upper_inclusive="<=" in bounds,
        )
    columns = tuple(_column(type, literals[slot :: len(slots)]) for slot, type in enumerate(slots))
    return ShapeGroup(ColumnarShape(((term,),), tuple(slots)), np.array(places, np.int64), columns)


def _column(type: SlotType, literals: list[Value]) -> Column:
    if type == "string":
        return [str(literal) for literal in literals]
    if type == "timestamp":
        return exact([literal.nanoseconds for literal in literals if isinstance(literal, Timestamp)])
    return exact([literal for literal in literals if isinstance(literal, int | float)])
