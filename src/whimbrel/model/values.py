"""Values: booleans, numbers, strings and timestamps, their one total order, and how Python objects become them.

A number is an int or a float; each real number has one canonical form (`canonical_number`), so that equal
numbers are equal objects with equal hashes. Values of different types never compare; where one order over all
values is needed (`sort_key`), types are blocks: boolean < number < string < timestamp.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

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
        cycle, year_of_cycle = divmod(int(year) - 1, 400)
        try:
            whole = datetime(
                year_of_cycle + 1, int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0)
            )
        except ValueError as error:
            raise ValueError(f"Expected a timestamp, but got {text!r}: {error}") from None
        seconds = cycle * _CYCLE_DAYS * 86_400 + _seconds(whole)
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
        offset = moment.utcoffset() or timedelta()
        seconds = _seconds(moment) - offset.days * 86_400 - offset.seconds
        microseconds = seconds * 1_000_000 + moment.microsecond - offset.microseconds
        return Timestamp(microseconds * 1_000 + getattr(moment, "nanosecond", 0))  # pandas has nanoseconds

    def __str__(self) -> str:
        seconds, fraction = divmod(self.nanoseconds, 1_000_000_000)
        days, rest = divmod(seconds, 86_400)
        cycle, day_of_cycle = divmod(_EPOCH_DAY + days - 1, _CYCLE_DAYS)
        day = date.fromordinal(day_of_cycle + 1)
        year = day.year + 400 * cycle
        text = f"{year:04}" if 0 <= year <= 9999 else f"{year:+06}"  # ISO 8601 gives long years a sign
        text += f"-{day.month:02}-{day.day:02}T{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
        return text + (f".{fraction:09}".rstrip("0") if fraction else "") + "Z"


Value: TypeAlias = bool | int | float | str | Timestamp
SortKey: TypeAlias = tuple[int, bool | int | float | str]

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_CYCLE_DAYS = 146_097
"""Days in 400 years, after which the calendar repeats."""
_ISO = re.compile(
    r"(\d{4}|[+-]\d{5,12})-(\d\d)-(\d\d)"
    r"(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)? ?([Zz]|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?)?)?",
    re.ASCII,
)


def _seconds(moment: datetime) -> int:
    """Seconds since 1970-01-01 of the date and time as written."""
    return (moment.toordinal() - _EPOCH_DAY) * 86_400 + moment.hour * 3600 + moment.minute * 60 + moment.second


def canonical_number(number: int | float) -> int | float:
    """The canonical form of a real number: an int if it is an integer below 2**63, else a float if that is exact.

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
    """A key that orders all values, type by type; the keys of 1, TRUE and 1 ns differ."""
    if isinstance(value, Timestamp):
        return TIMESTAMP, value.nanoseconds
    return type_of(value), value


def from_key(key: SortKey) -> Value:
    """The value that a sort key stands for."""
    rank, value = key
    if rank == TIMESTAMP:
        assert isinstance(value, int)
        return Timestamp(value)
    return value


def is_text(item: object) -> bool:
    """Whether it is text without lone surrogates."""
    if not isinstance(item, str):
        return False
    try:
        item.encode()
    except UnicodeEncodeError:
        return False
    return True


def to_value(item: object, path: str = "$") -> Value | None:
    """The value that a Python scalar stands for; None for null, NaN and NaT; EventError for anything else."""
    if item is None or isinstance(item, bool):
        return item
    if isinstance(item, str):
        if not item.isascii() and not is_text(item):
            raise EventError("text without lone surrogates", repr(item), path)
        return str.__str__(item)  # the text itself, where a subclass prints itself otherwise
    if isinstance(item, int):
        if not -_MAX_INTEGER < item < _MAX_INTEGER:
            digits = int(item.bit_length() * math.log10(2))
            INTEGER_DIGITS.check(max(digits, INTEGER_DIGITS.value + 1), path)
        return canonical_number(int(item))
    if isinstance(item, float):
        return None if math.isnan(item) else canonical_number(float(item))
    if isinstance(item, Decimal):
        return None if item.is_nan() else canonical_number(float(item))
    if isinstance(item, Timestamp):
        return item
    if isinstance(item, date):
        return Timestamp.of(item) if item == item else None  # noqa: PLR0124 - NaT of pandas is a date
    if getattr(item, "shape", None) == ():
        return _from_numpy(item, path)
    raise EventError(_EXPECTED, type(item).__name__, path)


_EXPECTED = "a boolean, number, string, timestamp, list or object"


def _from_numpy(item: Any, path: str) -> Value | None:
    """The value of a NumPy scalar."""
    kind = item.dtype.kind
    if kind in "biuf":
        return to_value({"b": bool, "f": float}.get(kind, int)(item), path)
    if kind != "M":
        raise EventError(_EXPECTED, type(item).__name__, path)
    if item != item:  # noqa: PLR0124 - NaT
        return None
    seconds = item.astype("datetime64[s]")
    rest = (item - seconds).astype("timedelta64[ns]")
    return Timestamp(int(seconds.astype("int64")) * 1_000_000_000 + int(rest.astype("int64")))
