"""Constraints as users write them: text such as "[0, 10)", pairs, Interval objects, or a plain value for a point."""

from __future__ import annotations

import re
from dataclasses import dataclass

from whimbrel.model.errors import EventError
from whimbrel.model.values import Timestamp, Value, to_value
from whimbrel.spaces.dimensions.errors import RegionError

ENDS = ("[]", "[)", "(]", "()")

_TEXT = re.compile(r"\s*([\[(])([^,]*),([^,]*)([\])])\s*")


@dataclass(frozen=True, slots=True)
class Interval:
    """The values from `low` to `high`. None is no bound; `ends` says which ends are included.

    >>> str(Interval(0, 10, "[)")), str(Interval("a", None))
    ('[0, 10)', "['a', inf)")
    """

    low: Value | None
    high: Value | None
    ends: str = "[]"

    def __post_init__(self) -> None:
        if self.ends not in ENDS:
            raise ValueError(f"Expected ends of {', '.join(ENDS)}, but got {self.ends!r}")

    def __str__(self) -> str:
        low = "(-inf" if self.low is None else self.ends[0] + _shown(self.low)
        high = "inf)" if self.high is None else _shown(self.high) + self.ends[1]
        return f"{low}, {high}"


def split_text(text: str) -> tuple[str, str, str] | None:
    """The two bounds and the ends of an interval written as text; None if the text is not an interval.

    >>> split_text("[0, inf)")
    ('0', 'inf', '[)')
    """
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    return found[2].strip(), found[3].strip(), found[1] + found[4]


def read_value(item: object, path: str) -> Value:
    """A value of a user, in the types of the model; RegionError, which names the `path`, if it is none or null."""
    try:
        value = to_value(item, path)
    except EventError as error:
        raise RegionError("a value, a pair or an interval", error.found, path) from None
    if value is None:
        raise RegionError("a value", "null", path)
    return value


def _shown(value: Value) -> str:
    return str(value) if isinstance(value, Timestamp) else repr(value)
