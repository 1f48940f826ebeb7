"""Deliver: pull, acknowledge, and streams of Server-Sent Events."""

from __future__ import annotations

import asyncio
import json
from typing import cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from whimbrel.broker.delivery.hub import Stream
from whimbrel.broker.delivery.outbox import EPHEMERAL_POLICIES, Policy
from whimbrel.broker.delivery.streaming import follow
from whimbrel.broker.http.exchange import answer, broker_of, check_cost, json_of, number_of, principal_of
from whimbrel.broker.requests.errors import BadRequest, Unprocessable
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.store import Cursor, StoredSubscription
from whimbrel.model.filter import Filter

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class PulledMessage(msgspec.Struct, gc=False):
    """One message of a pull."""

    offset: int
    cursor: str
    event: msgspec.Raw


class PullAnswer(msgspec.Struct):
    """Messages in log order; `complete` is false while older events are still being searched: pull again."""

    messages: list[PulledMessage]
    complete: bool


async def pull(request: Request) -> Response:
    """GET /subscriptions/{id}/messages."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    held = broker.find(request.path_params["id"], principal)
    limit = int(number_of(request, "limit", 100, 1, 1000))
    wait = number_of(request, "wait", 0.0, 0, 60)
    after = request.query_params.get("after")
    found, complete = await broker.pull(held, None if after is None else read_cursor(after), limit, wait)
    request.app.state.metrics.delivered.labels("pull").inc(len(found))
    messages = [PulledMessage(one.offset, one.cursor, msgspec.Raw(one.event)) for one in found]
    return answer(PullAnswer(messages, complete))


async def acknowledge(request: Request) -> Response:
    """POST /subscriptions/{id}/ack."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    held = broker.find(request.path_params["id"], principal)
    body = await json_of(request)
    if set(body) == {"offset"} and isinstance(body["offset"], int) and not isinstance(body["offset"], bool):
        cursor = read_cursor(str(body["offset"]))
    elif set(body) == {"cursor"} and isinstance(body["cursor"], str):
        cursor = read_cursor(body["cursor"])
    else:
        raise BadRequest('Expected {"offset": n} or {"cursor": "..."}')
    return answer({"cursor": str(await broker.acknowledge(held, cursor))})


def read_cursor(text: str) -> Cursor:
    """The cursor of a text; Unprocessable if it is none."""
    try:
        return Cursor.parse(text)
    except ValueError as error:
        raise Unprocessable(str(error), "bad-cursor") from None


async def stream(request: Request) -> Response:
    """GET /subscriptions/{id}/stream: Server-Sent Events, from Last-Event-ID or the acknowledged cursor on."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    held = broker.find(request.path_params["id"], principal)
    last = request.headers.get("last-event-id")
    if last:
        await broker.acknowledge(held, cursor := read_cursor(last))
    else:
        cursor = broker.messages.position(held)
    return EventStream(request, held, cursor.offset, None)


async def ephemeral_stream(request: Request) -> Response:
    """GET /stream?filter=: Server-Sent Events of what a filter matches from now on."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    policy = request.query_params.get("policy", "drop-oldest")
    if policy not in EPHEMERAL_POLICIES:
        raise BadRequest(f"Expected a policy of {', '.join(EPHEMERAL_POLICIES)}, but got {policy[:40]!r}")
    filter = Filter.parse(request.query_params.get("filter", "TRUE"), request.query_params.get("dialect", "sql"))
    await check_cost(broker, filter, principal)
    opened = await broker.open_ephemeral(filter, principal, "sse", cast("Policy", policy))
    return EventStream(request, None, -1, opened)


class EventStream(Response):
    """An open stream of Server-Sent Events; of a durable subscription, or ephemeral and open already."""

    def __init__(self, request: Request, held: StoredSubscription | None, after: int, opened: Stream | None) -> None:
        super().__init__()
        self._broker: Broker = broker_of(request)
        self._delivered = request.app.state.metrics.delivered.labels("sse")
        self._held = held
        self._after = after
        self._opened = opened

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the client is gone or the stream must end."""
        broker, held = self._broker, self._held
        stream = self._opened if held is None else broker.open_stream(held, "sse")
        assert stream is not None
        read = None if held is None else broker.reader_of(held)
        gone = asyncio.create_task(_until_gone(receive, stream))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await self._body(send, b": whimbrel\n\n")
            told = 0
            async for _, payloads in follow(stream, read, self._after, broker.settings.heartbeat):
                content = b"".join(payloads) or b": \n\n"
                if stream.outbox.dropped > told:
                    told = stream.outbox.dropped
                    content = _notice("dropped", {"dropped": told}) + content
                await self._body(send, content)
                self._delivered.inc(len(payloads))
            if stream.outbox.closed not in (None, "gone"):
                await self._body(send, _notice("end", {"reason": stream.outbox.closed}))
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            gone.cancel()
            if held is None:
                broker.close_ephemeral(stream)
            else:
                broker.hub.close(stream)

    @staticmethod
    async def _body(send: Send, content: bytes) -> None:
        await send({"type": "http.response.body", "body": content, "more_body": True})


async def _until_gone(receive: Receive, stream: Stream) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    stream.outbox.close("gone")


def _notice(name: str, content: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(content)}\n\n".encode()
