"""Messages as bytes on a stream: an event of Server-Sent Events, or a WebSocket message with its cursor."""

from __future__ import annotations

from collections.abc import Callable

from whimbrel.broker.requests.envelope import CURSOR


def sse(offset: int, event: bytes) -> bytes:
    """An SSE event. Line breaks in JSON stand between tokens only, where a space means the same.

    >>> sse(7, b'{"id": "a"}')
    b'id: 7\\ndata: {"id": "a"}\\n\\n'
    """
    if b"\n" in event or b"\r" in event:
        event = event.replace(b"\r", b" ").replace(b"\n", b" ")
    return b"id: %d\ndata: %b\n\n" % (offset, event)


def websocket(offset: int, event: bytes) -> bytes:
    """The event with its cursor as an extension attribute.

    >>> websocket(7, b' {"id": "a"}')
    b'{"whimbrelcursor":"7","id": "a"}'
    """
    return b'{"%b":"%d",%b' % (CURSOR.encode(), offset, event.lstrip()[1:])


FRAMINGS: dict[str, Callable[[int, bytes], bytes]] = {"sse": sse, "ws": websocket}
"""The framings by name."""
