"""Domains of dimensions: how values become cuts, 64-bit integers that kernels compare.

An interval is two cuts and holds the values v with low <= cut(v) < high, so open and closed ends need no special
cases. Every value has a cut of its own, and the next value begins at the cut above it:

    number      the bits of the binary64, in order; numbers are dense, so (3, 4) is not empty
    integer     the integer; exclusive bounds become inclusive ones (AMB-19h), so (3, 4) is empty
    timestamp   nanoseconds
    string      labels in order, with gaps for later strings (see `strings`)

Each domain is a class: `point` gives the cuts around one value, `interval` those of an interval, `show` the interval
between two cuts. `parse` reads the text of a bound; ValueError if it is not a value.
"""

from __future__ import annotations

import math
import struct
import sys
from datetime import date
from decimal import Decimal
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whimbrel.model.values import NUMBER, Timestamp, Value, type_of
from whimbrel.spaces.errors import EmptyRegion, RegionError
from whimbrel.spaces.index.region_arrays import HIGH, LOW
from whimbrel.spaces.intervals import Interval, read_value, split_text
from whimbrel.spaces.strings import StringDomain

_DOUBLE, _BITS = struct.Struct("<d"), struct.Struct("<q")
_MAGNITUDE = (1 << 63) - 1
_LARGEST = (1 << 62) - 1
EXACT = 1 << 53
_NO_BOUND = {"", "inf", "+inf", "-inf", "∞", "-∞", "+∞"}


def encode(domain: AnyDomain, item: object, path: str) -> tuple[int, int]:
    """The cuts of a constraint as a user wrote it; RegionError, which names the `path`, if it is not a constraint."""
    if isinstance(item, str):
        parts = split_text(item) if domain.name != "string" else None
        if parts is None:
            return domain.point(item, path)
        low, high, ends = parts
        try:
            bounds = [None if text in _NO_BOUND else domain.parse(text) for text in (low, high)]
        except ValueError:
            raise RegionError(f"an interval of {domain.name}s", repr(item), path) from None
        return _interval_cuts(domain, bounds[0], bounds[1], ends, path)
    if isinstance(item, Interval):
        return _interval_cuts(domain, item.low, item.high, item.ends, path)
    if isinstance(item, tuple | list):
        if len(item) != 2:
            raise RegionError("a pair of bounds", f"{len(item)} values", path)
        return _interval_cuts(domain, item[0], item[1], "[]", path)
    return domain.point(item, path)


def _interval_cuts(domain: AnyDomain, low: object, high: object, ends: str, path: str) -> tuple[int, int]:
    """The cuts of an interval with these bounds; EmptyRegion if it holds no value."""
    bounds = [None if bound is None else _bound(domain, bound, path) for bound in (low, high)]
    interval = Interval(bounds[0], bounds[1], ends)
    cuts = domain.interval(interval, path)
    if cuts[0] >= cuts[1]:
        raise EmptyRegion("an interval with values", str(interval), path)
    return cuts


def _bound(domain: AnyDomain, item: object, path: str) -> Value | None:
    """A bound as a value of its domain's type; None for an infinity, which is no bound."""
    if isinstance(item, float) and math.isinf(item):
        return None
    value = read_value(item, path)
    if domain.name == "timestamp" and isinstance(value, str):
        return _instant(value, path)
    return value


class NumberDomain:
    """Finite binary64 numbers. An integer that binary64 cannot hold is refused; use `integer` for such."""

    name: ClassVar[str] = "number"

    def point(self, item: object, path: str) -> tuple[int, int]:
        code = _code(item if isinstance(item, float) else self._float(item, path), path)
        return code, code + 1

    def interval(self, interval: Interval, path: str) -> tuple[int, int]:
        low, high = LOW, HIGH
        if interval.low is not None:
            low = _code(self._float(interval.low, path), path) + (interval.ends[0] == "(")
        if interval.high is not None:
            high = _code(self._float(interval.high, path), path) + (interval.ends[1] == "]")
        return low, high

    def parse(self, text: str) -> object:
        return _number(text)

    def show(self, low: int, high: int) -> Interval:
        if high == low + 1:
            return Interval(_decode(low), _decode(low))
        bottom: tuple[int | float | None, str] = (None, "(")
        top: tuple[int | float | None, str] = (None, ")")
        if low != LOW:  # a cut can be written in two ways: take the shorter
            bottom = min((_decode(low), "["), (_decode(low - 1), "("), key=_length)
        if high != HIGH:
            top = min((_decode(high), ")"), (_decode(high - 1), "]"), key=_length)
        return Interval(bottom[0], top[0], bottom[1] + top[1])

    def _float(self, item: object, path: str) -> float:
        if type(item) is int and -EXACT <= item <= EXACT:
            return float(item)
        if isinstance(item, Decimal):
            return float(item)
        value = read_value(item, path)
        if type_of(value) != NUMBER:
            raise RegionError("a number", repr(item), path)
        assert isinstance(value, int | float)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if number != value:
            raise RegionError("a number that binary64 can hold (or a dimension of integers)", repr(item), path)
        return number


