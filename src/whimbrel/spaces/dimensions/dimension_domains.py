"""Domains of dimensions: how values become cuts, 64-bit integers that kernels compare.

An interval is two cuts and holds the values v with low <= cut(v) < high, so open and closed ends need no special
cases. Every value has a cut of its own, and the next value begins at the cut above it:

    number      the bits of the binary64, in order; numbers are dense, so (3, 4) is not empty
    integer     the integer; exclusive bounds become inclusive ones (AMB-19h), so (3, 4) is empty
    timestamp   nanoseconds
    string      labels in order, with gaps for later strings (see `strings`)
"""

from __future__ import annotations

import math
import struct
import sys
from abc import ABC, abstractmethod
from datetime import date
from decimal import Decimal
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from whimbrel.model.intervals import Cut, IntervalSet, after, before, edge
from whimbrel.model.schema.domains import Number
from whimbrel.model.values import NUMBER, STRING, TIMESTAMP, Timestamp, Value, sort_key, type_of
from whimbrel.spaces.dimensions.errors import EmptyRegion, RegionError
from whimbrel.spaces.dimensions.interval import Interval, read_value, split_text
from whimbrel.spaces.dimensions.strings import Labels, show_text
from whimbrel.spaces.index.region_arrays import HIGH, LOW

_DOUBLE, _BITS = struct.Struct("<d"), struct.Struct("<q")
_MAGNITUDE = (1 << 63) - 1
_LARGEST = (1 << 62) - 1
EXACT = 1 << 53
_NO_BOUND = {"", "inf", "+inf", "-inf", "∞", "-∞", "+∞"}


def encode(domain: DimensionDomain, item: object, path: str) -> tuple[int, int]:
    """The cuts of a constraint as a user wrote it; RegionError, which names the `path`, if it is not a constraint."""
    if isinstance(item, str):
        parts = None if domain.text_is_point else split_text(item)
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


def _interval_cuts(domain: DimensionDomain, low: object, high: object, ends: str, path: str) -> tuple[int, int]:
    """The cuts of an interval with these bounds; EmptyRegion if it holds no value."""
    bounds = [None if bound is None else _bound(domain, bound, path) for bound in (low, high)]
    interval = Interval(bounds[0], bounds[1], ends)
    cuts = domain.interval(interval, path)
    if cuts[0] >= cuts[1]:
        raise EmptyRegion("an interval with values", str(interval), path)
    return cuts


def _bound(domain: DimensionDomain, item: object, path: str) -> Value | None:
    """A bound as a value of its domain's type; None for an infinity, which is no bound."""
    if isinstance(item, float) and math.isinf(item):
        return None
    value = read_value(item, path)
    if domain.name == "timestamp" and isinstance(value, str):
        return _instant(value, path)
    return value


class DimensionDomain(ABC):
    """How the values of a dimension become cuts, and back."""

    name: str
    text_is_point: ClassVar[bool] = False
    """Whether a text is always a value, even one such as '[a, b]'."""

    @abstractmethod
    def cut(self, value: object, above: bool, path: str) -> int:
        """The cut just below or just above a bound; RegionError if the bound is not a value of the domain."""

    def point(self, item: object, path: str) -> tuple[int, int]:
        """The cuts around one value."""
        low = self.cut(item, False, path)
        return low, low + 1

    def interval(self, interval: Interval, path: str) -> tuple[int, int]:
        """The cuts of an interval. It may hold no value."""
        low, high, ends = interval.low, interval.high, interval.ends
        return (
            LOW if low is None else self.cut(low, ends[0] == "(", path),
            HIGH if high is None else self.cut(high, ends[1] == "]", path),
        )

    def parse(self, text: str) -> object:
        """The value of a bound in text; ValueError if it is not a value. Not asked where a text is a point."""
        raise NotImplementedError

    @abstractmethod
    def show(self, low: int, high: int) -> Interval:
        """The interval between two cuts, as users read it."""


class NumericDomain(DimensionDomain):
    """Numbers. With `limits`, the domain of a schema, values and bounds outside of its range are refused."""

    def __init__(self, limits: Number | None = None) -> None:
        self.limits = limits

    def check_limits(self, value: object, path: str) -> None:
        """Raise RegionError if a value or bound is outside of the limits."""
        if self.limits is not None:
            number, low, high = real(value, path), self.limits.minimum, self.limits.maximum
            if (low is not None and number < low) or (high is not None and number > high):
                raise RegionError(self.limits.expected, repr(value), path)

    def parse(self, text: str) -> object:
        try:
            return int(text)
        except ValueError:
            return float(text)


class NumberDomain(NumericDomain):
    """Finite binary64 numbers. An integer that binary64 cannot hold is refused; use `integer` for such."""

    name = "number"

    def cut(self, value: object, above: bool, path: str) -> int:
        self.check_limits(value, path)
        number = value if isinstance(value, float) else self._float(value, path)
        if not math.isfinite(number):
            raise RegionError("a finite number", repr(number), path)
        bits: int = _BITS.unpack(_DOUBLE.pack(number))[0]
        return (bits if bits >= 0 else -(bits & _MAGNITUDE)) + above

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
        if isinstance(item, Decimal) or (type(item) is int and -EXACT <= item <= EXACT):
            return float(item)
        value = real(item, path)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if number != value:
            raise RegionError("a number that binary64 can hold (or a dimension of integers)", repr(item), path)
        return number


