"""A lean HTTP/1.1 client for webhooks: checked addresses, kept connections, one bound on time, no redirects."""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from functools import cached_property
from time import monotonic

from whimbrel.broker.requests.webhook_sinks import SinkUrl
from whimbrel.broker.webhooks.addresses import Addresses
from whimbrel.broker.webhooks.connection import ConnectionFailed, HttpResponse, ReceiverConnection

IDLE_CONNECTIONS = 512
"""Connections that are kept for later requests, at most."""
IDLE_SECONDS = 20.0
"""How long a connection is kept."""
TRIED_ADDRESSES = 2
"""Addresses of one host that are tried."""


class WebhookClient:
    """Sends requests. Used in one event loop."""

    def __init__(self, addresses: Addresses, seconds: float, authority: str | None = None) -> None:
        self._addresses = addresses
        self._seconds = seconds
        self._authority = authority
        if authority is not None:
            _ = self._tls  # a file that cannot be used is refused now
        # Idle connections by where they lead, newest last, each with the moment it became idle.
        self._idle: OrderedDict[tuple[bool, str, int], list[tuple[float, ReceiverConnection]]] = OrderedDict()
        self._idle_count = 0

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Whom to trust. To load the certificates of the system takes 20 ms, which few brokers need."""
        return ssl.create_default_context(cafile=self._authority)

    async def request(self, url: SinkUrl, request: bytes) -> HttpResponse:
        """Send a request, whole; ConnectionFailed, ForbiddenAddress or UnknownHost if no response comes in time."""
        connection: ReceiverConnection | None = None
        try:
            async with asyncio.timeout(self._seconds):
                connection = self._take(url)
                if connection is not None:
                    try:
                        return self._done(url, connection, await connection.send(request))
                    except ConnectionFailed as error:
                        if not error.is_stale:
                            raise
                connection = await self._connect(url)
                return self._done(url, connection, await connection.send(request))
        except TimeoutError:
            answer = None if connection is None else connection.give_up()
            if answer is None:
                raise ConnectionFailed(f"Expected a response within {self._seconds:g} seconds") from None
            return answer
        except asyncio.CancelledError:
            if connection is not None:
                connection.close()
            raise

    def close_idle(self, older_than: float = 0.0) -> None:
        """Close connections that were idle for `older_than` seconds."""
        limit = monotonic() - older_than
        for key in list(self._idle):
            kept = [(since, one) for since, one in self._idle[key] if since > limit and one.is_open]
            for since, one in self._idle[key]:
                if (since, one) not in kept:
                    one.close()
            self._idle_count -= len(self._idle[key]) - len(kept)
            if kept:
                self._idle[key] = kept
            else:
                del self._idle[key]

    def close(self) -> None:
        """Close all idle connections."""
        self.close_idle()
        self._addresses.close()

    async def _connect(self, url: SinkUrl) -> ReceiverConnection:
        """Connect to a checked address of the host; its certificate must be for the name."""
        loop = asyncio.get_running_loop()
        problem = ""
        for address in (await self._addresses.of(url.host))[:TRIED_ADDRESSES]:
            try:
                _, connection = await loop.create_connection(
                    ReceiverConnection,
                    address,
                    url.port,
                    ssl=self._tls if url.is_tls else None,
                    server_hostname=url.host if url.is_tls else None,
                )
            except ssl.SSLCertVerificationError as error:
                problem = f"its certificate is not trusted: {error.verify_message}"
            except ssl.SSLError:
                problem = "it does not speak TLS"
            except OSError as error:
                problem = error.strerror or type(error).__name__
            else:
                return connection
        raise ConnectionFailed(f"Expected to connect to {url.authority}, but: {problem[:200]}")

    def _take(self, url: SinkUrl) -> ReceiverConnection | None:
        while held := self._idle.get(url.origin):
            _, connection = held.pop()
            self._idle_count -= 1
            if not held:
                del self._idle[url.origin]
            if connection.is_open:
                return connection
        return None

    def _done(self, url: SinkUrl, connection: ReceiverConnection, answer: HttpResponse) -> HttpResponse:
        if connection.is_reusable:
            if self._idle_count >= IDLE_CONNECTIONS:
                key, oldest = next(iter(self._idle.items()))
                oldest.pop(0)[1].close()
                self._idle_count -= 1
                if not oldest:
                    del self._idle[key]
            self._idle.setdefault(url.origin, []).append((monotonic(), connection))
            self._idle.move_to_end(url.origin)
            self._idle_count += 1
        return answer
