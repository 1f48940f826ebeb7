"""Timestamps: what text names which instant, and that printing and parsing are inverse."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whimbrel.model.values import Timestamp

SECOND = 10**9


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00Z", 0),
        ("1970-01-01 00:00:01", SECOND),
        ("1970-01-01t00:00:01z", SECOND),
        ("1970-01-01T00:00:00.5Z", SECOND // 2),
        ("1970-01-01T00:00:00,000000001Z", 1),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T01:00:00 +0100", 0),
        ("1969-12-31T18:30:00-05:30", 0),
        ("1970-01-01T01:00:00+01", 0),
        ("1969-12-31T00:01:00-23:59", 0),
        ("2024-02-29", 1_709_164_800 * SECOND),
    ],
)
def test_a_text_names_an_instant(text: str, nanoseconds: int) -> None:
    assert Timestamp.parse(text) == Timestamp(nanoseconds)


@pytest.mark.parametrize(
    "text",
    [
        *("", "now", "1970", "1970-01", "1970-1-1", "19700101", "1970-01-01T", "1970-01-01T1:00", "1970-01-01Z"),
        *("1970-01-01T00:00:00.Z", "1970-01-01T00:00:00.1234567891Z", "1970-01-01T00:00:00+24:00", "10000-01-01"),
        *(
            "1970-01-01T00:00:00+01:60",
            "1970-01-01T00:00\n+01",
            " 1970-01-01",
            "1970-01-01 ",
            "１970-01-01",
            "+1970-01-01",
        ),
    ],
)
def test_other_text_names_none(text: str) -> None:
    with pytest.raises(ValueError, match="Expected a timestamp such as 2026-01-31T12:00:00Z, but got"):
        Timestamp.parse(text)


@pytest.mark.parametrize("text", ["2025-02-29", "1970-13-01", "1970-01-00", "1970-01-01T24:00", "2016-12-31T23:59:60Z"])
def test_a_moment_that_is_not_on_the_calendar_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(ValueError, match=f"but got '{text}': "):
        Timestamp.parse(text)


def test_the_text_of_an_instant_is_utc_without_needless_zeros() -> None:
    assert str(Timestamp(0)) == "1970-01-01T00:00:00Z"
    assert str(Timestamp(1)) == "1970-01-01T00:00:00.000000001Z"
    assert str(Timestamp(SECOND // 2)) == "1970-01-01T00:00:00.5Z"
    assert str(Timestamp.parse("2026-01-31T12:00:00+05:30")) == "2026-01-31T06:30:00Z"


def test_years_of_more_than_four_digits_have_a_sign() -> None:
    assert str(Timestamp.parse("9999-12-31T23:00:00-05:00")) == "+10000-01-01T04:00:00Z"
    assert str(Timestamp.parse("0000-01-01T00:00:00+01:00")) == "-00001-12-31T23:00:00Z"
    assert str(Timestamp(2**63 * SECOND)) == "+292277026596-12-04T15:30:08Z"


@given(st.one_of(st.integers(-(2**63), 2**63), st.integers(-(2**63) * SECOND, 2**63 * SECOND)))
def test_printing_and_parsing_are_inverse(nanoseconds: int) -> None:
    moment = Timestamp(nanoseconds)
    assert Timestamp.parse(str(moment)) == moment


@given(st.datetimes(), st.integers(-23 * 60 - 59, 23 * 60 + 59), st.booleans())
def test_a_zone_moves_the_instant(moment: datetime, minutes: int, colon: bool) -> None:
    sign, (hours, rest) = "-" if minutes < 0 else "+", divmod(abs(minutes), 60)
    zone = f"{sign}{hours:02}{':' if colon else ''}{rest:02}"
    there = Timestamp.parse(f"{moment.isoformat()}{zone}")
    assert there.nanoseconds == Timestamp.of(moment).nanoseconds - minutes * 60 * SECOND


@given(st.integers(-(10**20), 10**20), st.integers(-(10**20), 10**20))
def test_timestamps_order_by_time(left: int, right: int) -> None:
    assert (Timestamp(left) < Timestamp(right)) == (left < right)
