"""The columnar form back to filters, for tests that compare it with what the parser gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from whimbrel.language.columnar.terms import Column, Conjunctions, DictionaryStrings, Operand, SlotType, Term, TermGroup
from whimbrel.model.expression import (
    And,
    Compare,
    CompareAttributes,
    Constant,
    Contains,
    EndsWith,
    Expression,
    ILike,
    In,
    InCidr,
    IsMissing,
    IsNull,
    Like,
    Not,
    Or,
    RLike,
    StartsWith,
)
from whimbrel.model.filter import Filter
from whimbrel.model.patterns import plain_like
from whimbrel.model.values import Timestamp, Value, canonical_number

_TESTS: dict[str, Callable[[str, str], Expression]] = {
    "prefix": StartsWith,
    "suffix": EndsWith,
    "substring": lambda name, text: Like(name, f"%{plain_like(text)}%"),
    "network": InCidr,
    "like": Like,
    "ilike": ILike,
    "regex": RLike,
}


def filters_of(conjunctions: Conjunctions) -> dict[int, Filter]:
    """The filters by row."""
    terms: dict[int, Expression] = {}
    for group in conjunctions.groups:
        terms.update(zip(group.places.tolist(), _expressions(group), strict=True))
    found: dict[int, list[Expression]] = {}
    at = 0
    for row, count in zip(conjunctions.rows.tolist(), conjunctions.counts.tolist(), strict=True):
        uses = conjunctions.uses[at : at + count].tolist()
        found.setdefault(row, []).append(And(tuple(terms[use] for use in uses)))
        at += count
    return {row: Filter(Or(tuple(alternatives))) for row, alternatives in found.items()}


def _expressions(group: TermGroup) -> Iterator[Expression]:
    columns = [_values(column, kind) for column, kind in zip(group.columns, group.types, strict=True)]
    at = 0
    for use in range(len(group.places)):
        if group.lengths is None:
            yield _expression(group.term, [column[use] for column in columns])
        else:
            yield _expression(group.term, columns[0][at : at + int(group.lengths[use])], is_list=True)
            at += int(group.lengths[use])


def _values(column: Column, kind: SlotType) -> list[Value]:
    if isinstance(column, DictionaryStrings):
        return list(column)
    if kind == "timestamp":
        return [Timestamp(nanoseconds) for nanoseconds in column.tolist()]
    return [canonical_number(number) for number in column.tolist()]


def _expression(term: Term, values: Sequence[Value], is_list: bool = False) -> Expression:
    """A term as an expression, given the values of the slots, or of all members if it has a list."""
    name, kind = term.attribute, term.kind
    if kind in ("range", "outside"):
        return _range(term, values)
    if kind in ("always", "never"):
        return Constant(kind == "always")
    if kind in ("null", "not null", "missing", "present"):
        state = IsNull(name) if "null" in kind else IsMissing(name)
        return Not(state) if kind in ("not null", "present") else state
    if kind == "link":
        return CompareAttributes(name, term.op, term.other)
    literals = tuple(values) if is_list else tuple(_value(operand, values) for operand in term.operands)
    if kind in ("points", "excluded"):
        return Not(In(name, literals)) if kind == "excluded" else In(name, literals)
    if kind == "all":
        return Contains(name, "ALL", literals)
    if kind in ("any", "none"):
        return Contains(name, "ANY" if kind == "any" else "NONE", literals)
    tests = tuple(_TESTS[kind](name, str(text)) for text in literals)
    test = tests[0] if len(tests) == 1 else Or(tests)
    return Not(test) if term.negated else test


def _range(term: Term, values: Sequence[Value]) -> Expression:
    bounds: list[Expression] = []
    if term.lower is not None:
        bounds.append(Compare(term.attribute, ">=" if term.lower_inclusive else ">", _value(term.lower, values)))
    if term.upper is not None:
        bounds.append(Compare(term.attribute, "<=" if term.upper_inclusive else "<", _value(term.upper, values)))
    return Not(And(tuple(bounds))) if term.kind == "outside" else And(tuple(bounds))


def _value(operand: Operand, values: Sequence[Value]) -> Value | None:
    return operand.value if operand.slot is None else values[operand.slot]
