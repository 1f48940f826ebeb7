"""When a delivery is tried again: the schedule of Standard Webhooks, what receivers ask for, and what ends it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from random import SystemRandom
from typing import Literal, TypeAlias

Verdict: TypeAlias = Literal["delivered", "failed", "gone", "format"]

JITTER = 0.1
"""A pause is longer by up to this share of it, so that receivers are not asked by all at once."""
LONGEST_RETRY_AFTER = 86_400.0
"""What a receiver may ask for, at most."""
_chance = SystemRandom()


def verdict_of(status: int) -> Verdict:
    """What a status means. Redirects are failures: they could lead anywhere."""
    if 200 <= status < 300:
        return "delivered"
    return {410: "gone", 415: "format"}.get(status, "failed")  # type: ignore[return-value]


def pause_before(attempt: int, schedule: Sequence[float], retry_after: float | None = None) -> float | None:
    """Seconds to wait before an attempt, of which the first is number 0; None when the schedule is through.

    It is at least `retry_after`, which the receiver asked for.
    """
    if attempt >= len(schedule):
        return None
    pause = schedule[attempt] * _chance.uniform(1.0, 1.0 + JITTER)
    return pause if retry_after is None else max(pause, retry_after)


def read_retry_after(text: str | None, now: float) -> float | None:
    """The seconds of a Retry-After, which is a number or a date; None if it says neither.

    >>> read_retry_after("120", 0.0), read_retry_after("Thu, 01 Jan 1970 00:01:00 GMT", 0.0), read_retry_after("?", 0.0)
    (120.0, 60.0, None)
    """
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) < 10:
        return min(float(text), LONGEST_RETRY_AFTER)
    try:
        moment = parsedate_to_datetime(text)
        seconds = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() - now
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER)
