"""An independent judge: DESIGN's semantics by brute force over every binding, on the expression tree itself.

Shares nothing with the product but the expression classes and `Timestamp`. Slow on purpose.
"""

from __future__ import annotations

import ipaddress
import itertools
import math
import re
from collections.abc import Iterator
from typing import Any

from whimbrel.model import expression as x
from whimbrel.model.values import Timestamp

Scope = tuple[dict[str, list[Any]], dict[str, list[Any]]]


def matches(expression: x.Expression, event: dict[str, Any]) -> bool:
    """Whether the expression is true under some binding of the event."""
    return True in outcomes(expression, event)


def outcomes(expression: x.Expression, event: dict[str, Any]) -> set[bool | None]:
    """What the expression comes to under each binding: True, False or None for unknown."""
    scope: Scope = ({}, {})
    for key, value in event.items():
        _read(key, value, scope)
    whole: dict[str, list[Any]] = {}
    _whole(scope, whole)
    found = set()
    for world in _worlds(scope):
        names = [name for name, values in world.items() if any(v is not None for v in values)]
        for picks in itertools.product(*([v for v in world[name] if v is not None] for name in names)):
            found.add(_eval(expression, dict(zip(names, picks, strict=True)), whole))
    return found


def same(left: Any, right: Any) -> bool:
    """Whether two values are one: of the same type and equal by exact value."""
    return _type(left) == _type(right) and bool(left == right)


def _type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return {int: "number", float: "number", str: "string", Timestamp: "timestamp"}[type(value)]


def _read(name: str, value: Any, scope: Scope) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _read(f"{name}.{key}", inner, scope)
    elif isinstance(value, list):
        for member in value:
            if isinstance(member, dict):
                element: Scope = ({}, {})
                for key, inner in member.items():
                    _read(f"{name}.{key}", inner, element)
                scope[1].setdefault(name, []).append(element)
            else:
                _read(name, member, scope)
    else:
        is_null = value is None or (isinstance(value, float) and math.isnan(value))
        scope[0].setdefault(name, []).append(None if is_null else value)


def _whole(scope: Scope, out: dict[str, list[Any]]) -> None:
    for name, values in scope[0].items():
        out.setdefault(name, []).extend(values)
    for elements in scope[1].values():
        for element in elements:
            _whole(element, out)


def _worlds(scope: Scope) -> Iterator[dict[str, list[Any]]]:
    choices = [[world for element in elements for world in _worlds(element)] for elements in scope[1].values()]
    for picks in itertools.product(*choices):
        world = {name: list(values) for name, values in scope[0].items()}
        for pick in picks:
            for name, values in pick.items():
                world.setdefault(name, []).extend(values)
        yield world


def _eval(e: x.Expression, binding: dict[str, Any], whole: dict[str, list[Any]]) -> bool | None:
    if isinstance(e, x.Not):
        inner = _eval(e.term, binding, whole)
        return None if inner is None else not inner
    if isinstance(e, x.And | x.Or):
        results = [_eval(t, binding, whole) for t in e.terms]
        absorbing = isinstance(e, x.Or)
        if absorbing in results:
            return absorbing
        return None if None in results else not absorbing
    return _leaf(e, binding, whole)


def _leaf(e: x.Predicate, binding: dict[str, Any], whole: dict[str, list[Any]]) -> bool | None:
    if isinstance(e, x.Constant):
        return e.value
    if isinstance(e, x.CompareAttributes):
        if e.left not in binding or e.right not in binding:
            return None
        return _compare(binding[e.left], e.op, binding[e.right])
    values = whole.get(e.attribute, [])
    some = [v for v in values if v is not None]
    if isinstance(e, x.IsNull):
        return not some
    if isinstance(e, x.IsMissing):
        return not values
    if isinstance(e, x.Contains):
        return _contains(e, values, some)
    if e.attribute not in binding:
        return None
    value = binding[e.attribute]
    if isinstance(e, x.Compare):
        return None if e.value is None else _compare(value, e.op, e.value)
    if isinstance(e, x.In):
        results = [None if m is None else same(value, m) for m in e.values]
        return True if True in results else (None if None in results else False)
    return isinstance(value, str) and _text(e, value)


def _text(e: x.Predicate, value: str) -> bool:
    if isinstance(e, x.Like):
        return re.fullmatch(like_regex(e.pattern, e.escape), value, re.DOTALL) is not None
    if isinstance(e, x.ILike):
        lower = "".join(letter.lower()[0] for letter in value)
        pattern = "".join(letter if letter == e.escape else letter.lower()[0] for letter in e.pattern)
        return re.fullmatch(like_regex(pattern, e.escape), lower, re.DOTALL) is not None
    if isinstance(e, x.StartsWith):
        return value[: len(e.text)] == e.text
    if isinstance(e, x.EndsWith):
        return value[len(value) - len(e.text) :] == e.text if len(e.text) <= len(value) else False
    if isinstance(e, x.RLike):
        return re.search(e.regex, value) is not None
    assert isinstance(e, x.InCidr)
    try:
        return ipaddress.ip_address(value) in ipaddress.ip_network(e.network, strict=False)
    except ValueError:
        return False


def _contains(e: x.Contains, values: list[Any], some: list[Any]) -> bool | None:
    def one(member: Any) -> bool | None:
        if not values or (member is not None and not some):
            return None
        return None in values if member is None else any(same(v, member) for v in some)

    results = [one(m) for m in e.values]
    if e.quantifier == "ALL":
        return False if False in results else (None if None in results else True)
    found = True if True in results else (None if None in results else False)
    return found if e.quantifier == "ANY" or found is None else not found


def _compare(left: Any, op: str, right: Any) -> bool | None:
    if op in ("=", "!="):
        return same(left, right) == (op == "=")
    if _type(left) != _type(right) or isinstance(left, bool):
        return None
    return bool({"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[op])


def like_regex(pattern: str, escape: str) -> str:
    """The regular expression that a LIKE pattern stands for."""
    out, characters = "", iter(pattern)
    for c in characters:
        if escape and c == escape:
            out += re.escape(next(characters))
        else:
            out += {"%": ".*", "_": "."}.get(c, re.escape(c))
    return out
