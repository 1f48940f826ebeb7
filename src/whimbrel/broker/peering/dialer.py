"""Connects to a peer, and again when the connection is lost, with pauses that grow."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import SystemRandom

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from whimbrel.broker.peering import wire
from whimbrel.broker.peering.link_session import LinkConnection
from whimbrel.broker.peering.wire import BadLink

logger = logging.getLogger("whimbrel.overlay")

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 15.0
_OPEN_SECONDS = 10.0
_PING_SECONDS = 10.0
_chance = SystemRandom()


class DialedConnection:
    """A `LinkConnection` that we opened."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def send(self, frame: bytes) -> None:
        """Send a frame."""
        try:
            await self._socket.send(frame)
        except ConnectionClosed as error:
            raise ConnectionError(str(error)) from None

    async def receive(self) -> bytes:
        try:
            frame = await self._socket.recv()
        except ConnectionClosed as error:
            raise ConnectionError(str(error)) from None
        if isinstance(frame, str):
            raise BadLink("bad-message", "Expected a binary frame, but got text")
        return frame

    async def close(self, reason: str) -> None:
        await self._socket.close(1000, reason[:100])


@dataclass(eq=False, repr=False)
class Dialer:
    """Keeps a connection to the broker at a URL.

    `serve` runs it until it ends; `trouble` is called with the reason if there is none.
    """

    url: str
    _token: str
    _tls: ssl.SSLContext | None
    _serve: Callable[[LinkConnection, str], Awaitable[bool]]
    _trouble: Callable[[str, str], None]

    async def run(self) -> None:
        """Connect, serve, and connect again after a pause; never returns."""
        pause = FIRST_PAUSE
        while True:
            if await self._once():
                pause = FIRST_PAUSE
            await asyncio.sleep(pause * _chance.uniform(0.5, 1.0))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _once(self) -> bool:
        """Connect once and serve the link until it ends; return whether it was established."""
        scheme, _, rest = self.url.partition("://")
        address = f"{'wss' if scheme == 'https' else 'ws'}://{rest.rstrip('/')}{wire.PATH}"
        try:
            async with connect(
                address,
                additional_headers={"Authorization": f"Bearer {self._token}"},
                subprotocols=[Subprotocol(wire.SUBPROTOCOL)],
                ssl=self._tls if scheme == "https" else None,
                compression=None,
                max_size=wire.FRAME_BYTES + 1,
                open_timeout=_OPEN_SECONDS,
                close_timeout=1.0,
                ping_interval=_PING_SECONDS,
                ping_timeout=_PING_SECONDS,
                proxy=None,
            ) as socket:
                return await self._serve(DialedConnection(socket), self.url)
        except InvalidStatus as error:
            said = error.response.body[:500].decode(errors="replace") if error.response.body else ""
            self._trouble(self.url, f"the peer answers {error.response.status_code}: {said}")
        except (OSError, TimeoutError, WebSocketException) as error:
            self._trouble(self.url, f"no connection: {error}")
        except Exception as error:  # whatever it is, the link is dialed again
            logger.exception("the link with %s failed", self.url)
            self._trouble(self.url, f"the link failed: {error}")
        return False
