"""The check of a filter against a schema: whether its attributes, values and operators fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from whimbrel.model import dialects
from whimbrel.model import expression as ex
from whimbrel.model.expression import Expression
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

_WORDS: dict[type[ex.Predicate], str] = {
    ex.In: "IN",
    ex.Contains: "CONTAINS",
    ex.Like: "LIKE",
    ex.ILike: "ILIKE",
    ex.StartsWith: "STARTS WITH",
    ex.EndsWith: "ENDS WITH",
    ex.RLike: "RLIKE",
    ex.InCidr: "IN CIDR",
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
    bounds: dict[int, list[tuple[ex.Compare, int]]] = {}
    """The order comparisons of each AND, with the codes of their values."""
    stack: list[tuple[Expression, int]] = [(expression, 0)]
    while stack:
        node, conjunction = stack.pop()
        if isinstance(node, ex.Not):
            stack.append((node.term, 0))
        elif isinstance(node, ex.And | ex.Or):
            inside = id(node) if isinstance(node, ex.And) else 0
            stack += [(term, inside) for term in reversed(node.terms)]
        else:
            apart = None
            if conjunction and isinstance(node, ex.Compare):
                apart = _apart(schema, node, bounds.setdefault(conjunction, []))
            if (misfit := apart or _misfit(schema, node)) is not None:
                yield number, misfit
            number += 1


def _apart(schema: Schema, node: ex.Compare, bounds: list[tuple[ex.Compare, int]]) -> Misfit | None:
    """Find two bounds of one AND, such as the two of BETWEEN, that are incomparable: no value lies between them."""
    domain = schema.domain_of(node.attribute)
    if node.op not in ORDER or not isinstance(domain, Ordered) or node.value not in domain.codes:
        return None
    code = domain.codes[str(node.value)]
    for other, other_code in bounds:
        opposite = (node.op in ("<", "<=")) != (other.op in ("<", "<="))
        if opposite and node.attribute == other.attribute and not domain.comparable(code, other_code):
            problem = f"Expected a value comparable with {other.value!r}, but got {node.value!r}"
            return Misfit("incomparable", node.attribute, problem, "value")
    bounds.append((node, code))
    return None


def _misfit(schema: Schema, node: ex.Predicate) -> Misfit | None:
    if isinstance(node, ex.Constant):
        return None
    if isinstance(node, ex.CompareAttributes):
        return _link_misfit(schema, node)
    domain = schema.domain_of(node.attribute)
    if domain is None:
        return _unknown(schema, node.attribute, "attribute")
    if isinstance(node, ex.IsNull | ex.IsMissing):
        return None
    operator = node.op if isinstance(node, ex.Compare) else _WORDS[type(node)]
    if operator not in domain.operators:
        return _lacking(domain, node.attribute, operator)
    values: Sequence[Value | None] = ()
    if isinstance(node, ex.Compare):
        values = (node.value,)
    elif isinstance(node, ex.In | ex.Contains):
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
    known = ", ".join(sorted(domain.operators, key=_OPERATORS.index))
    problem = f"Expected an operator of the {domain.kind} domain of {name!r} ({known}), but got {operator}"
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


def _link_misfit(schema: Schema, node: ex.CompareAttributes) -> Misfit | None:
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
