"""Dimensions whose domain is one of a schema: listed values, and numbers within a range.

The values of a boolean or enumerated domain have no order, so that a constraint is one value, whose cut is its place in
the list. A range refuses values and bounds outside of it (`NumericDomain`); what matches it does not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from whimbrel.model.schema.documents import read_domain
from whimbrel.model.schema.domains import Boolean, Enumeration, Number
from whimbrel.model.schema.errors import SchemaError
from whimbrel.model.values import Value, sort_key
from whimbrel.spaces.dimensions.dimension_domains import DOMAINS, DimensionDomain, IntegerDomain, NumberDomain
from whimbrel.spaces.dimensions.errors import RegionError
from whimbrel.spaces.dimensions.interval import Interval, read_value

DimensionType: TypeAlias = str | Mapping[str, object]
"""The name of a type, or the domain of a schema as a document defines it, such as {"kind": "integer", "minimum": 0}."""

PlainType: TypeAlias = str | dict[str, object]


class ListedDomain(DimensionDomain):
    """TRUE and FALSE, or listed texts. A constraint is one value."""

    text_is_point = True

    def __init__(self, domain: Boolean | Enumeration) -> None:
        self._domain = domain
        self.name = domain.kind
        self._values = _listed(domain)
        self._places = {sort_key(value): place for place, value in enumerate(self._values)}

    def cut(self, value: object, above: bool, path: str) -> int:
        place = self._places.get(sort_key(read_value(value, path)))
        if place is None:
            raise RegionError(self._domain.expected, repr(value), path)
        return place + above

    def interval(self, interval: Interval, path: str) -> tuple[int, int]:
        """Only an interval of one value is a constraint here."""
        if interval.low is None or interval.low != interval.high or interval.ends != "[]":
            raise RegionError("one value, because the domain has no order", str(interval), path)
        return self.point(interval.low, path)

    def show(self, low: int, high: int) -> Interval:
        return Interval(self._values[low], self._values[low])


def dimension_domain(kind: object) -> DimensionDomain:
    """The domain of a dimension of this type; ValueError that says what is wrong if there is none."""
    if isinstance(kind, str) and kind in DOMAINS:
        return DOMAINS[kind]()
    if kind == "boolean":
        return ListedDomain(Boolean())
    if not isinstance(kind, Mapping):
        raise ValueError(f"has the type {kind!r}, which is none of {', '.join(DOMAINS)}, boolean, or a domain")
    try:
        domain = read_domain(kind, "domain")
    except SchemaError as error:
        raise ValueError(f"has no domain: {error}") from None
    if isinstance(domain, Boolean | Enumeration):
        return ListedDomain(domain)
    if isinstance(domain, Number) and domain.kind != "decimal":
        return IntegerDomain(domain) if domain.kind == "integer" else NumberDomain(domain)
    if domain.kind in DOMAINS:
        return DOMAINS[domain.kind]()
    raise ValueError(f"has a domain of the kind {domain.kind!r}, which is no type of dimensions")


def plain_type(kind: DimensionType) -> PlainType:
    """The normalised type of a dimension, so that equal types compare equal: a domain becomes its definition."""
    return kind if isinstance(kind, str) else read_domain(kind, "domain").definition()


def _listed(domain: Boolean | Enumeration) -> tuple[Value, ...]:
    return domain.values if isinstance(domain, Enumeration) else (False, True)
