"""The fields of a schema of another system, and the schema with one event type that they make.

Fields below an object have dotted names; a field in an array may have several values or none. A field whose type has no
domain is a problem; all problems are raised together. `ignore` leaves attributes out.
"""

from __future__ import annotations

from collections.abc import Collection

from whimbrel.model.schema.definitions import SchemaDefinitions, Use
from whimbrel.model.schema.domains import Domain
from whimbrel.model.schema.errors import InvalidSchema, SchemaError


class Fields:
    """The attributes found so far, and the problems."""

    def __init__(self, ignore: Collection[str] = ()) -> None:
        self.ignore = frozenset(ignore)
        self.domains: dict[str, Domain] = {}
        self.uses: dict[str, Use] = {}
        self.problems: list[SchemaError] = []

    def add(self, name: str, domain: Domain, use: Use) -> None:
        """Add an attribute with its domain."""
        if name in self.ignore:
            return
        known = self.domains.get(name)
        if known is not None and known != domain:
            self.problem(name, f"Expected one domain, but got {known} and {domain}")
        self.domains[name] = domain
        self.uses[name] = use if known is None else Use(use.mandatory or self.uses[name].mandatory, multiple=True)

    def problem(self, name: str, problem: str) -> None:
        """Add a problem with an attribute."""
        if name not in self.ignore:
            self.problems.append(SchemaError(problem, name))

    def definitions(self, type: str) -> SchemaDefinitions:
        """The definitions of a schema with one event type, which is the default one."""
        if self.problems:
            raise InvalidSchema(self.problems)
        state = SchemaDefinitions(default_type=type)
        if state.type_attribute in self.domains:
            name = state.type_attribute
            raise InvalidSchema([SchemaError(f"Expected another name, because {name!r} holds the types", name)])
        for name, domain in self.domains.items():
            state = state.with_attribute_of(name, domain)
        return state.with_type(type, self.uses)


def below(prefix: str, name: str) -> str:
    """The attribute of a field below another."""
    return f"{prefix}.{name}" if prefix else name
