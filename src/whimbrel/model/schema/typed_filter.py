"""The check of a filter against a schema, and its meaning there: codes for ordered values, sets in canonical form.

An order comparison in an ordered domain becomes the set of codes for which it holds, as ranges and points. A comparison
of incomparable values is false (docs/papers.md), so NOT gives every other value of the domain: the complement of that
set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias, TypeGuard

from whimbrel.model import dialects
from whimbrel.model import expression as ex
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.constraint import Constraint
from whimbrel.model.expression import And, Compare, CompareAttributes, Expression, In, Not, Or
from whimbrel.model.limits import FILTER_CONJUNCTIONS
from whimbrel.model.normal_form import check_size, key_of
from whimbrel.model.schema.domains import ORDER, Domain
from whimbrel.model.schema.errors import FilterTypeError, Reason, did_you_mean
from whimbrel.model.schema.ordered import CodeRun, Ordered
from whimbrel.model.schema.typed_event import key_text
from whimbrel.model.values import Value, from_key

if TYPE_CHECKING:
    from whimbrel.model.filter import Filter
    from whimbrel.model.schema.schema import Schema

Part: TypeAlias = Literal["attribute", "other", "operator", "value"]
"""The part of a predicate that is wrong: its attribute, the other attribute, its operator, or a value."""

_WORDS: dict[type[ex.Predicate], str] = {
    In: "IN",
    ex.Contains: "CONTAINS",
    ex.Like: "LIKE",
    ex.ILike: "ILIKE",
    ex.StartsWith: "STARTS WITH",
    ex.EndsWith: "ENDS WITH",
    ex.RLike: "RLIKE",
    ex.InCidr: "IN CIDR",
}
_OPERATORS = ["=", "!=", "<", "<=", ">", ">=", *_WORDS.values()]


def check_filter(schema: Schema, filter: Filter) -> None:
    """Raise `FilterTypeError` for the first predicate that does not fit, with its place in the text."""
    check_size(filter.expression)
    check = _FilterCheck(schema, filter)
    bounds: dict[int, _Bounds] = {}
    stack: list[tuple[Expression, int]] = [(filter.expression, 0)]
    while stack:
        node, conjunction = stack.pop()
        if isinstance(node, Not):
            stack.append((node.term, 0))
        elif isinstance(node, And | Or):
            inside = id(node) if isinstance(node, And) else 0
            stack += [(term, inside) for term in reversed(node.terms)]
        else:
            if conjunction and isinstance(node, Compare):
                check.bound(node, bounds.setdefault(conjunction, {}))
            check.predicate(node)
            check.number += 1


_Bounds: TypeAlias = dict[tuple[str, bool], dict[int, str]]
"""The values of one AND to which attributes are compared, by code: for each attribute the upper and the lower ones."""


class _FilterCheck:
    """Checks the predicates of one filter. `number` is that of the present one, counted from the left."""

    def __init__(self, schema: Schema, filter: Filter) -> None:
        self.schema, self.filter, self.number = schema, filter, 0

    def refuse(self, reason: Reason, attribute: str, problem: str, part: Part, value: int = 0) -> NoReturn:
        """Raise the error of the present predicate, with the place of the part, or of that value."""
        position = dialects.locate(self.filter, self.number, part, value)
        text = self.filter.text if self.filter.text is not None and position is not None else ""
        raise FilterTypeError(reason, attribute, problem, text, position or 0)

    def bound(self, node: Compare, bounds: _Bounds) -> None:
        """Refuse two bounds of one AND, such as the two of BETWEEN, that are incomparable: no value is between them."""
        domain = self.schema.domain_of(node.attribute)
        if node.op not in ORDER or not isinstance(domain, Ordered) or node.value not in domain.codes:
            return
        value, is_upper = str(node.value), node.op in ("<", "<=")
        code = domain.codes[value]
        for other_code, other in bounds.get((node.attribute, not is_upper), {}).items():
            if not domain.comparable(code, other_code):
                problem = f"Expected a value comparable with {other!r}, but got {value!r}"
                self.refuse("incomparable", node.attribute, problem, "value")
        bounds.setdefault((node.attribute, is_upper), {})[code] = value

    def predicate(self, node: ex.Predicate) -> None:
        """Check the attributes, the operator and the values of a predicate."""
        if isinstance(node, ex.Constant):
            return
        if isinstance(node, CompareAttributes):
            self._link(node)
            return
        domain = self._domain(node.attribute, "attribute")
        if isinstance(node, ex.IsNull | ex.IsMissing):
            return
        operator = node.op if isinstance(node, Compare) else _WORDS[type(node)]
        self._operator(domain, node.attribute, operator)
        values: Sequence[Value | None] = ()
        if isinstance(node, Compare):
            values = (node.value,)
        elif isinstance(node, In | ex.Contains):
            values = node.values
        for place, value in enumerate(values):
            if value is not None:
                self._value(domain, node.attribute, operator, value, place)

    def _domain(self, name: str, part: Part) -> Domain:
        domain = self.schema.domain_of(name)
        if domain is None:
            names = [*self.schema.attributes, self.schema.type_attribute]
            below = [known for known in names if known.startswith(f"{name}.")][:1]
            hint = f"; did you mean {below[0]!r}?" if below else did_you_mean(name, names)
            problem = f"Expected an attribute of the schema, but got {name!r}{hint}"
            self.refuse("unknown-attribute", name, problem, part)
        return domain

    def _operator(self, domain: Domain, name: str, operator: str) -> None:
        if operator not in domain.operators:
            known = ", ".join(sorted(domain.operators, key=_OPERATORS.index))
            problem = f"Expected an operator of the {domain.kind} domain of {name!r} ({known}), but got {operator}"
            self.refuse("no-operator", name, problem, "operator")

    def _value(self, domain: Domain, name: str, operator: str, value: Value, place: int) -> None:
        key = key_of(value)
        code = domain.code(key)
        if code is None:
            reason: Reason = "outside-domain" if domain.is_of_type(key) else "wrong-type"
            hint = did_you_mean(value, domain.suggestions()) if isinstance(value, str) else ""
            problem = f"Expected {domain.expected} for {name!r}, but got {key_text(key)}{hint}"
            self.refuse(reason, name, problem, "value", place)
        if operator in ORDER and isinstance(domain, Ordered) and len(domain.words) > 1:
            number = int(code[1])
            if not domain.runs("<", number) and not domain.runs(">", number):
                problem = f"Expected a value with others below or above it, but {value!r} is comparable with none"
                self.refuse("incomparable", name, problem, "value", place)

    def _link(self, node: CompareAttributes) -> None:
        left, right = self._domain(node.left, "attribute"), self._domain(node.right, "other")
        self._operator(left, node.left, node.op)
        self._operator(right, node.right, node.op)
        same = left == right if isinstance(left, Ordered) or isinstance(right, Ordered) else left.rank == right.rank
        if not same:
            problem = f"Expected an attribute to compare {node.left!r} with ({left}), but {node.right!r} is {right}"
            self.refuse("wrong-type", node.right, problem, "other")
        if _is_partial(left, node) and len(left.words) > FILTER_CONJUNCTIONS.value:
            problem = (
                f"Expected a domain of at most {FILTER_CONJUNCTIONS.value:,} values to compare two attributes in its "
                f"order, but that of {node.left!r} has {len(left.words):,}"
            )
            self.refuse("no-operator", node.left, problem, "operator")


def _is_partial(domain: Domain | None, node: CompareAttributes) -> TypeGuard[Ordered]:
    """Whether two attributes of this domain are compared in a partial order."""
    return isinstance(domain, Ordered) and not domain.is_total and node.op in ORDER


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
        if _is_partial(domain, node):
            return _by_value(node, domain, positive)
    predicate = _coded_predicate(schema, node)
    return predicate if positive else Not(predicate)


def _coded_predicate(schema: Schema, node: ex.Predicate) -> Expression:
    if not isinstance(node, Compare | In | ex.Contains):
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
