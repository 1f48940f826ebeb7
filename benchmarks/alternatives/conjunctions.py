"""Filters of the frozen workloads as lists of (attribute, operator, operand), without Whimbrel's parser."""

import math
import re

from whimbrel.lab.measure.matching.flat_filters import PREDICATE

Predicate = tuple[str, str, object]
"""The operators are =, !=, in, all (a list has all members) and between (both ends belong to it)."""

_INFINITY = 1e308


def conjunction(text: str) -> list[Predicate]:
    """Read one filter; anything but a conjunction of the workloads' predicates is an error."""
    return [_predicate(part) for part in re.sub(r"BETWEEN (\S+) AND ", r"BETWEEN \1 ~ ", text).split(" AND ")]


def _predicate(text: str) -> Predicate:
    found = re.match(PREDICATE, text)
    if found is None:
        raise ValueError(f"Expected a predicate of the workloads, but got {text!r}")
    name, operator, operand = found.groups()
    if operator in ("IN", "CONTAINS ALL"):
        members = [_value(member) for member in operand.strip("()").split(", ")]
        return name, "in" if operator == "IN" else "all", members
    if operator == "BETWEEN":
        return name, "between", [_value(bound) for bound in operand.split(" ~ ")]
    value = _value(operand)
    if operator in ("=", "!="):
        return name, operator, value
    assert isinstance(value, float)
    bounds = {
        "<": [-_INFINITY, math.nextafter(value, -_INFINITY)],
        "<=": [-_INFINITY, value],
        ">": [math.nextafter(value, _INFINITY), _INFINITY],
        ">=": [value, _INFINITY],
    }
    return name, "between", bounds[operator]


def _value(text: str) -> object:
    return text[1:-1] if text.startswith("'") else float(text)
