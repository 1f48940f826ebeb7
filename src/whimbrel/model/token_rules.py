"""Attribute rules of tokens: "may only see and publish events with tenant = 7".

A rule is a predicate that is AND-ed to every filter of the token, never text. Beyond that the attribute must have
exactly one value: an event with `{"tenant": [7, 8]}` satisfies `tenant = 7`, but is for nobody whose token has a rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from whimbrel.model.errors import WhimbrelError
from whimbrel.model.event import Event
from whimbrel.model.expression import And, Compare, Expression
from whimbrel.model.filter import Filter
from whimbrel.model.values import sort_key, to_value

Rules: TypeAlias = Mapping[str, str | int | float | bool]
"""The value that each of these attributes must have."""


def constrain(filter: Filter, rules: Rules) -> Filter:
    """The filter AND the rules; the filter itself if there are none."""
    if not rules:
        return filter
    terms: list[Expression] = [Compare(name, "=", to_value(value, name)) for name, value in rules.items()]
    return Filter(And((filter.expression, *terms)))


def allows(rules: Rules, event: Event) -> bool:
    """Whether every attribute of the rules has exactly the one value that is asked for."""
    wanted = ((name, to_value(value, name)) for name, value in rules.items())
    return all(value is not None and event.keys(name) == (sort_key(value),) for name, value in wanted)


def allows_text(rules: Rules, raw: bytes, timestamps: Iterable[str] = ()) -> bool:
    """`allows` of an event in JSON. One that cannot be read whole, or has a key twice, is not allowed by any rule."""
    if not rules:
        return True
    try:
        return allows(rules, Event.of(raw, timestamps))
    except WhimbrelError:
        return False
