"""Checks of the options that public calls take: one of a wrong type is refused at the call, by name."""

from __future__ import annotations

import reprlib
from numbers import Integral

from whimbrel.model.errors import OptionError


def whole_number(option: str, value: object, least: int | None = None) -> int:
    """The value as an int; OptionError if it is no whole number, or below `least`."""
    expected = "a whole number" if least is None else f"a whole number from {least}"
    if isinstance(value, bool) or not isinstance(value, Integral) or (least is not None and int(value) < least):
        raise OptionError(option, expected, found_text(value))
    return int(value)


def check_instance(option: str, value: object, kind: type | tuple[type, ...], expected: str) -> None:
    """Raise OptionError if the value is not of that kind, or of one of those kinds."""
    if not isinstance(value, kind):
        raise OptionError(option, expected, found_text(value))


def check_callable(option: str, value: object) -> None:
    """Raise OptionError if the value cannot be called."""
    if not callable(value):
        raise OptionError(option, "a function", found_text(value))


def found_text(value: object) -> str:
    """A value in an error: its type, and some of what it is."""
    return "None" if value is None else f"{type(value).__name__} {reprlib.repr(value)}"
