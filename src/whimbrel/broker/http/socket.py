"""GET /subscriptions/{id}/ws: a WebSocket with the subprotocol `cloudevents.json`.

Each message is a CloudEvent with its cursor in the attribute `whimbrelcursor`. The client sends `{"ack": cursor}` to
move the subscription's cursor, and `{"credit": n}` to allow n more messages. Without `?credit=n` there is no bound but
the connection itself. `{"gap": {"after": n, "first": m}}` is not a CloudEvent: messages behind
cursor n were deleted, and m is the first that is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from whimbrel.broker.delivery.hub import Stream
from whimbrel.broker.delivery.outbox import Outbox
from whimbrel.broker.delivery.streaming import follow
from whimbrel.broker.http.exchange import caller_of, error_answer
from whimbrel.broker.http.messages import read_cursor
from whimbrel.broker.http.operation import CURSOR, Operations
from whimbrel.broker.requests.errors import BAD_JSON, BrokerError, Truncated, Unprocessable
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.store import Cursor, StoredSubscription

logger = logging.getLogger("whimbrel.broker")

SUBPROTOCOL = "cloudevents.json"
FRAME_BYTES = 4_096
"""A frame that a client sends, at most."""
CREDIT = 1_000_000
"""Credit that a client may have, at most."""
_CLOSED_SECONDS = 1.0  # how soon a stream without credit notices that it must end


class ClientFrame(msgspec.Struct, forbid_unknown_fields=True):
    """What a client may send: an acknowledgement or more credit."""

    ack: str | int | None = None
    credit: int | None = None


_frames = msgspec.json.Decoder(ClientFrame)
_GONE = (WebSocketDisconnect, RuntimeError)
"""What a WebSocket raises when its client is gone."""


class _Credit:
    """Messages that may still be sent; None for no bound."""

    def __init__(self, credit: int | None) -> None:
        self.left = credit
        self._more = asyncio.Event()

    def add(self, count: int) -> None:
        """Allow `count` more messages."""
        self.left = min(CREDIT, (self.left or 0) + count)
        self._more.set()

    async def take(self, wanted: int, outbox: Outbox) -> int:
        """Wait until at least one message may be sent, and use up to `wanted`; 0 when the stream must end."""
        if self.left is None:
            return wanted
        while self.left == 0 and outbox.closed is None:
            self._more.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSED_SECONDS):
                    await self._more.wait()
        taken = min(wanted, self.left) if outbox.closed is None else 0
        self.left -= taken
        return taken


async def socket(websocket: WebSocket) -> None:
    """Serve one connection."""
    broker: Broker = websocket.app.state.broker
    principal = caller_of(websocket)
    id = websocket.path_params["id"]
    try:
        principal.require("subscribe")
        found, text = broker.subscriptions.find(id, principal), websocket.query_params.get("after")
        after = broker.messages.position(found) if text is None else read_cursor(text)
        credit = _Credit(_first_credit(websocket))
        held, stream = broker.delivery.open_stream(id, principal, "ws")
    except BrokerError as error:
        await websocket.send_denial_response(error_answer(error))
        return
    tasks: list[asyncio.Task[None]] = []
    try:
        offered = websocket.scope.get("subprotocols") or []
        await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
        tasks = [
            asyncio.create_task(_read_frames(websocket, broker, held, stream, credit)),
            asyncio.create_task(_send(websocket, broker, held, stream, after, credit)),
        ]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stream.outbox.close("gone")
        broker.hub.close(stream)
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        reason, code = stream.outbox.closed or "", 1000
        if reason == "bad-frame":
            code = 1008
        for failure in ended:
            if isinstance(failure, Exception) and not isinstance(failure, _GONE):
                logger.error("a WebSocket ends: %s", failure, exc_info=failure)
                reason, code = "internal-error", 1011
        with contextlib.suppress(*_GONE):
            await websocket.close(code, reason)


def _first_credit(websocket: WebSocket) -> int | None:
    text = websocket.query_params.get("credit")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 8 and int(text) <= CREDIT):
        raise Unprocessable(f"Expected a credit from 0 to {CREDIT:,}", "bad-credit")
    return int(text)


async def _send(
    websocket: WebSocket, broker: Broker, held: StoredSubscription, stream: Stream, after: Cursor, credit: _Credit
) -> None:
    delivered = websocket.app.state.metrics.delivered.labels("ws")
    read = broker.delivery.reader_of(held)

    async def tell_gap(gap: Truncated) -> None:
        websocket.app.state.metrics.gaps.labels("ws").inc()
        await websocket.send_text(json.dumps({"gap": {"after": gap.after, "first": gap.first}}))

    async for _, payloads in follow(stream, read, after, broker.settings.heartbeat, tell_gap):
        start = 0
        while start < len(payloads):
            count = await credit.take(len(payloads) - start, stream.outbox)
            if not count:
                return
            for payload in payloads[start : start + count]:
                await websocket.send_text(payload.decode())
            delivered.inc(count)
            start += count


async def _read_frames(
    websocket: WebSocket, broker: Broker, held: StoredSubscription, stream: Stream, credit: _Credit
) -> None:
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return
        text = message.get("text")
        try:
            if text is None or len(text) > FRAME_BYTES:
                raise Unprocessable("Expected a short text frame")
            frame = _frames.decode(text)
            if frame.credit is not None:
                if not 0 < frame.credit <= CREDIT:
                    raise Unprocessable("Expected a positive credit")
                credit.add(frame.credit)
            if frame.ack is not None:
                await broker.delivery.acknowledge(held, read_cursor(str(frame.ack)))
        except (*BAD_JSON, BrokerError):
            stream.outbox.close("bad-frame")
            return


class UpgradeRequired(BrokerError):
    """A plain request where a WebSocket is expected."""

    status = 426
    code = "upgrade-required"


PATH = "/subscriptions/{id}/ws"
OPERATIONS = Operations()


@OPERATIONS.add(
    "GET",
    PATH,
    {101: None},
    query={"after": CURSOR, "credit": {"type": "integer", "minimum": 0, "maximum": CREDIT}},
    errors=(404, 422, 426),
)
async def no_socket(_: Request) -> Response:
    """A WebSocket with the subprotocol cloudevents.json; the client sends acknowledgements and credit."""
    return error_answer(UpgradeRequired("Expected a WebSocket: Upgrade: websocket"), {"upgrade": "websocket"})
