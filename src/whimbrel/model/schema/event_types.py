"""How event types use attributes (mandatory or optional, unique or multiple), and how types merge to a view.

In a view of several types an attribute is mandatory if one of them says so, and multiple if one of them says so.
"Optional" means optional in the view: an event has all mandatory attributes and any of the others (AMB-10a,
docs/papers.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from whimbrel.model.schema.errors import SchemaError


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
