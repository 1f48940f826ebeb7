"""The papers' algorithms: every matcher by name, all with the same interface.

Add a matcher by adding one module, or one package, that defines a concrete subclass of `BaseMatcher`. The registry
imports all modules of this package and takes every such class; its `name` is the name in `MATCHERS`. A class without
a name is a base of others. Modules that are no algorithm are what algorithms share:

base                                   what a matcher need not do itself: ids, order, equal filters, errors
capabilities, option_checks            which constructs a matcher supports; checks of its name and options
papers, checks                         the papers in full; the conformance checks that every matcher runs
frozen, bulk                           arrays compiled from all conjunctions; subscriptions kept as columns
recent_conjunctions                    a structure for what came since the arrays were compiled
conjunction_rows, runs                 conjunctions as flat arrays of rank intervals
event_grid, constant_ranks             events as ranks: a block of them, or one by one
equality_clusters, predicate_clusters  what the algorithms of Le Subscribe look up and count
event_types                            several event types, each with a structure or with names of its own
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

from whimbrel.matchers.base import BaseMatcher
from whimbrel.matchers.capabilities import Capabilities
from whimbrel.matchers.event_types import with_event_types
from whimbrel.matchers.option_checks import MatcherOptionError, UnknownMatcher
from whimbrel.model.conjunction import Conjunction

__all__ = ["MATCHERS", "BaseMatcher", "Capabilities", "make", "supporting"]


@cache
def _discover() -> dict[str, type[BaseMatcher]]:
    """Every matcher by name, sorted."""
    found: dict[str, type[BaseMatcher]] = {}
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            is_member = isinstance(value, type) and issubclass(value, BaseMatcher) and hasattr(value, "name")
            if is_member and not inspect.isabstract(value):
                found[value.name] = value
    return dict(sorted(found.items()))


if TYPE_CHECKING:
    MATCHERS: dict[str, type[BaseMatcher]]
    """Every matcher by name."""


def __getattr__(name: str) -> object:
    if name == "MATCHERS":  # found on demand: the modules of all matchers are imported only when someone asks
        return _discover()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def make(name: str, **options: object) -> BaseMatcher:
    """A new, empty matcher; no option is needed.

    `types` is an option of all: how several event types are kept apart, in `structures` or by `names`.
    """
    matchers = _discover()
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


def supporting(conjunction: Conjunction) -> list[str]:
    """The names of the matchers that support every construct of the conjunction."""
    return [name for name, matcher in _discover().items() if matcher.capabilities.supports(conjunction)]
