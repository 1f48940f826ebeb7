"""The family of matchers: every algorithm by name, behind one role.

Adding a member is adding one file: a module of this package whose class of the same name (in CamelCase) is a
`Matcher`. The registry finds it.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

from whimbrel.matchers.base import Matcher
from whimbrel.matchers.fragment import Fragment
from whimbrel.model.conjunction import Conjunction

__all__ = ["MATCHERS", "Fragment", "Matcher", "make", "supporting"]

_SHARED = {"base", "checks", "events", "explain", "fragment", "results"}


@cache
def _discover() -> dict[str, type[Matcher]]:
    found: dict[str, type[Matcher]] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name in _SHARED or module.name.startswith("_"):
            continue
        camel = "".join(part.capitalize() for part in module.name.split("_"))
        found[module.name] = getattr(importlib.import_module(f"{__name__}.{module.name}"), camel)
    return found


if TYPE_CHECKING:
    MATCHERS: dict[str, type[Matcher]]
    """Every member of the family by name."""


def __getattr__(name: str) -> object:
    if name == "MATCHERS":  # the members are imported only for those who ask: the engine needs none of them
        return _discover()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def make(name: str, **options: object) -> Matcher:
    """A new, empty matcher; no option is needed."""
    members = _discover()
    try:
        member = members[name]
    except KeyError:
        raise ValueError(f"Expected a matcher of {', '.join(members)}, but got {name!r}") from None
    return member(**options)  # type: ignore[arg-type]


def supporting(conjunction: Conjunction) -> list[str]:
    """The members whose fragment holds the conjunction."""
    return [name for name, member in _discover().items() if member.fragment.supports(conjunction)]
