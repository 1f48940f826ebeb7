"""Admission: a filter that is to be added, parsed, with its text, and within the limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whimbrel.engine.intake.subscriptions import fitted
from whimbrel.model.expression import And, Compare, EndsWith, Expression, In, IsMissing, IsNull, StartsWith
from whimbrel.model.filter import Filter
from whimbrel.model.limits import FILTER_BYTES

if TYPE_CHECKING:
    from whimbrel.model.schema import Schema

SMALL = 256
"""Plain predicates of a filter that need not be counted against the limits."""
_PLAIN = (Compare, In, StartsWith, EndsWith, IsNull, IsMissing)
"""Predicates that are one constraint each."""


def admitted(filter: object, dialect: str, schema: Schema | None) -> tuple[Filter, str]:
    """The filter and its text; what exceeds a limit is refused here, not at a later match."""
    parsed = fitted(filter, schema) if isinstance(filter, Filter) else Filter.parse(filter, dialect, schema)
    text = parsed.text
    if schema is not None:  # without the text, from which a segment would be made that knows no schema
        parsed = Filter(parsed.expression, None, parsed.dialect, schema)
    if text is None or schema is not None or not _is_small(parsed.expression):
        _ = parsed.conjunctions
    if text is None:
        text = str(parsed)
        FILTER_BYTES.check(len(text.encode()))
    return parsed, text


def _is_small(expression: Expression) -> bool:
    """Whether the normal form surely is within the limits: then it is not made, which would be most of an addition."""
    terms = expression.terms if isinstance(expression, And) else (expression,)
    return len(terms) <= SMALL and all(isinstance(term, _PLAIN) for term in terms)
