"""The papers' algorithms: every matcher by name, all with the same interface.

Every module or package here is an algorithm, but for `shared`, which is what they have in common. Add a matcher by
adding one that defines a concrete subclass of `BaseMatcher`. The registry imports all modules of this package and takes
every such class; its `name` is the name in `MATCHERS`. A class without a name is a base of others.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from whimbrel.matchers.shared.base import BaseMatcher, all_matchers, supporting
from whimbrel.matchers.shared.capabilities import Capabilities
from whimbrel.matchers.shared.event_types import with_event_types
from whimbrel.matchers.shared.option_checks import MatcherOptionError, UnknownMatcher

__all__ = ["MATCHERS", "BaseMatcher", "Capabilities", "make", "supporting"]


if TYPE_CHECKING:
    MATCHERS: dict[str, type[BaseMatcher]]
    """Every matcher by name."""


def __getattr__(name: str) -> object:
    if name == "MATCHERS":  # found on demand: the modules of all matchers are imported only when someone asks
        return all_matchers()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def make(name: str, **options: object) -> BaseMatcher:
    """A new, empty matcher; no option is needed.

    `types` is an option of all: how several event types are kept apart, in `structures` or by `names`.
    """
    matchers = all_matchers()
    if not isinstance(name, str) or name not in matchers:
        raise UnknownMatcher(matchers, name)
    matcher = matchers[name]
    known = [*inspect.signature(matcher).parameters, "types"]
    for option in options:
        if option not in known:
            raise MatcherOptionError(name, "options", f"some of {', '.join(known)}", option)
    if options.get("types") is None:
        options.pop("types", None)
    else:
        matcher = with_event_types(matcher)
    return matcher(**options)  # type: ignore[arg-type]
