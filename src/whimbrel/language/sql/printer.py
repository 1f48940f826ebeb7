"""Prints the canonical SQL text of a filter: its normal form, written the way a person would.

Equal filters print the same text, and the text parses to an equal filter. If the normal form exceeds the limits of the
language, the expression is written as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from whimbrel.language.sql.literals import name_text, pattern_text, string_text, value_text
from whimbrel.language.sql.value_sets import SqlText, all_of, any_of, chunks, coded_tests, in_words, set_text
from whimbrel.model import expression as ex
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.constraint import NULL_KEY, Constraint
from whimbrel.model.errors import LimitExceeded
from whimbrel.model.expression import Expression, Predicate
from whimbrel.model.filter import Filter
from whimbrel.model.intervals import ALL, STRINGS, IntervalSet
from whimbrel.model.limits import FILTER_BYTES, FILTER_PREDICATES
from whimbrel.model.patterns import LikePattern
from whimbrel.model.values import Value

if TYPE_CHECKING:
    from whimbrel.model.event_schema import CodedDomain, EventSchema


def print_filter(filter: Filter) -> str:
    """The canonical text; if it would pass a limit, the text that the filter was parsed from, or its expression."""
    try:
        text = _canonical_text(filter.conjunctions, filter.schema)
    except LimitExceeded:  # from the normal form
        text = None
    if text is not None:
        return text
    if filter.text is not None and filter.dialect == "sql":
        return filter.text
    return expression_text(filter.expression)


def _canonical_text(conjunctions: Sequence[Conjunction], schema: EventSchema | None) -> str | None:
    """The normal form as text, or None if that is too large to parse again."""
    if not conjunctions:
        return "FALSE"
    written: list[SqlText] = []
    size = predicates = 0
    for conjunction in conjunctions:
        written.append(conjunction_text(conjunction, schema))
        text = written[-1].text
        size += len(text)
        predicates += text.count(" AND ") + text.count(" OR ") + 1  # at most: strings may have such words
        if size > FILTER_BYTES.value or predicates > FILTER_PREDICATES.value:
            return None
    text = any_of(written).text
    return text if len(text.encode()) <= FILTER_BYTES.value else None


def conjunction_text(conjunction: Conjunction, schema: EventSchema | None = None) -> SqlText:
    """A conjunction: attributes in order of their names, then comparisons between attributes.

    `schema` gives the words that codes stand for.
    """
    parts = [
        _constraint_text(name_text(name), constraint, None if schema is None else schema.order_of(name))
        for name, constraint in conjunction.constraints
    ]
    parts += [SqlText(f"{name_text(link.left)} {link.op} {name_text(link.right)}") for link in conjunction.links]
    return all_of(parts) if parts else SqlText("TRUE")


def _constraint_text(name: str, constraint: Constraint, order: CodedDomain | None = None) -> SqlText:
    """One attribute's constraint: its tests of values and members, OR the states (null, missing) that it admits."""
    null = constraint.null
    alternatives: list[SqlText] = []
    if constraint.values:
        tests = _value_tests(name, constraint) if order is None else coded_tests(name, constraint, order)
        sees_null = not tests and not constraint.forbidden and all(NULL_KEY in g for g in constraint.required)
        tests += _member_tests(name, constraint if order is None else in_words(constraint, order))
        if not tests and null and not constraint.missing:
            return SqlText(f"{name} IS NOT MISSING")
        if not tests or (sees_null and not null):
            tests.append(SqlText(f"{name} IS NOT NULL"))
        elif sees_null:  # CONTAINS NULL admits that state by itself
            null = False
        alternatives.append(all_of(tests))
    if null:
        state = SqlText(f"{name} IS NULL")
        alternatives.append(state if constraint.missing else all_of([state, SqlText(f"{name} IS NOT MISSING")]))
    elif constraint.missing:
        alternatives.append(SqlText(f"{name} IS MISSING"))
    return any_of(alternatives)


