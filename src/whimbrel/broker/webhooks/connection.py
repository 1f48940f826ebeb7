"""One HTTP/1.1 connection to a receiver. It sends a request at a time, and keeps the status and a few headers.

Head and body are bounded. A body is read to its end, so that the connection can be used again, and thrown away: whoever
asks for a webhook learns the status of an answer, never its text.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, cast

import httptools

from whimbrel.model.errors import WhimbrelError

HEAD_BYTES = 16 << 10
"""The head of a response, at most."""
BODY_BYTES = 64 << 10
"""The body of a response that is read, at most; then the connection is closed."""
_LONG_HEAD = f"Expected the head of a response to have at most {HEAD_BYTES:,} bytes"
KEPT_HEADERS = frozenset({b"retry-after", b"webhook-allowed-origin", b"webhook-allowed-rate"})


class HttpResponse(NamedTuple):
    """A status and the few headers that matter, their names in lower case."""

    status: int
    headers: dict[str, str]


class ConnectionFailed(WhimbrelError):
    """No response came; `is_stale` if the receiver may have closed the connection before the request came."""

    def __init__(self, sentence: str, is_stale: bool = False) -> None:
        super().__init__(sentence)
        self.is_stale = is_stale


class ReceiverConnection(asyncio.Protocol):
    """A connection. `send` gives a future; the caller bounds the time."""

    def __init__(self) -> None:
        self.is_reusable = False
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._waiter: asyncio.Future[HttpResponse] | None = None
        self._headers: dict[str, str] = {}
        self._status = 0
        self._bytes = self._head = 0
        self._has_head = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of a new connection."""
        self._transport = cast("asyncio.Transport", transport)

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def send(self, request: bytes) -> asyncio.Future[HttpResponse]:
        """Send a request; ConnectionFailed if no response comes."""
        assert self._transport is not None
        self._parser = httptools.HttpResponseParser(self)
        self._headers, self._status, self._bytes, self._head, self._has_head = {}, 0, 0, 0, False
        self.is_reusable = False
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._waiter

    def close(self) -> None:
        """Close at once."""
        self.is_reusable = False
        if self._transport is not None:
            self._transport.abort()

    def give_up(self) -> HttpResponse | None:
        """Close, because the time is up. Return what the head said, if it came."""
        has_head, status, headers = self._has_head, self._status, self._headers
        self._waiter = None
        self.close()
        return HttpResponse(status, headers) if has_head else None

    def data_received(self, data: bytes) -> None:
        """Parse bytes of a response; close the connection if nobody asked for one."""
        if self._waiter is None:
            self.close()
            return
        self._bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            if self._waiter is not None:
                self._fail("Expected a response of HTTP/1.1")
            return
        if self._waiter is not None and not self._has_head and self._bytes > HEAD_BYTES:
            self._fail(_LONG_HEAD)
        elif self._waiter is not None and self._bytes > HEAD_BYTES + BODY_BYTES:
            self._finish(reusable=False)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the receiver closed. A body without a length ends here."""
        if self._waiter is None:
            return
        if self._has_head:
            self._finish(reusable=False)
        else:
            self._fail("Expected a response, but the connection was closed", is_stale=self._bytes == 0)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, called by the parser."""
        low = name.lower()
        self._head += len(name) + len(value)
        if low in KEPT_HEADERS:
            self._headers[low.decode()] = value.decode("latin-1").strip()[:256]

    def on_headers_complete(self) -> None:
        """Note a complete head, called by the parser; after one of 1xx another follows."""
        if self._head > HEAD_BYTES:  # all of it came at once
            self._fail(_LONG_HEAD)
            return
        self._status = self._parser.get_status_code()
        self._has_head = self._status >= 200 or self._status == 101
        if self._status == 101:
            self._finish(reusable=False)

    def on_message_complete(self) -> None:
        """Note a complete response, called by the parser."""
        if self._has_head:
            self._finish(reusable=bool(self._parser.should_keep_alive()))
        else:
            self._headers = {}

    def _finish(self, reusable: bool) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is None:
            return
        self.is_reusable = reusable and self.is_open
        if not waiter.done():
            waiter.set_result(HttpResponse(self._status, self._headers))
        if not reusable:
            self.close()

    def _fail(self, sentence: str, is_stale: bool = False) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(ConnectionFailed(sentence, is_stale))
        self.close()
