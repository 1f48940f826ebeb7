"""The filter dialects of the CloudEvents Subscriptions API, as expressions: exact, prefix, suffix, all, any, not.

They are two-valued: a test of an attribute that an event lacks is false, and its negation true. Negation is therefore
pushed to the leaves here, where `not exact` becomes "has no such value" and `not prefix` "is missing, or does not start
with it". Attributes of CloudEvents are scalars; where an event breaks that rule with a list, each value counts alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from whimbrel.broker.requests.errors import Unprocessable
from whimbrel.model.expression import And, Contains, EndsWith, Expression, In, IsNull, Not, Or, StartsWith
from whimbrel.model.limits import FILTER_DEPTH
from whimbrel.model.values import Value

_NAME = re.compile(r"[a-z0-9]{1,64}")
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_DIALECTS = ("exact", "prefix", "suffix", "all", "any", "not")


def subscription_filter(
    filters: Sequence[object] | None, source: str | None, types: Sequence[str] | None
) -> list[Expression]:
    """The terms, all of which must hold, of a subscription's `filters`, `source` and `types`."""
    terms: list[Expression] = []
    if source is not None:
        terms.append(In("source", (source,)))
    if types:
        terms.append(In("type", tuple(types)))
    terms += [_expression(item, True, f"$.filters[{place}]", 0) for place, item in enumerate(filters or ())]
    return terms


def _expression(item: object, positive: bool, path: str, depth: int) -> Expression:
    """The expression of a filter object, or of its negation."""
    FILTER_DEPTH.check(depth, path)
    if not isinstance(item, Mapping) or len(item) != 1:
        raise _refused("an object with one dialect", item, path)
    ((dialect, content),) = item.items()
    path = f"{path}.{dialect}"
    if dialect == "not":
        return _expression(content, not positive, path, depth + 1)
    if dialect in ("all", "any"):
        if not isinstance(content, Sequence) or isinstance(content, str) or not content:
            raise _refused("an array of at least one filter", content, path)
        terms = [_expression(part, positive, f"{path}[{at}]", depth + 1) for at, part in enumerate(content)]
        if len(terms) == 1:
            return terms[0]
        return And(tuple(terms)) if (dialect == "all") == positive else Or(tuple(terms))
    if dialect not in _DIALECTS:
        hint = ' (CESQL); Whimbrel\'s own SQL stands in the field "filter"' if dialect == "sql" else ""
        raise Unprocessable(
            f"Expected a dialect of {', '.join(_DIALECTS)}, but got {dialect!r}{hint} - at {path}",
            "unsupported-dialect",
        )
    if not isinstance(content, Mapping) or not content:
        raise _refused("an object of attributes and values", content, path)
    leaves = [_leaf(dialect, name, text, positive, path) for name, text in content.items()]
    if len(leaves) == 1:
        return leaves[0]
    return And(tuple(leaves)) if positive else Or(tuple(leaves))


def _leaf(dialect: str, name: object, text: object, positive: bool, path: str) -> Expression:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name == "data":
        raise _refused("the name of a CloudEvents attribute (a-z, 0-9)", name, path)
    if not isinstance(text, str) or not text:
        raise _refused("a text of at least one character", text, f"{path}.{name}")
    if dialect == "exact":
        values = _spellings(text)
        return In(name, values) if positive else Or((IsNull(name), Contains(name, "NONE", values)))
    leaf = StartsWith(name, text) if dialect == "prefix" else EndsWith(name, text)
    return leaf if positive else Or((IsNull(name), Not(leaf)))


def _spellings(text: str) -> tuple[Value, ...]:
    """The values whose canonical text this is: attributes may also be integers and booleans."""
    if _INTEGER.fullmatch(text) and text != "-0":
        return (text, int(text))
    if text in ("true", "false"):
        return (text, text == "true")
    return (text,)


def _refused(expected: str, found: object, path: str) -> Unprocessable:
    shown = repr(found)
    return Unprocessable(
        f"Expected {expected}, but got {shown if len(shown) < 80 else shown[:80] + '...'} - at {path}", "invalid-filter"
    )