def _value_tests(name: str, constraint: Constraint) -> list[SqlText]:
    """The tests of the value that a binding picks."""
    implied = STRINGS if constraint.include else ALL
    for pattern in constraint.include:
        if isinstance(pattern, LikePattern):
            implied = implied.intersect(IntervalSet.prefix(pattern.segments[0][0]))
    tests = [SqlText(f"{name} {pattern_text(pattern)}") for pattern in constraint.include]
    tests += [SqlText(f"{name} NOT {pattern_text(pattern)}") for pattern in constraint.exclude]
    if constraint.values != implied or (constraint.bound and not tests):
        tests.insert(0, set_text(name, constraint.values))
    return tests


def _member_tests(name: str, constraint: Constraint) -> list[SqlText]:
    """The tests of the whole set of values."""
    tests: list[SqlText] = []
    single = [key for group in constraint.required if len(group) == 1 for key in group]
    for literals in chunks(single):
        many = f"ALL ({', '.join(literals)})" if len(literals) > 1 else literals[0]
        tests.append(SqlText(f"{name} CONTAINS {many}"))
    for group in sorted(sorted(group) for group in constraint.required if len(group) > 1):
        literals = [literal for chunk in chunks(group) for literal in chunk]
        tests.append(SqlText(f"{name} CONTAINS ANY ({', '.join(literals)})"))
    tests += [SqlText(f"{name} CONTAINS NONE ({', '.join(literals)})") for literals in chunks(constraint.forbidden)]
    return tests


def expression_text(expression: Expression) -> str:
    """The text of an expression, which parses to an equal filter.

    >>> expression_text(ex.And((ex.Compare("a", "<", 5), ex.Not(ex.Or((ex.IsNull("b"), ex.In("c", (1, "x"))))))))
    "a < 5 AND NOT (b IS NULL OR c IN (1, 'x'))"
    """
    return _expression(expression).text


def _expression(node: Expression) -> SqlText:
    if isinstance(node, ex.And):
        return all_of([_expression(term) for term in node.terms]) if node.terms else SqlText("TRUE")
    if isinstance(node, ex.Or):
        return any_of([_expression(term) for term in node.terms]) if node.terms else SqlText("FALSE")
    if isinstance(node, ex.Not):
        inner = _expression(node.term)
        return SqlText(f"NOT {inner.text}" if isinstance(node.term, Predicate) else f"NOT ({inner.text})")
    return SqlText(_predicate_text(node))


def _predicate_text(node: Predicate) -> str:
    if isinstance(node, ex.Constant):
        return value_text(node.value)
    if isinstance(node, ex.CompareAttributes):
        return f"{name_text(node.left)} {node.op} {name_text(node.right)}"
    name = name_text(node.attribute)
    match node:
        case ex.Compare(_, op, value):
            return f"{name} {op} {value_text(value)}"
        case ex.In(_, values):
            return f"{name} IN {_literals(values)}"
        case ex.Contains(_, quantifier, values):
            return f"{name} CONTAINS {quantifier} {_literals(values)}"
        case ex.Like(_, pattern, escape) | ex.ILike(_, pattern, escape):
            word = "LIKE" if isinstance(node, ex.Like) else "ILIKE"
            escaped = "" if escape == "\\" else f" ESCAPE {string_text(escape)}"
            return f"{name} {word} {string_text(pattern)}{escaped}"
        case ex.StartsWith(_, text):
            return f"{name} STARTS WITH {string_text(text)}"
        case ex.EndsWith(_, text):
            return f"{name} ENDS WITH {string_text(text)}"
        case ex.RLike(_, regex):
            return f"{name} RLIKE {string_text(regex)}"
        case ex.InCidr(_, network):
            return f"{name} IN CIDR {string_text(network)}"
        case ex.IsNull():
            return f"{name} IS NULL"
        case ex.IsMissing():
            return f"{name} IS MISSING"


def _literals(values: Sequence[Value | None]) -> str:
    return f"({', '.join(map(value_text, values))})"
