"""Filters of the frozen workloads as lists of (attribute, operator, operand), without Whimbrel's parser."""

import math
import re

Predicate = tuple[str, str, object]
"""The operators are =, !=, in, all (a list has all members) and between (both ends belong to it)."""

_BEGIN = re.compile(r"(\w+) (!=|<=|>=|=|<|>|IN|BETWEEN|CONTAINS ALL) ")
_LIST = re.compile(r"\(([^)]*)\)")
_BOUNDS = re.compile(r"(\S+) AND (\S+)")
_LITERAL = re.compile(r"'[^']*'|\S+")
_INFINITY = 1e308


def conjunction(text: str) -> list[Predicate]:
    """Read one filter; anything but a conjunction of the workloads' predicates is an error."""
    found: list[Predicate] = []
    place = 0
    while place < len(text):
        begin = _expect(_BEGIN, text, place)
        name, operator = begin[1], begin[2]
        if operator in ("IN", "CONTAINS ALL"):
            operand = _expect(_LIST, text, begin.end())
            members = [_value(member.strip()) for member in operand[1].split(",")]
            found.append((name, "in" if operator == "IN" else "all", members))
        elif operator == "BETWEEN":
            operand = _expect(_BOUNDS, text, begin.end())
            found.append((name, "between", [_value(operand[1]), _value(operand[2])]))
        else:
            operand = _expect(_LITERAL, text, begin.end())
            found.append((name, *_comparison(operator, _value(operand[0]))))
        place = operand.end()
        if place < len(text):
            place = _expect(re.compile(" AND "), text, place).end()
    return found


def _comparison(operator: str, value: object) -> tuple[str, object]:
    if operator in ("=", "!="):
        return operator, value
    assert isinstance(value, float)
    bounds = {
        "<": [-_INFINITY, math.nextafter(value, -_INFINITY)],
        "<=": [-_INFINITY, value],
        ">": [math.nextafter(value, _INFINITY), _INFINITY],
        ">=": [value, _INFINITY],
    }
    return "between", bounds[operator]


def _value(text: str) -> object:
    return text[1:-1] if text.startswith("'") else float(text)


def _expect(pattern: re.Pattern[str], text: str, place: int) -> re.Match[str]:
    match = pattern.match(text, place)
    if match is None:
        raise ValueError(f"Expected a predicate of the workloads, but got {text[place:]!r}")
    return match
