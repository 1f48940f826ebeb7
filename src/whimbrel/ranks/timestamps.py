"""Parses timestamps in compiled code: all forms that `Timestamp.parse` takes, except years of more than four digits."""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.array_types import Bytes, Int64s
from whimbrel.compiled.helpers import Integer
from whimbrel.compiled.jit import helper, kernel

ODD_TIME = -(2**63)
"""In place of nanoseconds: the text is no timestamp, or `Timestamp.parse` must read it."""

_NANOSECONDS = 1_000_000_000
_LAST_SECOND = 9_223_372_035 - 86_400
"""Nanoseconds fit an int64 up to so many seconds from 1970, before the zone; Python reads later ones."""


@helper
def _digits(data: Bytes, start: int, end: int) -> Integer:
    """The number that ASCII digits spell, or a negative one if some byte is no digit."""
    number: Integer = 0
    for at in range(start, end):
        digit = np.int64(data[at]) - 48
        if digit < 0 or digit > 9:
            return -1_000_000
        number = number * 10 + digit
    return number


@helper
def _seconds_of_day(data: Bytes, start: int) -> Integer:
    """The seconds from 1970 to the midnight of `2026-01-31`, or ODD_TIME."""
    year, month, day = (
        _digits(data, start, start + 4),
        _digits(data, start + 5, start + 7),
        _digits(data, start + 8, start + 10),
    )
    if data[start + 4] != 45 or data[start + 7] != 45 or year < 1 or month < 1 or month > 12 or day < 1:
        return ODD_TIME
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if day > (28 + leap if month == 2 else 30 + ((month + (month >> 3)) & 1)):
        return ODD_TIME
    # Days of the civil calendar, with years that begin in March (H. Hinnant, chrono-compatible algorithms).
    shifted = year - (month <= 2)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return (era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468) * 86_400


@helper
def _zone(data: Bytes, start: int, end: int) -> Integer:
    """The seconds that `Z`, `+01:00`, `+0100`, `+01` or nothing is ahead of UTC, or ODD_TIME."""
    size = end - start
    if size == 0 or (size == 1 and data[start] | 32 == 122):
        return 0
    has_colon = size == 6
    if (data[start] != 43 and data[start] != 45) or size not in (3, 5, 6):
        return ODD_TIME
    if has_colon and data[start + 3] != 58:
        return ODD_TIME
    hours = _digits(data, start + 1, start + 3)
    minutes = _digits(data, start + 3 + has_colon, end) if size > 3 else 0
    if hours < 0 or hours > 23 or minutes < 0 or minutes > 59:
        return ODD_TIME
    ahead = hours * 3600 + minutes * 60
    return ahead if data[start] == 43 else -ahead


@helper
def parse_time(data: Bytes, start: int, end: int) -> Integer:
    """The nanoseconds from 1970 of the text in data[start:end], or ODD_TIME."""
    size = end - start
    if size != 10 and size < 16:
        return ODD_TIME
    seconds = _seconds_of_day(data, start)
    if seconds == ODD_TIME or not -_LAST_SECOND < seconds < _LAST_SECOND:
        return ODD_TIME
    if size == 10:
        return seconds * _NANOSECONDS
    hour, minute = _digits(data, start + 11, start + 13), _digits(data, start + 14, start + 16)
    if (data[start + 10] | 32 != 116 and data[start + 10] != 32) or data[start + 13] != 58:
        return ODD_TIME
    second: Integer = 0
    fraction: Integer = 0
    at = start + 16
    if at + 3 <= end and data[at] == 58:
        second = _digits(data, at + 1, at + 3)
        at += 3
        if at < end and (data[at] == 46 or data[at] == 44):
            at += 1
            width = 0
            while at < end and width < 9 and 48 <= data[at] <= 57:
                fraction = fraction * 10 + np.int64(data[at]) - 48
                at += 1
                width += 1
            if width == 0:
                return ODD_TIME
            for _ in range(9 - width):
                fraction *= 10
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
        return ODD_TIME
    if at < end and data[at] == 32:
        at += 1
    ahead = _zone(data, at, end)
    if ahead == ODD_TIME:
        return ODD_TIME
    return (seconds + hour * 3600 + minute * 60 + second - ahead) * _NANOSECONDS + fraction


@kernel
def parse_times(offsets: Int64s, data: Bytes, out: Int64s, odd: Bytes) -> None:
    """Write the nanoseconds of texts, given by n + 1 offsets into their bytes; mark odd ones, whose value is 0."""
    for i in range(offsets.shape[0] - 1):
        time = parse_time(data, offsets[i], offsets[i + 1])
        odd[i] = time == ODD_TIME
        out[i] = 0 if odd[i] else time