class IntegerDomain(NumericDomain):
    """Integers up to 62 bits. Bounds may be fractions."""

    name = "integer"

    def cut(self, value: object, above: bool, path: str) -> int:
        self.check_limits(value, path)
        bound = real(value, path)
        _check_size(bound, path)
        return math.floor(bound) + 1 if above else math.ceil(bound)

    def point(self, item: object, path: str) -> tuple[int, int]:
        value = item if type(item) is int else read_value(item, path)
        if type_of(value) != NUMBER or not isinstance(value, int):
            raise RegionError("an integer", repr(item), path)
        _check_size(value, path)
        self.check_limits(value, path)
        return value, value + 1

    def show(self, low: int, high: int) -> Interval:
        return Interval(None if low == LOW else low, None if high == HIGH else high - 1)


class TimestampDomain(DimensionDomain):
    """Instants, given as datetimes, dates, Timestamps or ISO 8601 text: nanoseconds since 1970, in 62 bits."""

    name = "timestamp"

    def cut(self, value: object, above: bool, path: str) -> int:
        nanoseconds = _instant(value, path).nanoseconds
        _check_size(nanoseconds, path)
        return nanoseconds + above

    def parse(self, text: str) -> object:
        return Timestamp.parse(text)

    def show(self, low: int, high: int) -> Interval:
        return Interval(None if low == LOW else Timestamp(low), None if high == HIGH else Timestamp(high - 1))


class StringDomain(DimensionDomain):
    """Text in code point order. A string is always a point: intervals are pairs or Interval objects."""

    name = "string"
    text_is_point = True

    def __init__(self) -> None:
        self.labels = Labels()

    def cut(self, value: object, above: bool, path: str) -> int:
        return self.labels.of(self._cut(value, above, path))

    def point(self, item: object, path: str) -> tuple[int, int]:
        return self.cut(item, False, path), self.cut(item, True, path)

    def interval(self, interval: Interval, path: str) -> tuple[int, int]:
        """Turn an interval into cuts, as every domain does; an empty one raises EmptyRegion before it gets labels."""
        low, high = edge(STRING), edge(TIMESTAMP)
        if interval.low is not None:
            low = self._cut(interval.low, interval.ends[0] == "(", path)
        if interval.high is not None:
            high = self._cut(interval.high, interval.ends[1] == "]", path)
        if not IntervalSet.between(low, high):
            raise EmptyRegion("an interval with values", str(interval), path)
        cuts = LOW, HIGH
        for _ in range(2):  # a new label of one bound may change that of the other: the second time both are there
            cuts = (
                LOW if low == edge(STRING) else self.labels.of(low),
                HIGH if interval.high is None else self.labels.of(high),
            )
        return cuts

    def show(self, low: int, high: int) -> Interval:
        return show_text(self.labels.cut_of, low, high)

    def _cut(self, item: object, above: bool, path: str) -> Cut:
        value = read_value(item, path)
        if not isinstance(value, str):
            raise RegionError("a string", repr(item), path)
        return (after if above else before)(sort_key(value))


DOMAINS: dict[str, type[DimensionDomain]] = {
    kind.name: kind for kind in (NumberDomain, IntegerDomain, StringDomain, TimestampDomain)
}


def float_codes(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """The low cuts of numbers. The caller must handle NaN and infinities."""
    bits = numbers.view(np.int64)
    return np.where(bits >= 0, bits, -(bits & np.int64(_MAGNITUDE)))


def widened(domain: DimensionDomain, low: int, high: int, margin: float) -> tuple[int, int]:
    """The cuts of an interval, widened by a margin at both ends, at most to the largest value.

    For timestamps the margin is in seconds.
    """
    if isinstance(domain, NumberDomain):
        shown, most = domain.show(low, high), sys.float_info.max
        lowest = None if shown.low is None else max(float(shown.low) - margin, -most)  # type: ignore[arg-type]
        highest = None if shown.high is None else min(float(shown.high) + margin, most)  # type: ignore[arg-type]
        return NumberDomain().interval(Interval(lowest, highest, shown.ends), "hysteresis")  # also beyond the limits
    step = math.ceil(min(margin * 1e9 if isinstance(domain, TimestampDomain) else margin, 2.0 * _LARGEST))
    low = low if low == LOW else max(low - step, -_LARGEST)
    high = high if high == HIGH else max(high, min(high + step, _LARGEST))
    return low, high


def _decode(code: int) -> int | float:
    bits = code if code >= 0 else (-code) | -(1 << 63)
    number: float = _DOUBLE.unpack(_BITS.pack(bits))[0]
    return int(number) if number.is_integer() and abs(number) < 1 << 53 else number


def _length(bound: tuple[int | float, str]) -> int:
    return len(repr(bound[0]))


def real(item: object, path: str) -> int | float:
    """A number of a user; RegionError if it is none."""
    value = read_value(item, path)
    if type_of(value) != NUMBER:
        raise RegionError("a number", repr(item), path)
    assert isinstance(value, int | float)
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
