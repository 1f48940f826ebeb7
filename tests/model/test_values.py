"""Values: what Python, NumPy and pandas scalars are read as, and the one order of all values."""

from __future__ import annotations

import enum
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.strategies import values
from whimbrel.model.errors import EventError, LimitExceeded
from whimbrel.model.values import (
    BOOLEAN,
    NUMBER,
    STRING,
    TIMESTAMP,
    TYPE_NAMES,
    Timestamp,
    canonical_number,
    from_key,
    sort_key,
    to_value,
    type_of,
)


class Color(str, enum.Enum):  # noqa: UP042 - prints as Color.RED, unlike StrEnum
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


def test_integers_beyond_two_to_the_53_are_exact() -> None:
    assert sort_key(to_value(2**53)) != sort_key(to_value(2**53 + 1))
    assert sort_key(to_value(2**53 + 1)) < sort_key(to_value(float(2**53 + 2)))
    assert to_value(10**999) == 10**999


def test_an_integer_and_a_float_of_the_same_value_are_one_value() -> None:
    for integer, real in ((5, 5.0), (0, -0.0), (2**63, 2.0**63), (-(2**63), -(2.0**63)), (int(1e300), 1e300)):
        assert to_value(integer) == to_value(real)
        assert type(to_value(integer)) is type(to_value(real))
        assert hash(sort_key(to_value(integer))) == hash(sort_key(to_value(real)))


def test_an_integer_near_a_large_float_is_another_value() -> None:
    assert to_value(10**300) != to_value(1e300)
    assert to_value(2**63 + 1) != to_value(2.0**63)


def test_negative_zero_is_zero() -> None:
    assert str(to_value(-0.0)) == "0"
    assert canonical_number(-0.0) == 0


@given(st.one_of(st.integers(), st.floats(allow_nan=False)))
def test_the_canonical_form_of_a_number_has_its_value_and_is_its_own_form(number: float) -> None:
    form = canonical_number(number)
    assert form == number
    assert type(canonical_number(form)) is type(form)
    if isinstance(form, float):
        assert not form.is_integer() or abs(form) >= 2**63
    else:
        assert abs(form) < 2**63 or not _is_float(form)


def _is_float(number: int) -> bool:
    try:
        return float(number) == number
    except OverflowError:
        return False


def test_infinities_are_numbers_at_the_ends() -> None:
    assert sort_key(to_value(-math.inf)) < sort_key(to_value(-(10**999)))
    assert sort_key(to_value(10**999)) < sort_key(to_value(math.inf))


@pytest.mark.parametrize(
    "nan", [math.nan, np.float32("nan"), Decimal("NaN"), Decimal("sNaN"), pd.NaT, np.datetime64("NaT", "s")]
)
def test_nan_and_not_a_time_are_null(nan: object) -> None:
    assert to_value(nan) is None


def test_a_boolean_is_no_number() -> None:
    assert sort_key(True) != sort_key(1)
    assert [type_of(value) for value in (True, 1, 1.0, "1", Timestamp(1))] == [
        BOOLEAN,
        NUMBER,
        NUMBER,
        STRING,
        TIMESTAMP,
    ]
    assert [TYPE_NAMES[type_of(value)] for value in (True, "x")] == ["boolean", "string"]


def test_types_are_blocks_of_one_order() -> None:
    ascending = [False, True, -math.inf, 0, math.inf, "", "1", "\U0010ffff", Timestamp(-1), Timestamp(1)]
    assert sorted({sort_key(value) for value in ascending}) == [sort_key(value) for value in ascending]


def test_strings_compare_by_code_point() -> None:
    assert sort_key("Z") < sort_key("a") < sort_key("\ud7ff") < sort_key("\ue000") < sort_key("\U0001f600")


@given(values, values)
def test_keys_are_equal_exactly_when_values_are(left: Any, right: Any) -> None:
    assert (sort_key(to_value(left)) == sort_key(to_value(right))) == oracle.same(left, right)


@given(values)
def test_a_key_gives_its_value_back(value: Any) -> None:
    read = to_value(value)
    assert read is not None
    assert from_key(sort_key(read)) == read
    assert type(from_key(sort_key(read))) is type(read)


def test_decimals_are_the_nearest_binary64() -> None:
    assert to_value(Decimal("0.1")) == 0.1
    assert to_value(Decimal(2**53 + 1)) == 2**53
    assert to_value(Decimal("1e400")) == math.inf


