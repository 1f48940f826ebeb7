"""The check of options that are lists of attributes."""

from __future__ import annotations

from collections.abc import Iterable

from whimbrel.matchers._options import OptionError


def check_names(matcher: str, option: str, names: object) -> tuple[str, ...]:
    """The names if they are different texts, else OptionError."""
    if not isinstance(names, str) and isinstance(names, Iterable):
        found = tuple(names)
        if all(isinstance(name, str) for name in found) and len(set(found)) == len(found):
            return found
    raise OptionError(matcher, option, "different attribute names", names)