class IntegerDomain:
    """Integers up to 62 bits. Bounds may be fractions."""

    name: ClassVar[str] = "integer"

    def point(self, item: object, path: str) -> tuple[int, int]:
        value = item if type(item) is int else read_value(item, path)
        if type_of(value) != NUMBER or not isinstance(value, int):
            raise RegionError("an integer", repr(item), path)
        _check_size(value, path)
        return value, value + 1

    def interval(self, interval: Interval, path: str) -> tuple[int, int]:
        """The cuts of the integers in an interval."""
        low, high = LOW, HIGH
        if interval.low is not None:
            bound = _real(interval.low, path)
            low = math.floor(bound) + 1 if interval.ends[0] == "(" else math.ceil(bound)
        if interval.high is not None:
            bound = _real(interval.high, path)
            high = math.floor(bound) + 1 if interval.ends[1] == "]" else math.ceil(bound)
        return low, high

    def parse(self, text: str) -> object:
        return _number(text)

    def show(self, low: int, high: int) -> Interval:
        return Interval(None if low == LOW else low, None if high == HIGH else high - 1)


class TimestampDomain:
    """Instants, given as datetimes, dates, Timestamps or ISO 8601 text: nanoseconds since 1970, in 62 bits."""

    name: ClassVar[str] = "timestamp"

    def point(self, item: object, path: str) -> tuple[int, int]:
        at = self._nanoseconds(item, path)
        return at, at + 1

    def interval(self, interval: Interval, path: str) -> tuple[int, int]:
        low, high = LOW, HIGH
        if interval.low is not None:
            low = self._nanoseconds(interval.low, path) + (interval.ends[0] == "(")
        if interval.high is not None:
            high = self._nanoseconds(interval.high, path) + (interval.ends[1] == "]")
        return low, high

    def parse(self, text: str) -> object:
        return Timestamp.parse(text)

    def show(self, low: int, high: int) -> Interval:
        return Interval(None if low == LOW else Timestamp(low), None if high == HIGH else Timestamp(high - 1))

    def _nanoseconds(self, item: object, path: str) -> int:
        instant = _instant(item, path)
        _check_size(instant.nanoseconds, path)
        return instant.nanoseconds


AnyDomain: TypeAlias = NumberDomain | IntegerDomain | TimestampDomain | StringDomain
DOMAINS: dict[str, type[AnyDomain]] = {
    kind.name: kind for kind in (NumberDomain, IntegerDomain, StringDomain, TimestampDomain)
}


def float_codes(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """The low cuts of numbers. The caller must handle NaN and infinities."""
    bits = numbers.view(np.int64)
    return np.where(bits >= 0, bits, -(bits & np.int64(_MAGNITUDE)))


def widened(domain: AnyDomain, low: int, high: int, margin: float) -> tuple[int, int]:
    """The cuts of an interval that was widened by a margin at both ends. For timestamps the margin is in seconds."""
    if isinstance(domain, NumberDomain):
        shown, most = domain.show(low, high), sys.float_info.max
        lowest = None if shown.low is None else max(float(shown.low) - margin, -most)  # type: ignore[arg-type]
        highest = None if shown.high is None else min(float(shown.high) + margin, most)  # type: ignore[arg-type]
        return domain.interval(Interval(lowest, highest, shown.ends), "hysteresis")
    step = math.ceil(margin * 1_000_000_000 if isinstance(domain, TimestampDomain) else margin)
    low = low if low == LOW else max(low - step, -_LARGEST)
    high = high if high == HIGH else max(high, min(high + step, _LARGEST))
    return low, high


def _code(number: float, path: str) -> int:
    if not math.isfinite(number):
        raise RegionError("a finite number", repr(number), path)
    bits: int = _BITS.unpack(_DOUBLE.pack(number))[0]
    return bits if bits >= 0 else -(bits & _MAGNITUDE)


def _decode(code: int) -> int | float:
    bits = code if code >= 0 else (-code) | -(1 << 63)
    number: float = _DOUBLE.unpack(_BITS.pack(bits))[0]
    return int(number) if number.is_integer() and abs(number) < 1 << 53 else number


def _length(bound: tuple[int | float, str]) -> int:
    return len(repr(bound[0]))


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _real(value: Value, path: str) -> int | float:
    if type_of(value) != NUMBER:
        raise RegionError("a number", repr(value), path)
    assert isinstance(value, int | float)
    _check_size(value, path)
    return value


def _check_size(value: int | float, path: str) -> None:
    if not -_LARGEST <= value <= _LARGEST:
        raise RegionError("at most 62 bits", repr(value), path)


def _instant(item: object, path: str) -> Timestamp:
    if isinstance(item, str):
        try:
            return Timestamp.parse(item)
        except ValueError:
            raise RegionError("a timestamp", repr(item), path) from None
    value = Timestamp.of(item) if isinstance(item, date) else read_value(item, path)
    if not isinstance(value, Timestamp):
        raise RegionError("a timestamp", repr(item), path)
    return value
