"""The meaning of a filter in a schema: codes in the place of ordered values, and sets of values in canonical form.

An order comparison in an ordered domain becomes the set of codes for which it holds, as ranges and points. A comparison
of incomparable values is false (docs/papers.md), so NOT gives every other value of the domain: the complement of that
set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from whimbrel.model.conjunction import Conjunction
from whimbrel.model.constraint import Constraint
from whimbrel.model.expression import And, Compare, CompareAttributes, Contains, Expression, In, Not, Or, Predicate
from whimbrel.model.normal_form import key_of
from whimbrel.model.schema.domains import ORDER, Domain
from whimbrel.model.schema.ordered import CodeRun, Ordered
from whimbrel.model.values import Value, from_key

if TYPE_CHECKING:
    from whimbrel.model.schema.schema import Schema


def coded(schema: Schema, node: Expression, positive: bool = True) -> Expression:
    """The expression in codes, with NOT pushed to its predicates; `positive` is False for its negation."""
    if isinstance(node, Not):
        return coded(schema, node.term, not positive)
    if isinstance(node, And | Or):
        terms: list[Expression] = []
        for term in node.terms:  # a loop, not a comprehension: one frame per level
            terms.append(coded(schema, term, positive))
        return And(tuple(terms)) if isinstance(node, And) == positive else Or(tuple(terms))
    if isinstance(node, CompareAttributes):
        domain = schema.domain_of(node.left)
        if isinstance(domain, Ordered) and not domain.is_total and node.op in ORDER:
            return _by_value(node, domain, positive)
    predicate = _coded_predicate(schema, node)
    return predicate if positive else Not(predicate)


def _coded_predicate(schema: Schema, node: Predicate) -> Expression:
    if not isinstance(node, Compare | In | Contains):
        return node
    domain = schema.domain_of(node.attribute)
    assert domain is not None
    if not isinstance(node, Compare):
        return replace(node, values=tuple(None if value is None else _code(domain, value) for value in node.values))
    if node.value is None:
        return node
    code = _code(domain, node.value)
    if not isinstance(domain, Ordered) or node.op not in ORDER:
        return replace(node, value=code)
    assert isinstance(code, int)
    return _in_runs(node.attribute, domain.runs(node.op, code))


def _code(domain: Domain, value: Value) -> Value:
    key = domain.code(key_of(value))
    assert key is not None  # checked
    return from_key(key)


def _in_runs(attribute: str, runs: Sequence[CodeRun]) -> Expression:
    points = tuple(first for first, last in runs if first == last)
    terms: list[Expression] = [In(attribute, points)] if points or not runs else []
    terms += [
        And((Compare(attribute, ">=", first), Compare(attribute, "<=", last))) for first, last in runs if first < last
    ]
    return terms[0] if len(terms) == 1 else Or(tuple(terms))


def _by_value(node: CompareAttributes, domain: Ordered, positive: bool) -> Expression:
    """Two attributes compared in a partial order: one alternative for each value of the second one."""
    alternatives: list[Expression] = []
    for code in range(len(domain.words)):
        held = _in_runs(node.left, domain.runs(node.op, code))
        alternatives.append(And((Compare(node.right, "=", code), held if positive else Not(held))))
    return Or(tuple(alternatives))


def refined(schema: Schema, conjunction: Conjunction) -> Conjunction | None:
    """The conjunction with each set of values in the canonical form of its domain; None if nothing satisfies it."""
    constraints: dict[str, Constraint] = {}
    changed = False
    for name, constraint in conjunction.constraints:
        domain = schema.domain_of(name)
        assert domain is not None  # checked
        values = domain.canonical(constraint.values)
        if values != constraint.values:
            constraint = replace(constraint, values=values).simplified()  # noqa: PLW2901
            changed = True
        constraints[name] = constraint
    return Conjunction.of(constraints, conjunction.links) if changed else conjunction
