"""A quick look at an object: most that are valid are found valid without an `Event`, and get codes where they need any.

Nothing is refused here. What is not certainly valid, or odd (two types, a list of objects, an integer beyond 64 bits),
is left to the rules themselves (`typed_event`), which find every violation.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from typing import Any, NamedTuple

from whimbrel.model.limits import EVENT_ATTRIBUTES, EVENT_VALUES
from whimbrel.model.schema.definitions import SchemaDefinitions, Use, merge
from whimbrel.model.schema.domains import Boolean, Domain, Enumeration, Instant, Number
from whimbrel.model.schema.ordered import Ordered
from whimbrel.model.values import NUMBER, Timestamp, canonical_number, is_text

_UNSURE = object()
"""In the place of a value: it may be invalid."""
_DEEP = 16
"""Objects in one another that are looked at, at most."""
_LONG = 256
"""Members of a list that is looked at, at most."""
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1

_Check = Callable[[Any], Any]
"""A value as it is matched, which mostly is itself, or `_UNSURE`."""


class _TypeChecks(NamedTuple):
    """How events of one type are checked."""

    checks: dict[str, _Check]
    mandatory: frozenset[str]


class QuickCheck:
    """Checks objects by one state of a schema. Safe to use from many threads."""

    def __init__(self, state: SchemaDefinitions) -> None:
        self.state = state
        self.instants = frozenset(name for name, domain in state.attributes.items() if isinstance(domain, Instant))
        """The attributes whose texts are instants, which are left as texts."""
        self._by_type: dict[str, _TypeChecks] = {}
        default = state.default_type
        self._default = default if default in state.types else None

    def coded(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """A valid object as it is matched, with its type: perhaps itself, perhaps flat. None if that is not certain."""
        if self.state.own_type_attribute is not None or len(event) * _LONG > EVENT_VALUES.value:
            return None
        given = type = event.get(self.state.type_attribute)
        if type is None:
            type = self._default
        of_type = self._checks(type) if isinstance(type, str) else None
        if of_type is None:
            return self._coded_flat(event)
        changed: dict[str, Any] = {} if given is not None else {self.state.type_attribute: type}
        get = of_type.checks.get
        for name, value in event.items():
            check = get(name)
            if check is None:
                return self._coded_flat(event)
            made = check(value)
            if made is not value:
                if made is _UNSURE:
                    return None
                changed[name] = made
        if not of_type.mandatory <= event.keys():
            return None
        return {**event, **changed} if changed else event

    def _coded_flat(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """`coded` of an object with others in it; None if there are none."""
        flat = _flat(event) if any(isinstance(value, dict) for value in event.values()) else None
        return None if flat is None else self.coded(flat)

    def _checks(self, type: str) -> _TypeChecks | None:
        """The checks of a type; None if it is none."""
        found = self._by_type.get(type)
        if found is not None or type not in self.state.types:
            return found
        view = merge([self.state.types[type]])
        checks = {name: _check(self.state.attributes[name], use) for name, use in view.items()}
        checks[self.state.type_attribute] = lambda value: value
        mandatory = frozenset(name for name, use in view.items() if use.mandatory)
        made = self._by_type[type] = _TypeChecks(checks, mandatory)
        return made


def _flat(event: dict[str, Any]) -> dict[str, Any] | None:
    """An object with dots in the names in the place of objects in it; None if a name comes twice, or it is too deep."""
    flat: dict[str, Any] = {}
    return flat if _flatten(event, "", flat, _DEEP) and len(flat) <= EVENT_ATTRIBUTES.value else None


def _flatten(item: dict[str, Any], prefix: str, flat: dict[str, Any], depth: int) -> bool:
    for key, value in item.items():
        if type(key) is not str:
            return False
        name = prefix + key
        if isinstance(value, dict):
            if not depth or not _flatten(value, f"{name}.", flat, depth - 1):
                return False
        elif name in flat:
            return False
        else:
            flat[name] = value
    return True


def _check(domain: Domain, use: Use) -> _Check:
    """The check of an attribute: of its value, of null, and of a list if it may have several values."""
    one = _check_one(domain)

    def check(value: Any) -> Any:
        made = one(value)
        if made is not _UNSURE:
            return made
        if value is None:
            return _UNSURE if use.mandatory else None
        if type(value) is not list or not use.multiple or not 0 < len(value) <= _LONG:
            return _UNSURE
        members = list(map(one, value))
        if _UNSURE in members:
            return _UNSURE
        return value if members == value else members

    return check


def _check_one(domain: Domain) -> _Check:
    """The check of one value that is not null."""
    if isinstance(domain, Number):
        return _number_check(domain)
    if isinstance(domain, Boolean):
        return lambda value: value if type(value) is bool else _UNSURE
    if isinstance(domain, Enumeration):
        members = domain.members
        return lambda value: value if type(value) is str and value in members else _UNSURE
    if isinstance(domain, Ordered):
        codes = domain.codes
        return lambda value: codes.get(value, _UNSURE) if type(value) is str else _UNSURE
    if isinstance(domain, Instant):
        return _instant
    return lambda value: value if type(value) is str and (value.isascii() or is_text(value)) else _UNSURE


def _number_check(domain: Number) -> _Check:
    least = _LEAST if domain.minimum is None else max(domain.minimum, _LEAST)
    most = _MOST if domain.maximum is None else min(domain.maximum, _MOST)

    def check(value: Any) -> Any:
        if type(value) is int:
            return value if least <= value <= most else _UNSURE
        if type(value) is not float or isnan(value):
            return _UNSURE
        return value if domain.code((NUMBER, canonical_number(value))) is not None else _UNSURE

    return check


def _instant(value: Any) -> Any:
    if type(value) is str:
        try:
            Timestamp.parse(value)
        except ValueError:
            return _UNSURE
        return value
    return _UNSURE
