"""Checks of the name and the options of a matcher: a bad one is a typed error, raised before anything is built."""

from __future__ import annotations

from collections.abc import Iterable

from whimbrel.model.errors import WhimbrelError


class MatcherOptionError(WhimbrelError, ValueError):
    """An option of a matcher has a value it cannot have: what was `expected` and what was `found`."""

    def __init__(self, matcher: str, option: str, expected: str, found: object) -> None:
        self.matcher = matcher
        self.option = option
        self.expected = expected
        self.found = found
        super().__init__(f"Matcher {matcher!r}: expected {option} to be {expected}, but got {found!r}")


class UnknownMatcher(WhimbrelError, ValueError):
    """No matcher has the name that was `found`; `expected` are the names that there are."""

    def __init__(self, expected: Iterable[str], found: object) -> None:
        self.expected = tuple(expected)
        self.found = found
        super().__init__(f"Expected a matcher of {', '.join(self.expected)}, but got {found!r}")


def check_integer(matcher: str, option: str, value: object, least: int, most: int) -> int:
    """The value if it is an integer from `least` to `most`, else MatcherOptionError."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise MatcherOptionError(matcher, option, f"an integer from {least:,} to {most:,}", value)
    return value


def check_choice(matcher: str, option: str, value: object, choices: tuple[str, ...]) -> str:
    """The value if it is one of the choices, else MatcherOptionError."""
    if not isinstance(value, str) or value not in choices:
        raise MatcherOptionError(matcher, option, f"one of {', '.join(choices)}", value)
    return value


def check_names(matcher: str, option: str, names: object) -> tuple[str, ...]:
    """The attribute names if they are different texts, else MatcherOptionError."""
    if not isinstance(names, str) and isinstance(names, Iterable):
        found = tuple(names)
        if all(isinstance(name, str) for name in found) and len(set(found)) == len(found):
            return found
    raise MatcherOptionError(matcher, option, "different attribute names", names)
