"""SIENA's filters: constraints of a name, an operator and a value, all of which must hold.

The normal form of the filter is the paper's normalisation: constraints on one attribute become one set of values,
redundant ones vanish, contradictions match nothing. Two `=` on one attribute are no contradiction in SIENA: they test
a list.

A. Carzaniga, D. S. Rosenblum, A. L. Wolf: Design and Evaluation of a Wide-Area Event Notification Service, ACM TOCS
2001.
"""

from __future__ import annotations

from collections.abc import Iterable

from whimbrel.model import expression as ex
from whimbrel.model.errors import FilterError
from whimbrel.model.expression import Expression
from whimbrel.model.filter import Filter
from whimbrel.model.values import Value

OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "prefix", "suffix", "substring", "any")


def siena_filter(constraints: Iterable[tuple[str, str, Value | None]]) -> Filter:
    """The filter of SIENA's constraints; the value of `any` is ignored.

    >>> str(siena_filter([("x", ">", 5), ("x", ">", 2), ("y", ">", 3)]))
    'x > 5 AND y > 3'
    >>> siena_filter([("x", "=", 5), ("x", "=", 6)]).matches({"x": [5, 6]})
    True
    """
    terms: list[Expression] = []
    equal: dict[str, list[Value]] = {}
    for name, operator, value in constraints:
        if operator == "=" and value is not None:
            equal.setdefault(name, []).append(value)
        else:
            terms.append(_predicate(name, operator, value))
    for name, values in equal.items():
        members = tuple(dict.fromkeys(values))
        terms.append(ex.Compare(name, "=", members[0]) if len(members) == 1 else ex.Contains(name, "ALL", members))
    return Filter(ex.And(tuple(terms)) if terms else ex.Constant(True))


def _predicate(name: str, operator: str, value: Value | None) -> Expression:
    if operator == "any":
        return ex.Not(ex.IsNull(name))
    if operator in ("prefix", "suffix", "substring"):
        if not isinstance(value, str):
            raise FilterError(f"Expected a string after {operator}, but got {type(value).__name__} - at {name}")
        if operator == "prefix":
            return ex.StartsWith(name, value)
        if operator == "suffix":
            return ex.EndsWith(name, value)
        escaped = "".join("\\" + letter if letter in "\\%_" else letter for letter in value)
        return ex.Like(name, f"%{escaped}%")
    match operator:
        case "!=" | "<" | "<=" | ">" | ">=" if value is not None:
            return ex.Compare(name, operator, value)
        case _:
            raise FilterError(
                f"Expected an operator of {', '.join(OPERATORS)} and a value, but got {operator} {value!r}"
            )
