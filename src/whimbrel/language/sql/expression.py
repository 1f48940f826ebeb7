"""An expression tree as SQL text, as it stands: for filters whose normal form is too large to write."""

from __future__ import annotations

from collections.abc import Sequence

from whimbrel.language.sql.literals import name_text, string_text, value_text
from whimbrel.language.sql.value_sets import Text, all_of, any_of
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
from whimbrel.model.values import Value

_CONSTANTS = {True: "TRUE", False: "FALSE", None: "NULL"}


def expression_text(expression: Expression) -> str:
    """The text of an expression, which parses to an equal filter.

    >>> expression_text(And((Compare("a", "<", 5), Not(Or((IsNull("b"), In("c", (1, "x"))))))))
    "a < 5 AND NOT (b IS NULL OR c IN (1, 'x'))"
    """
    return _text(expression).text


def _text(node: Expression) -> Text:
    if isinstance(node, And):
        return all_of([_text(term) for term in node.terms]) if node.terms else Text("TRUE")
    if isinstance(node, Or):
        return any_of([_text(term) for term in node.terms]) if node.terms else Text("FALSE")
    if isinstance(node, Not):
        inner = _text(node.term)
        return Text(f"NOT {inner.text}" if isinstance(node.term, Predicate) else f"NOT ({inner.text})")
    return Text(_predicate(node))


def _predicate(node: Predicate) -> str:
    if isinstance(node, Constant):
        return _CONSTANTS[node.value]
    if isinstance(node, CompareAttributes):
        return f"{name_text(node.left)} {node.op} {name_text(node.right)}"
    name = name_text(node.attribute)
    match node:
        case Compare(_, op, value):
            return f"{name} {op} {value_text(value)}"
        case In(_, values):
            return f"{name} IN {_list(values)}"
        case Contains(_, quantifier, values):
            return f"{name} CONTAINS {quantifier} {_list(values)}"
        case Like(_, pattern, escape):
            return f"{name} LIKE {string_text(pattern)}" + ("" if escape == "\\" else f" ESCAPE {string_text(escape)}")
        case StartsWith(_, text):
            return f"{name} STARTS WITH {string_text(text)}"
        case EndsWith(_, text):
            return f"{name} ENDS WITH {string_text(text)}"
        case RLike(_, regex):
            return f"{name} RLIKE {string_text(regex)}"
        case InCidr(_, network):
            return f"{name} IN CIDR {string_text(network)}"
        case IsNull():
            return f"{name} IS NULL"
        case IsMissing():
            return f"{name} IS MISSING"


def _list(values: Sequence[Value | None]) -> str:
    return f"({', '.join(map(value_text, values))})"
