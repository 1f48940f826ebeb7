"""Deliver: pull, acknowledge, and streams of Server-Sent Events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from itertools import islice
from typing import cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from whimbrel.broker.delivery.hub import Stream
from whimbrel.broker.delivery.outbox import EPHEMERAL_POLICIES, FRAMINGS, Outbox, Policy
from whimbrel.broker.delivery.streaming import Read, follow
from whimbrel.broker.http.exchange import (
    answer,
    broker_of,
    limit_of,
    number_of,
    principal_of,
    read_body,
    subscription_of,
)
from whimbrel.broker.http.operation import CURSOR, PAGE, JsonSchema, Operations, json_body
from whimbrel.broker.requests.errors import BadRequest, Truncated, Unprocessable
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.store import Cursor
from whimbrel.model.filter import Filter

BEFORE_AT_ONCE = 100
"""Messages about publications that match already, which are read at a time."""
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


class AckRequest(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The body of an acknowledgement: an offset or a cursor, up to which all messages are done."""

    offset: int | None = None
    cursor: str | None = None


_ONE = "/subscriptions/{id}"
_ACK = {
    "oneOf": [
        {"type": "object", "required": [name], "properties": {name: schema}, "additionalProperties": False}
        for name, schema in (("offset", {"type": "integer", "minimum": -1}), ("cursor", CURSOR))
    ]
}
_WAIT: JsonSchema = {"type": "number", "minimum": 0, "maximum": 60, "default": 0}
_EVENTS = "text/event-stream"
OPERATIONS = Operations()


@OPERATIONS.add(
    "GET",
    f"{_ONE}/messages",
    {200: PullAnswer},
    query={"after": CURSOR, "limit": PAGE, "wait": _WAIT},
    errors=(404, 410, 422),
)
async def pull(request: Request) -> Response:
    """Pull messages behind a cursor; never moves the cursor."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    held = subscription_of(request)
    limit = limit_of(request)
    wait = number_of(request, "wait", _WAIT)
    after = request.query_params.get("after")
    cursor = None if after is None else read_cursor(after)
    try:
        found, complete = await broker.delivery.pull(held, cursor, limit, wait, principal.name)
    except Truncated:
        request.app.state.metrics.gaps.labels("pull").inc()
        raise
    broker.tokens.check_current(principal)
    request.app.state.metrics.delivered.labels("pull").inc(len(found))
    messages = [PulledMessage(one.offset, str(one.cursor), msgspec.Raw(one.event)) for one in found]
    return answer(PullAnswer(messages, complete))


@OPERATIONS.add(
    "POST", f"{_ONE}/ack", {200: {"type": "object", "required": ["cursor"]}}, json_body(_ACK), errors=(404, 422)
)
async def acknowledge(request: Request) -> Response:
    """Move the cursor: messages up to it are done."""
    broker, held = broker_of(request), subscription_of(request)
    asked = await read_body(request, AckRequest, "invalid-request")
    if (asked.offset is None) == (asked.cursor is None):
        raise BadRequest('Expected {"offset": n} or {"cursor": "..."}')
    cursor = read_cursor(str(asked.offset) if asked.cursor is None else asked.cursor)
    return answer({"cursor": str(await broker.delivery.acknowledge(held, cursor))})


def read_cursor(text: str) -> Cursor:
    """The cursor of a text; Unprocessable if it is none."""
    try:
        return Cursor.parse(text)
    except ValueError as error:
        raise Unprocessable(str(error), "bad-cursor") from None


@OPERATIONS.add("GET", f"{_ONE}/stream", {200: _EVENTS}, headers={"last-event-id": CURSOR}, errors=(404, 422))
async def stream(request: Request) -> Response:
    """Server-Sent Events, from Last-Event-ID, which is acknowledged, or the cursor on."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    held = subscription_of(request)
    last = request.headers.get("last-event-id")
    if last:
        await broker.delivery.acknowledge(held, cursor := read_cursor(last))
    else:
        cursor = broker.messages.position(held)
    held, opened = broker.delivery.open_stream(held.id, principal, "sse")
    return EventStream(request, opened, broker.delivery.reader_of(held), cursor, broker.hub.close)


