"""Digests: one message with all that matched in a while, instead of one per event. Windows are aligned to UTC.

An event belongs to the window in which it came into the log. A digest has the events behind a cursor whose windows are
over, at most so many; its own cursor is that of its last event. Where its times begin and end follows from its events
alone, so that a repeated digest is the same text.
"""

from __future__ import annotations

from collections.abc import Sequence

from whimbrel.broker.delivery.message_reader import StoredMessage
from whimbrel.broker.requests.subscriptions import time_text

DIGEST_BYTES = 4 << 20
"""Bytes at which a digest ends: the event that reaches the limit is its last one."""
_MICROSECONDS = 1_000_000


def window_start(time: int, seconds: int) -> int:
    """Where the window of a time begins; times are microseconds since 1970 UTC.

    >>> window_start(3_725_000_000, 3600)
    3600000000
    """
    return time - time % (seconds * _MICROSECONDS)


def next_window(time: int, seconds: int) -> int:
    """Where the window behind that of a time begins."""
    return window_start(time, seconds) + seconds * _MICROSECONDS


def closed_messages(messages: Sequence[StoredMessage], seconds: int, now: int) -> list[StoredMessage]:
    """The first messages, up to DIGEST_BYTES, whose windows are over."""
    end = window_start(now, seconds)
    found: list[StoredMessage] = []
    size = 0
    for message in messages:
        if message.time >= end or size >= DIGEST_BYTES:
            break
        found.append(message)
        size += len(message.event)
    return found


def digest_of(messages: Sequence[StoredMessage], seconds: int) -> bytes:
    """The digest of some messages: from the start of the first one's window to the end of the last one's.

    >>> digest_of([StoredMessage(7, b'{"id": "a"}', time=3_725_000_000)], 3600)
    b'{"from":"1970-01-01T01:00:00Z","until":"1970-01-01T02:00:00Z","events":[{"id": "a"}]}'
    """
    start = time_text(window_start(messages[0].time, seconds))
    until = time_text(next_window(messages[-1].time, seconds))
    events = b",".join(message.event for message in messages)
    return b'{"from":"%b","until":"%b","events":[%b]}' % (start.encode(), until.encode(), events)
