"""Following a stream: its events, what was dropped, and how long a client waits before it connects again."""

from __future__ import annotations

from whimbrel.client import wire
from whimbrel.client.following import EventParser, Following


def test_server_sent_events_are_parsed_whatever_the_pieces() -> None:
    text = b": hi\n\nid: 1\ndata: a\ndata: b\n\nevent: end\ndata: {}\r\n\r\nid: 2\n\ndata: c\n\n"
    expected = [("message", "1", b"a\nb"), ("end", "1", b"{}"), ("message", "2", b"c")]
    for size in (1, 2, 3, 7, 100):
        parser = EventParser()
        found = [one for at in range(0, len(text), size) for one in parser.feed(text[at : at + size])]
        assert found == expected


def test_a_stream_counts_what_was_dropped() -> None:
    following = Following("TRUE", None, None, {"policy": "drop-newest"})
    assert following.query == {"filter": "TRUE", "policy": "drop-newest"} and following.connecting() == {}
    dropped = b'event: dropped\ndata: {"dropped": %d}\n\n'
    pieces = [b"id: 1\ndata: {}\n\n", dropped % 3 + b"id: 5\ndata: {}\n\n", dropped % 4, b"id: 7\ndata: {}\n\n"]
    found = [message for piece in pieces for message in following.feed(piece)]
    assert [(one.offset, one.dropped) for one in found] == [(1, 0), (5, 3), (7, 1)]
    assert following.connecting() == {}  # a filter does not resume


def test_a_pause_is_as_long_as_the_broker_asks() -> None:
    assert wire.pause(0) <= wire.FIRST_PAUSE and wire.pause(500) <= wire.LONGEST_PAUSE
    assert wire.pause(0, {"retry-after": "7"}) == 7
    assert wire.pause(0, {"retry-after": "99999"}) == wire.LONGEST_RETRY
    assert wire.pause(0, {"retry-after": "soon"}) <= wire.FIRST_PAUSE
