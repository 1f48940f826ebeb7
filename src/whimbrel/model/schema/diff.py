"""What differs between two versions of a schema, whether the newer only extends the older, and how to extend it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from whimbrel.model.schema.definitions import SchemaDefinitions


@dataclass(frozen=True, slots=True)
class Change:
    """One definition that was added, removed or changed. `is_extension` says that everything valid stays valid."""

    what: Literal["added", "removed", "changed"]
    path: str
    old: str | None
    new: str | None
    is_extension: bool

    def to_dict(self) -> dict[str, object]:
        """The change as JSON-ready data."""
        return {
            "change": self.what, "path": self.path, "old": self.old, "new": self.new, "extension": self.is_extension,
        }  # fmt: skip

    def __str__(self) -> str:
        sign = {"added": "+", "removed": "-", "changed": "!"}[self.what]
        shown = f"{self.old} -> {self.new}" if self.what == "changed" else str(self.new or self.old)
        return f"{sign} {self.path}: {shown}" + ("" if self.is_extension else "  (not an extension)")


def changes(old: SchemaDefinitions, new: SchemaDefinitions) -> list[Change]:
    """What changed from one state to another, in the order domains, attributes, types."""
    found: list[Change] = []
    for path in ("type_attribute", "default_type", "own_type_attribute"):
        before, after = getattr(old, path), getattr(new, path)
        if before != after:
            found.append(Change("changed", path, str(before), str(after), is_extension=False))
    found += _of_table("domains", old.domains, new.domains)
    found += _of_table("attributes", old.domain_names, new.domain_names)
    for name in {**old.types, **new.types}:
        path = f"types.{name}"
        if name in old.types and name in new.types:
            mandatory = {f"{path}.{attribute}" for attribute, use in new.types[name].items() if use.mandatory}
            for one in _of_table(path, old.types[name], new.types[name]):
                found.append(replace(one, is_extension=False) if one.path in mandatory else one)
        else:
            found += _of_table("types", _texts(old, name), _texts(new, name))
    return found


def _texts(state: SchemaDefinitions, name: str) -> dict[str, object]:
    if name not in state.types:
        return {}
    return {name: ", ".join(f"{attribute} {use}" for attribute, use in state.types[name].items()) or "no attributes"}


def _of_table(path: str, old: Mapping[str, object], new: Mapping[str, object]) -> list[Change]:
    found: list[Change] = []
    for name in {**old, **new}:
        place = f"{path}.{name}"
        if name not in old:
            found.append(Change("added", place, None, str(new[name]), is_extension=True))
        elif name not in new:
            found.append(Change("removed", place, str(old[name]), None, is_extension=False))
        elif old[name] != new[name]:
            found.append(Change("changed", place, str(old[name]), str(new[name]), is_extension=False))
    return found


def missing_extensions(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The extensions after which a schema has all that another document defines.

    >>> missing_extensions(
    ...     {"attributes": {}, "types": {"bid": {}}},
    ...     {"attributes": {"price": "float"}, "types": {"bid": {"price": "optional"}}},
    ... )
    [{'rule': 'create-attribute', 'name': 'price', 'domain': 'float'},
     {'rule': 'extend-type', 'type': 'bid', 'attribute': 'price', 'use': 'optional'}]
    """
    found: list[dict[str, Any]] = []
    for name, definition in wanted.get("domains", {}).items():
        if current.get("domains", {}).get(name) != definition:
            found.append({"rule": "create-domain", "name": name, "definition": definition})
    for name, domain in wanted.get("attributes", {}).items():
        if current["attributes"].get(name) != domain:
            found.append({"rule": "create-attribute", "name": name, "domain": domain})
    for name, uses in wanted.get("types", {}).items():
        known = current["types"].get(name)
        if known is None:
            found.append({"rule": "create-type", "name": name, "attributes": uses})
            continue
        for attribute, use in uses.items():
            if known.get(attribute) != use:
                found.append({"rule": "extend-type", "type": name, "attribute": attribute, "use": use})
    return found
