"""The check of a filter against a schema: whether its attributes, values and operators fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from whimbrel.model import dialects
from whimbrel.model.expression import (
    And,
    Compare,
    CompareAttributes,
    Constant,
    Contains,
    EndsWith,
    Expression,
    In,
    InCidr,
    IsMissing,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    RLike,
    StartsWith,
)
from whimbrel.model.limits import FILTER_CONJUNCTIONS
from whimbrel.model.normal_form import check_size, key_of
from whimbrel.model.schema.domains import ORDER, Domain
from whimbrel.model.schema.errors import FilterTypeError, Reason, did_you_mean
from whimbrel.model.schema.ordered import Ordered
from whimbrel.model.schema.typed_event import key_text
from whimbrel.model.values import Value

if TYPE_CHECKING:
    from whimbrel.model.filter import Filter
    from whimbrel.model.schema.schema import Schema

Part: TypeAlias = Literal["attribute", "other", "operator", "value"]
"""The part of a predicate that is wrong: its attribute, the other attribute, its operator, or a value."""

_WORDS: dict[type[Predicate], str] = {
    In: "IN",
    Contains: "CONTAINS",
    Like: "LIKE",
    StartsWith: "STARTS WITH",
    EndsWith: "ENDS WITH",
    RLike: "RLIKE",
    InCidr: "IN CIDR",
}
_OPERATORS = ["=", "!=", "<", "<=", ">", ">=", *_WORDS.values()]


class Misfit(NamedTuple):
    """What is wrong with a predicate, and with which part of it."""

    reason: Reason
    attribute: str
    problem: str
    part: Part
    value: int = 0


def check(schema: Schema, filter: Filter) -> None:
    """Raise `FilterTypeError` for the first predicate that does not fit, with its place in the text."""
    check_size(filter.expression)
    for number, misfit in _misfits(schema, filter.expression):
        position = dialects.locate(filter, number, misfit.part, misfit.value)
        text = filter.text if filter.text is not None and position is not None else ""
        raise FilterTypeError(misfit.reason, misfit.attribute, misfit.problem, text, position or 0)


def _misfits(schema: Schema, expression: Expression) -> Iterator[tuple[int, Misfit]]:
    """The predicates that do not fit, each with its number, counted from the left."""
    number = 0
    stack: list[Expression] = [expression]
    while stack:
        node = stack.pop()
        if isinstance(node, Not):
            stack.append(node.term)
        elif isinstance(node, And | Or):
            stack += reversed(node.terms)
            if isinstance(node, And):
                yield from _ends_apart(schema, node, number)
        else:
            misfit = _misfit(schema, node)
            if misfit is not None:
                yield number, misfit
            number += 1


def _ends_apart(schema: Schema, node: And, first: int) -> Iterator[tuple[int, Misfit]]:
    """Bounds of one attribute, such as those of BETWEEN, that are not comparable: nothing lies between them."""
    bounds: list[tuple[int, Compare, Ordered, int]] = []
    number = first
    for term in node.terms:
        if isinstance(term, Compare) and term.op in ORDER and isinstance(term.value, str):
            domain = schema.domain_of(term.attribute)
            code = domain.codes.get(term.value) if isinstance(domain, Ordered) else None
            if isinstance(domain, Ordered) and code is not None:
                bounds.append((number, term, domain, code))
        number += _leaves(term)
    for place, (number, one, domain, code) in enumerate(bounds):
        for _, other, _, other_code in bounds[:place]:
            opposite = (one.op in ("<", "<=")) != (other.op in ("<", "<="))
            if opposite and one.attribute == other.attribute and not domain.comparable(code, other_code):
                problem = f"Expected a value comparable with {other.value!r}, but got {one.value!r}"
                yield number, Misfit("incomparable", one.attribute, problem, "value")


def _leaves(expression: Expression) -> int:
    count, stack = 0, [expression]
    while stack:
        node = stack.pop()
        if isinstance(node, Not):
            stack.append(node.term)
        elif isinstance(node, And | Or):
            stack += node.terms
        else:
            count += 1
    return count


def _misfit(schema: Schema, node: Predicate) -> Misfit | None:
    if isinstance(node, Constant):
        return None
    if isinstance(node, CompareAttributes):
        return _link_misfit(schema, node)
    domain = schema.domain_of(node.attribute)
    if domain is None:
        return _unknown(schema, node.attribute, "attribute")
    if isinstance(node, IsNull | IsMissing):
        return None
    operator = node.op if isinstance(node, Compare) else _WORDS[type(node)]
    if operator not in domain.operators:
        return _lacking(domain, node.attribute, operator)
    values: Sequence[Value | None] = ()
    if isinstance(node, Compare):
        values = (node.value,)
    elif isinstance(node, In | Contains):
        values = node.values
    for place, value in enumerate(values):
        if value is not None:
            problem = _value_misfit(domain, node.attribute, operator, value, place)
            if problem is not None:
                return problem
    return None


def _unknown(schema: Schema, name: str, part: Part) -> Misfit:
    names = [*schema.attributes, schema.type_attribute]
    below = [known for known in names if known.startswith(f"{name}.")][:1]
    hint = f"; did you mean {below[0]!r}?" if below else did_you_mean(name, names)
    return Misfit("unknown-attribute", name, f"Expected an attribute of the schema, but got {name!r}{hint}", part)


def _lacking(domain: Domain, name: str, operator: str) -> Misfit:
    kind = domain.definition()["kind"]
    known = ", ".join(sorted(domain.operators, key=_OPERATORS.index))
    problem = f"Expected an operator of the {kind} domain of {name!r} ({known}), but got {operator}"
    return Misfit("no-operator", name, problem, "operator")


def _value_misfit(domain: Domain, name: str, operator: str, value: Value, place: int) -> Misfit | None:
    key = key_of(value)
    code = domain.code(key)
    if code is None:
        reason: Reason = "outside-domain" if domain.is_of_type(key) else "wrong-type"
        hint = did_you_mean(value, domain.suggestions()) if isinstance(value, str) else ""
        problem = f"Expected {domain.expected} for {name!r}, but got {key_text(key)}{hint}"
        return Misfit(reason, name, problem, "value", place)
    if operator in ORDER and isinstance(domain, Ordered) and len(domain.words) > 1:
        number = int(code[1])
        if not domain.runs("<", number) and not domain.runs(">", number):
            problem = f"Expected a value with others below or above it, but {value!r} is comparable with none"
            return Misfit("incomparable", name, problem, "value", place)
    return None


def _link_misfit(schema: Schema, node: CompareAttributes) -> Misfit | None:
    left, right = schema.domain_of(node.left), schema.domain_of(node.right)
    if left is None:
        return _unknown(schema, node.left, "attribute")
    if right is None:
        return _unknown(schema, node.right, "other")
    for name, domain in ((node.left, left), (node.right, right)):
        if node.op not in domain.operators:
            return _lacking(domain, name, node.op)
    same = left == right if isinstance(left, Ordered) or isinstance(right, Ordered) else left.rank == right.rank
    if not same:
        problem = f"Expected an attribute to compare {node.left!r} with ({left}), but {node.right!r} is {right}"
        return Misfit("wrong-type", node.right, problem, "other")
    if isinstance(left, Ordered) and not left.is_total and node.op in ORDER:
        size = len(left.words)
        if size > FILTER_CONJUNCTIONS.value:
            problem = (
                f"Expected a domain of at most {FILTER_CONJUNCTIONS.value:,} values to compare two attributes in its "
                f"order, but that of {node.left!r} has {size:,}"
            )
            return Misfit("no-operator", node.left, problem, "operator")
    return None