def test_subclasses_are_read_by_value() -> None:
    assert to_value(Color.RED) == "red"
    assert type(to_value(Color.RED)) is str
    assert type(to_value(Level.HIGH)) is int
    assert type(to_value(np.str_("x"))) is str
    assert type(to_value(np.float64(0.5))) is float


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        (np.int8(-5), -5),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.float16(1.5), 1.5),
        (np.float32(0.5), 0.5),
        (np.longdouble(2.5), 2.5),
        (np.bool_(True), True),
        (np.array(7), 7),
        (np.datetime64("1970-01-02"), Timestamp(86_400 * 10**9)),
        (np.datetime64(1, "ns"), Timestamp(1)),
        (np.datetime64(-1, "ns"), Timestamp(-1)),
        (np.datetime64("3000-01-01", "s"), Timestamp.parse("3000-01-01")),
        (pd.Timestamp(1_700_000_000_123_456_789), Timestamp(1_700_000_000_123_456_789)),
        (pd.Timestamp("2026-01-31 12:00", tz="Europe/Oslo"), Timestamp.parse("2026-01-31T11:00:00Z")),
    ],
)
def test_scalars_of_numpy_and_pandas_are_read_exactly(scalar: object, value: object) -> None:
    read = to_value(scalar)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        (b"x", "bytes"),
        ({1}, "set"),
        (time(12), "time"),
        (timedelta(1), "timedelta"),
        (1j, "complex"),
        (Fraction(1, 3), "Fraction"),
        (object(), "object"),
        (np.array([1]), "ndarray"),
        (np.timedelta64(1, "ns"), "timedelta64"),
        (np.bytes_(b"x"), "bytes_"),
        (pd.NA, "NAType"),
    ],
)
def test_anything_else_is_refused_with_its_type_and_place(item: object, kind: str) -> None:
    with pytest.raises(EventError, match=f"but got {kind} - at a.b") as caught:
        to_value(item, "a.b")
    assert caught.value.found == kind
    assert caught.value.path == "a.b"


@pytest.mark.parametrize("text", ["\ud800", "x\udfff", "\udc00\ud800"])
def test_lone_surrogates_are_refused(text: str) -> None:
    with pytest.raises(EventError, match="text without lone surrogates"):
        to_value(text)


def test_text_with_any_other_character_is_kept() -> None:
    for text in ("", "\0", "a\0", "\ud7ff", "\ue000", "\U0001f600", "\U0010ffff"):
        assert to_value(text) == text


def test_integers_of_more_than_a_thousand_digits_are_refused() -> None:
    for integer in (10**1000 - 1, 1 - 10**1000):
        assert to_value(integer) == integer
    for integer, digits in ((10**1000, 1_001), (-(10**1000), 1_001), (10**5000, 5_000)):
        with pytest.raises(LimitExceeded, match="at most 1,000 decimal digits") as caught:
            to_value(integer, "a")
        assert (caught.value.limit, caught.value.where) == ("integer digits", "a")
        assert abs(caught.value.size - digits) <= 1


def test_dates_and_datetimes_are_timestamps() -> None:
    oslo = timezone(timedelta(hours=1))
    assert to_value(date(1970, 1, 2)) == Timestamp(86_400 * 10**9)
    assert to_value(datetime(1970, 1, 1, 0, 0, 0, 5)) == Timestamp(5_000)
    assert to_value(datetime(1970, 1, 1, 1, tzinfo=oslo)) == Timestamp(0)
    assert to_value(datetime(1970, 1, 1, tzinfo=timezone(timedelta(microseconds=1)))) == Timestamp(-1_000)
    assert to_value(datetime.min.replace(tzinfo=oslo)) == Timestamp.parse("0000-12-31T23:00:00Z")
    assert to_value(Timestamp(7)) == Timestamp(7)


@given(st.datetimes(timezones=st.one_of(st.none(), st.timezones())))
def test_a_datetime_is_the_instant_that_its_zone_says(moment: datetime) -> None:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    delta = aware - datetime(1970, 1, 1, tzinfo=UTC)
    assert Timestamp.of(moment) == Timestamp(
        ((delta.days * 86_400 + delta.seconds) * 10**6 + delta.microseconds) * 1_000
    )