@OPERATIONS.add(
    "GET",
    "/stream",
    {200: _EVENTS},
    query={
        "filter": {"type": "string", "default": "TRUE"},
        "dialect": {"type": "string", "default": "sql"},
        "on": {"enum": ["events", "publications"], "type": "string", "default": "events"},
        "leave": {"enum": ["true", "false"], "type": "string", "default": "false"},
        "policy": {"enum": list(EPHEMERAL_POLICIES), "type": "string", "default": "drop-oldest"},
    },
    errors=(422,),
)
async def ephemeral_stream(request: Request) -> Response:
    """Server-Sent Events of what a filter matches from now on.

    With `on=publications` the publications that it matches already come first, as enters.
    """
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    policy = request.query_params.get("policy", "drop-oldest")
    if policy not in EPHEMERAL_POLICIES:
        raise BadRequest(f"Expected a policy of {', '.join(EPHEMERAL_POLICIES)}, but got {policy[:40]!r}")
    text, dialect = request.query_params.get("filter", "TRUE"), request.query_params.get("dialect", "sql")
    on, leave = (request.query_params.get(name, default) for name, default in (("on", "events"), ("leave", "false")))
    if on not in ("events", "publications") or leave not in ("true", "false"):
        raise BadRequest("Expected on=events or on=publications, and leave=true or leave=false")
    if on == "events" and leave == "true":
        raise BadRequest("Expected leave=true only with on=publications")
    filter = await broker.runtime.in_parser(_parse_within_limits, text, dialect)
    outbox = Outbox(cast("Policy", policy), "sse")
    entered: Iterable[tuple[Cursor, bytes]] = ()
    if on == "publications":
        opened, entered = await broker.streams.open_on_publications(filter, principal, outbox, leave == "true")
    else:
        opened = await broker.streams.open_on_events(filter, principal, outbox)
    return EventStream(request, opened, None, Cursor(-1), broker.streams.close, entered)


def _parse_within_limits(text: str, dialect: str) -> Filter:
    filter = Filter.parse(text, dialect)
    _ = filter.conjunctions  # a normal form above its limits is refused now
    return filter


class EventStream(Response):
    """An open stream of Server-Sent Events. One of a durable subscription has `read`, and starts behind `after`.

    Messages of `before` are sent first; `close` is called with the stream at the end.
    """

    def __init__(
        self,
        request: Request,
        stream: Stream,
        read: Read | None,
        after: Cursor,
        close: Callable[[Stream], None],
        before: Iterable[tuple[Cursor, bytes]] = (),
    ) -> None:
        super().__init__()
        self._broker: Broker = broker_of(request)
        self._delivered = request.app.state.metrics.delivered.labels("sse")
        self._gaps = request.app.state.metrics.gaps.labels("sse")
        self._stream = stream
        self._read = read
        self._after = after
        self._close = close
        self._before = iter(before)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the client is gone or the stream must end."""
        broker, stream = self._broker, self._stream
        gone = asyncio.create_task(_until_gone(receive, stream))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await self._body(send, b": whimbrel\n\n")
            told = 0
            while chunk := await broker.runtime.in_thread(lambda: list(islice(self._before, BEFORE_AT_ONCE))):
                await self._body(send, b"".join(FRAMINGS["sse"](cursor, event) for cursor, event in chunk))
                self._delivered.inc(len(chunk))
                if stream.outbox.closed is not None:
                    break

            async def tell_gap(gap: Truncated) -> None:
                self._gaps.inc()
                await self._body(send, _notice("gap", {"after": gap.after, "first": gap.first}))

            beat = broker.settings.heartbeat
            async for _, payloads in follow(stream, self._read, self._after, beat, tell_gap):
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
            self._close(stream)

    @staticmethod
    async def _body(send: Send, content: bytes) -> None:
        await send({"type": "http.response.body", "body": content, "more_body": True})


async def _until_gone(receive: Receive, stream: Stream) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    stream.outbox.close("gone")


def _notice(name: str, content: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(content)}\n\n".encode()
