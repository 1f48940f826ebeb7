"""Messages as bytes on a stream: an event of Server-Sent Events, or a WebSocket message with its cursor."""

from __future__ import annotations

from collections.abc import Callable

from whimbrel.broker.requests.envelope import CURSOR
from whimbrel.broker.store import Cursor


def sse(cursor: Cursor, event: bytes) -> bytes:
    """An SSE event. Line breaks in JSON stand between tokens only, where a space means the same.

    >>> sse(Cursor(7), b'{"id": "a"}')
    b'id: 7\\ndata: {"id": "a"}\\n\\n'
    """
    if b"\n" in event or b"\r" in event:
        event = event.replace(b"\r", b" ").replace(b"\n", b" ")
    return b"id: %b\ndata: %b\n\n" % (str(cursor).encode(), event)


def websocket(cursor: Cursor, event: bytes) -> bytes:
    """The event with its cursor as an extension attribute.

    >>> websocket(Cursor(7, 1), b' {"id": "a"}')
    b'{"whimbrelcursor":"7.1","id": "a"}'
    """
    return b'{"%b":"%b",%b' % (CURSOR.encode(), str(cursor).encode(), event.lstrip()[1:])


FRAMINGS: dict[str, Callable[[Cursor, bytes], bytes]] = {"sse": sse, "ws": websocket}
"""The framings by name."""
