"""The definitions of a schema at one version, and the four rules by which they grow.

A domain is created, an attribute is created, an event type gets one more attribute, which must be optional, or an event
type is created (Le Subscribe; docs/papers.md). Nothing is changed or removed, so valid events and filters stay valid.
The same definition again is no change; another definition of the same name is a conflict.

A view is a set of event types, and how an event of all of them uses attributes: one is mandatory, or multiple, if one
of the types says so. "Optional" means optional in the view: an event has all mandatory attributes and any of the others
(AMB-10a, docs/papers.md). A publisher may declare a view of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from whimbrel.model.schema.domains import Boolean, Domain, Enumeration, Instant, Number, String
from whimbrel.model.schema.errors import ConflictingExtension, InvalidSchema, SchemaError, did_you_mean
from whimbrel.model.values import is_text

BUILT_IN: Mapping[str, Domain] = {
    "integer": Number("integer"),
    "float": Number("float"),
    "decimal": Number("decimal"),
    "string": String(),
    "boolean": Boolean(),
    "timestamp": Instant(),
}
"""The domains that every schema has."""
_BUILT_IN_NAMES = {domain: name for name, domain in BUILT_IN.items()}


@dataclass(frozen=True, slots=True)
class Use:
    """How an event type uses an attribute."""

    mandatory: bool = False
    multiple: bool = False

    @staticmethod
    def of(use: object, path: str) -> Use:
        """Read a use from words: `mandatory` or `optional`, then `unique` (the default) or `multiple`."""
        if isinstance(use, Use):
            return use
        words = use.split() if isinstance(use, str) else []
        if not (1 <= len(words) <= 2 and words[0] in _PRESENCE and (len(words) == 1 or words[1] in _COUNT)):
            raise SchemaError(
                f"Expected 'mandatory' or 'optional', then perhaps 'unique' or 'multiple', but got {use!r}", path
            )
        return Use(words[0] == "mandatory", words[-1] == "multiple")

    def merged(self, other: Use) -> Use:
        """The use in a view of both: mandatory beats optional, multiple beats unique."""
        return Use(self.mandatory or other.mandatory, self.multiple or other.multiple)

    def __str__(self) -> str:
        return f"{'mandatory' if self.mandatory else 'optional'}{' multiple' if self.multiple else ''}"


_PRESENCE = ("mandatory", "optional")
_COUNT = ("unique", "multiple")

Uses: TypeAlias = Mapping[str, Use]


def merge(types: Iterable[Uses]) -> dict[str, Use]:
    """The view of several types: every attribute that an event of all of them may have, and how.

    >>> antiques, furniture = {"price": Use(True), "period": Use()}, {"price": Use(False, True)}
    >>> {name: str(use) for name, use in merge([antiques, furniture]).items()}
    {'price': 'mandatory multiple', 'period': 'optional'}
    """
    view: dict[str, Use] = {}
    for uses in types:
        for name, use in uses.items():
            known = view.get(name)
            view[name] = use if known is None else known.merged(use)
    return view


@dataclass(frozen=True)
class DeclaredView:
    """The view (E, R): `types` is E, `uses` is R. `Schema.declare_view` makes one that has the three properties.

    1. An attribute that is mandatory in some type of E is mandatory in R.
    2. An attribute of R is one of some type of E.
    3. R has an attribute once: where types differ, mandatory beats optional, and multiple beats unique.

    An attribute that is optional in all types may be left out of R.
    """

    types: frozenset[str]
    uses: Uses

    def check(self, types: Mapping[str, Uses]) -> None:
        """Raise InvalidSchema with every property that R breaks, given the uses of all event types."""
        problems = [
            SchemaError(f"Expected an event type, but got {name!r}{did_you_mean(str(name), types)}", "types")
            for name in sorted(self.types - types.keys(), key=str)
        ]
        if not self.types:
            problems.append(SchemaError("Expected at least one event type, but got none", "types"))
        if problems:
            raise InvalidSchema(problems)
        full = merge(types[name] for name in types if name in self.types)
        for name, use in full.items():
            if use.mandatory and name not in self.uses:
                problems.append(SchemaError("Property 1: Expected a mandatory attribute, but got none", f"uses.{name}"))
        for name, use in self.uses.items():
            if name not in full:
                text = f"Property 2: Expected an attribute of {', '.join(sorted(self.types))}"
                problems.append(SchemaError(f"{text}, but got {name!r}{did_you_mean(name, full)}", f"uses.{name}"))
            elif use != full[name]:
                number = 1 if full[name].mandatory and not use.mandatory else 3
                problems.append(
                    SchemaError(f"Property {number}: Expected '{full[name]}', but got '{use}'", f"uses.{name}")
                )
        if problems:
            raise InvalidSchema(problems)


def attribute_set(uses: Uses) -> frozenset[str]:
    """AttributeSet: the attributes of an event type."""
    return frozenset(uses)


def mandatory_set(uses: Uses) -> frozenset[str]:
    """MandatorySet: those that every event of the type has."""
    return frozenset(name for name, use in uses.items() if use.mandatory)


def unique_set(uses: Uses) -> frozenset[str]:
    """UniqueSet: those with at most one value."""
    return frozenset(name for name, use in uses.items() if not use.multiple)


@dataclass(frozen=True)
class SchemaDefinitions:
    """All definitions. Immutable: an extension gives a new object, one version later."""

    type_attribute: str = "event_type"
    default_type: str | None = None
    version: int = 0
    domains: Mapping[str, Domain] = field(default_factory=lambda: dict(BUILT_IN))
    domain_names: Mapping[str, str] = field(default_factory=dict)
    """The name of each attribute's domain."""
    types: Mapping[str, Uses] = field(default_factory=dict)
    own_type_attribute: str | None = None
    """An attribute whose value is one of the event's types as well, where it is the name of one."""

    @property
    def content(self) -> tuple[object, ...]:
        """Everything but the version: two schemas with equal contents define the same."""
        named = self.type_attribute, self.default_type, self.own_type_attribute
        return *named, self.domains, self.domain_names, self.types

    @cached_property
    def attributes(self) -> dict[str, Domain]:
        """The domain of each attribute."""
        return {name: self.domains[domain] for name, domain in self.domain_names.items()}

    @cached_property
    def type_names(self) -> Enumeration | None:
        """The domain of the type attribute."""
        return Enumeration(tuple(self.types)) if self.types else None

    def with_domain(self, name: str, domain: Domain) -> SchemaDefinitions:
        """Rule 1: create a domain."""
        _check_name(name, "domains")
        known = self.domains.get(name)
        if known is not None:
            return self._unless(known == domain, "domain", name, str(known), str(domain))
        return self._next(domains={**self.domains, name: domain})

    def with_attribute(self, name: str, domain: str) -> SchemaDefinitions:
        """Rule 2: create an attribute of a domain that is there."""
        if not is_text(name):
            raise SchemaError(f"Expected a name, but got {name!r}", "attributes")
        if name == self.type_attribute:
            raise SchemaError(f"Expected another name than {name!r}, which holds the types", f"attributes.{name}")
        known = self.domain_names.get(name)
        if known is not None:
            return self._unless(known == domain, "attribute", name, f"of domain {known!r}", f"of domain {domain!r}")
        if not isinstance(domain, str) or domain not in self.domains:
            hint = did_you_mean(str(domain), self.domains)
            raise SchemaError(f"Expected a domain, but got {domain!r}{hint}", f"attributes.{name}")
        return self._next(domain_names={**self.domain_names, name: domain})

    def with_attribute_of(self, name: str, domain: Domain) -> SchemaDefinitions:
        """Create an attribute, and its domain under the name of the attribute unless the domain is built in."""
        domain_name = _BUILT_IN_NAMES.get(domain) or (name if name and name not in BUILT_IN else f"{name}_values")
        return self.with_domain(domain_name, domain).with_attribute(name, domain_name)

    def with_use(self, type: str, attribute: str, use: Use) -> SchemaDefinitions:
        """Rule 3: an event type gets an attribute that it does not have, which must be optional."""
        uses = self.types.get(type)
        if uses is None:
            hint = did_you_mean(type, self.types)
            raise SchemaError(f"Expected an event type, but got {type!r}{hint}", f"types.{type}")
        path = f"types.{type}.{attribute}"
        self.check_attribute(attribute, path)
        known = uses.get(attribute)
        if known is not None:
            return self._unless(known == use, "type", f"{type}.{attribute}", str(known), str(use))
        if use.mandatory:
            raise SchemaError("Expected an optional attribute, because events without it are valid already", path)
        return self._next(types={**self.types, type: {**uses, attribute: use}})

    def with_type(self, name: str, uses: Uses) -> SchemaDefinitions:
        """Rule 4: create an event type."""
        _check_name(name, "types")
        for attribute in uses:
            self.check_attribute(attribute, f"types.{name}.{attribute}")
        known = self.types.get(name)
        if known is not None:
            return self._unless(dict(known) == dict(uses), "type", name, _uses_text(known), _uses_text(uses))
        return self._next(types={**self.types, name: dict(uses)})

    def check_attribute(self, name: str, path: str) -> None:
        """Raise SchemaError unless there is such an attribute."""
        if name not in self.domain_names:
            hint = did_you_mean(str(name), self.domain_names)
            raise SchemaError(f"Expected an attribute, but got {name!r}{hint}", path)

    def _unless(self, same: bool, kind: str, name: str, existing: str, proposed: str) -> SchemaDefinitions:
        if not same:
            raise ConflictingExtension(kind, name, existing, proposed)
        return self

    def _next(self, **changes: object) -> SchemaDefinitions:
        return replace(self, version=self.version + 1, **changes)  # type: ignore[arg-type]


def _check_name(name: object, path: str) -> None:
    if not is_text(name) or not name:
        raise SchemaError(f"Expected a name, but got {name!r}", path)


def _uses_text(uses: Uses) -> str:
    return "{" + ", ".join(f"{name}: {use}" for name, use in sorted(uses.items())) + "}"
