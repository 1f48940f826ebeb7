"""Declared views of a schema: the types that an event has together, and how it uses their attributes.

Le Subscribe, section 2 (docs/papers.md, section 10). A view is a pair (E, R): E is a set of event types, R says of each
attribute whether it is mandatory and multiple. Three properties make R fit E:

1. an attribute that is mandatory in some type of E is mandatory in R;
2. an attribute of R is one of some type of E;
3. R has an attribute once: where types differ, mandatory beats optional, and multiple beats unique.

An attribute that is optional in all types may be left out of R.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from whimbrel.model.schema.definitions import Uses, merge
from whimbrel.model.schema.errors import InvalidSchema, SchemaError, did_you_mean


@dataclass(frozen=True)
class DeclaredView:
    """The view (E, R): `types` is E, `uses` is R. `Schema.declare_view` makes one that has the three properties."""

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
