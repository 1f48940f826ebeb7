"""Values: booleans, numbers, strings and timestamps, their one total order, and how Python objects become them.

A number is an int or a float; each real number has one canonical form (`canonical_number`), so that equal
numbers are equal objects with equal hashes. Values of different types never compare; where one order over all
values is needed (`sort_key`), types are blocks: boolean < number < string < timestamp.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TypeAlias

from whimbrel.model.errors import EventError
from whimbrel.model.limits import INTEGER_DIGITS

BOOLEAN, NUMBER, STRING, TIMESTAMP = 0, 1, 2, 3
TYPE_NAMES = ("boolean", "number", "string", "timestamp")

_LARGE = 1 << 63
_MAX_INTEGER = 10**INTEGER_DIGITS.value


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """An instant: nanoseconds since 1970-01-01T00:00:00Z."""

    nanoseconds: int

    @staticmethod
    def parse(text: str) -> Timestamp:
        """The instant that an ISO 8601 text names: no zone is UTC, a date is its midnight.

        >>> Timestamp.parse("1970-01-02").nanoseconds
        86400000000000
        """
        found = _ISO.fullmatch(text)
        if found is None:
            raise ValueError(f"Expected a timestamp such as 2026-01-31T12:00:00Z, but got {text!r}")
        year, month, day, hour, minute, second, fraction, zone = found.groups()
        try:
            whole = datetime(
                int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), tzinfo=UTC
            )
        except ValueError as error:
            raise ValueError(f"Expected a timestamp, but got {text!r}: {error}") from None
        seconds = _epoch_seconds(whole)
        if zone and zone not in "Zz":
            sign = -1 if zone[0] == "-" else 1
            digits = zone[1:].replace(":", "")
            seconds -= sign * (int(digits[:2]) * 3600 + int(digits[2:] or 0) * 60)
        return Timestamp(seconds * 1_000_000_000 + int((fraction or "").ljust(9, "0")))

    @staticmethod
    def of(moment: date) -> Timestamp:
        """The instant of a datetime or date; without a zone it is UTC."""
        if not isinstance(moment, datetime):
            return Timestamp((moment.toordinal() - _EPOCH_DAY) * 86_400_000_000_000)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return Timestamp(_epoch_seconds(moment) * 1_000_000_000 + moment.microsecond * 1_000)

    def __str__(self) -> str:
        seconds, fraction = divmod(self.nanoseconds, 1_000_000_000)
        days, rest = divmod(seconds, 86_400)
        day = date.fromordinal(_EPOCH_DAY + days).isoformat()
        text = f"{day}T{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
        return text + (f".{fraction:09}".rstrip("0") if fraction else "") + "Z"


Value: TypeAlias = bool | int | float | str | Timestamp
SortKey: TypeAlias = tuple[int, bool | int | float | str]

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?\s?([Zz]|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII,
)


def _epoch_seconds(moment: datetime) -> int:
    offset = moment.utcoffset()
    seconds = (moment.toordinal() - _EPOCH_DAY) * 86_400
    seconds += moment.hour * 3600 + moment.minute * 60 + moment.second
    return seconds - (int(offset.total_seconds()) if offset is not None else 0)


def canonical_number(number: int | float) -> int | float:
    """The one form of a real number: an int where it is integral and below 2**63, else a float if exact.

    >>> canonical_number(-0.0), canonical_number(5.0), canonical_number(0.5)
    (0, 5, 0.5)
    """
    if isinstance(number, float):
        if number.is_integer() and -_LARGE < number < _LARGE:
            return int(number)
        return number
    if -_LARGE < number < _LARGE:
        return number
    try:
        nearest = float(number)
    except OverflowError:
        return number
    return nearest if nearest == number else number


def type_of(value: Value) -> int:
    """BOOLEAN, NUMBER, STRING or TIMESTAMP."""
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, str):
        return STRING
    if isinstance(value, Timestamp):
        return TIMESTAMP
    return NUMBER


def sort_key(value: Value) -> SortKey:
    """A key under which all values have one order, types apart, and 1, TRUE and 1 ns are different."""
    if isinstance(value, Timestamp):
        return TIMESTAMP, value.nanoseconds
    return type_of(value), value


def from_key(key: SortKey) -> Value:
    """The value of a sort key."""
    rank, value = key
    if rank == TIMESTAMP:
        assert isinstance(value, int)
        return Timestamp(value)
    return value


def to_value(item: object, path: str = "$") -> Value | None:
    """The value that a Python scalar stands for; None for null and NaN; EventError for anything else."""
    if item is None or isinstance(item, bool):
        return item
    if isinstance(item, str):
        try:
            item.encode()
        except UnicodeEncodeError:
            raise EventError("text without lone surrogates", repr(item), path) from None
        return str(item)
    if isinstance(item, int):
        if not -_MAX_INTEGER < item < _MAX_INTEGER:
            raise EventError(f"an integer of at most {INTEGER_DIGITS.value:,} digits", "a longer one", path)
        return canonical_number(int(item))
    if isinstance(item, float | Decimal):
        number = float(item)
        return None if math.isnan(number) else canonical_number(number)
    if isinstance(item, Timestamp):
        return item
    if isinstance(item, date):
        return Timestamp.of(item)
    unboxed = getattr(item, "item", None)  # NumPy scalars
    if callable(unboxed):
        plain = unboxed()
        if type(plain) is not type(item):
            return to_value(plain, path)
    raise EventError("a boolean, number, string, timestamp, list or object", type(item).__name__, path)
