"""POST /events: take events in every form, answer when they are on disk. GET /dead-letters: what was refused.

JSON lines are a stream: they are published in groups while they come, so that a body may be of any length.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from time import perf_counter

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from whimbrel.broker.http.exchange import (
    Problem,
    answer,
    body_of,
    broker_of,
    hold,
    integer_of,
    limit_of,
    merge_refused,
    pieces_of,
    principal_of,
    problem_of,
)
from whimbrel.broker.http.operation import LINES, PAGE, JsonSchema, Operations
from whimbrel.broker.requests.envelope import Incoming, PlainEvents, is_lines, read_events, read_lines
from whimbrel.broker.requests.errors import BrokerError, TooLarge, TooManyRequests, Unavailable
from whimbrel.broker.requests.request_trace import RequestTrace
from whimbrel.broker.sequencing.request_group import Published
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.service.principal import Principal
from whimbrel.model.limits import EVENT_BYTES
from whimbrel.model.token_rules import allows_text

GROUP_LINES = 1_000
GROUP_BYTES = 1 << 20
"""Lines of a stream that are published together, at most, and their bytes, about."""
STREAM_LINES = 1_000_000
"""Lines of one stream, at most: the answer has a result for each."""
PATIENCE_SECONDS = 60.0
"""How long a stream waits when a rate is used up or too much waits for the disk."""

PAGE_BYTES = 4 << 20
"""Bytes of dead letters after which a page ends."""
_LETTERS = 100


class EventResult(msgspec.Struct, omit_defaults=True, gc=False):
    """What became of one event: its offset, or an error."""

    offset: int | None = None
    duplicate: bool = False
    error: Problem | None = None


class PublishAnswer(msgspec.Struct):
    """What became of the events of a request, in their order."""

    results: list[EventResult]


class DeadLetterShown(msgspec.Struct):
    """A refused event: who published it, why it was refused, and its first bytes."""

    number: int
    time: int
    owner: str
    reason: dict[str, str]
    event: str


class DeadLetterPage(msgspec.Struct):
    """Refused events, oldest first. `next` is the `after` of the next page."""

    dead_letters: list[DeadLetterShown]
    next: int | None


_plain = PlainEvents()
_encode = msgspec.json.Encoder().encode


_AFTER: JsonSchema = {"type": "integer", "minimum": 0, "maximum": 1 << 53, "default": 0}
_CLOUD_EVENT = {
    "type": "object",
    "required": ["specversion", "id", "source", "type"],
    "properties": {
        "specversion": {"const": "1.0", "type": "string"},
        "id": {"type": "string", "minLength": 1},
        "source": {"type": "string", "minLength": 1},
        "type": {"type": "string", "minLength": 1},
    },
}
_TRACE = {
    "traceparent": {"type": "string", "description": "A trace that events without one carry on (W3C Trace Context)."},
    "tracestate": {"type": "string"},
}
_CONTEXT = {
    f"ce-{name}": {"type": "string", "description": "Binary mode: the body is the data."}
    for name in ("specversion", "id", "source", "type", "subject", "time")
}
OPERATIONS = Operations()


@OPERATIONS.add(
    "POST",
    "/events",
    {200: PublishAnswer, 422: PublishAnswer},
    {
        "application/cloudevents+json": _CLOUD_EVENT,
        "application/cloudevents-batch+json": {"type": "array", "items": _CLOUD_EVENT},
        "application/json": {},
        LINES: LINES,
    },
    headers=_CONTEXT | _TRACE,
    errors=(413, 415),
)
async def publish(request: Request) -> Response:
    """Publish events. The answer comes when they are on disk."""
    principal = principal_of(request, "publish")
    headers = dict(request.headers.items())
    kind = headers.get("content-type", "")
    if is_lines(kind):
        return await _publish_stream(request, principal)
    body = await body_of(request)
    started = perf_counter()
    found = read_events(kind, headers, body, principal.name, _plain)
    results = await _publish_group(request, found, principal)
    seconds = perf_counter() - started
    request.app.state.metrics.publish_seconds.observe(seconds)
    broker_of(request).feed.latency.observe(seconds)
    return answer_results(results)


async def _publish_group(
    request: Request, found: Sequence[Incoming | BrokerError], principal: Principal
) -> list[EventResult]:
    """Publish what could be read, and tell what became of each event. Events carry on the trace of the request."""
    trace = RequestTrace.of(request.headers.get("traceparent"), request.headers.get("tracestate"))
    good = [event for event in found if isinstance(event, Incoming)]
    if trace is not None:
        good = [trace.carry(event) for event in good]
    request.app.state.event_rate.take(principal.name, len(good))
    try:
        outcomes: Sequence[Published | BrokerError] = await broker_of(request).publish(good, principal) if good else []
    except Unavailable:
        request.app.state.event_rate.give_back(principal.name, len(good))
        raise
    return event_results(outcomes if len(good) == len(found) else merge_refused(found, outcomes))


def event_results(outcomes: Iterable[Published | BrokerError]) -> list[EventResult]:
    """What became of events or updates, as JSON."""
    return [
        EventResult(*outcome) if isinstance(outcome, Published) else EventResult(error=problem_of(outcome))
        for outcome in outcomes
    ]


def answer_results(results: list[EventResult]) -> Response:
    """Answer what became of each event or update; 422 if all were refused."""
    refused = bool(results) and all(result.error is not None for result in results)
    return answer(PublishAnswer(results), 422 if refused else 200)


async def _publish_stream(request: Request, principal: Principal) -> Response:
    """Publish JSON lines as they come. What goes wrong after the first group is told in the results."""
    coded: list[bytes] = []
    count = taken = unpublished = 0
    try:
        async for lines in _line_groups(request):
            unpublished = len(lines)
            if count + unpublished > STREAM_LINES:
                raise TooLarge(f"Expected at most {STREAM_LINES:,} lines, and stopped to read")
            found = read_lines(lines, principal.name, _plain)
            results = await _publish_patiently(request, found, principal, first=not coded)
            count, unpublished = count + unpublished, 0
            taken += sum(result.error is None for result in results)
            coded.append(_encode(results)[1:-1])
            hold(request, len(coded[-1]))
    except BrokerError as error:  # also where the next line does not come in time
        if not coded:
            raise
        coded.append(_encode([EventResult(error=problem_of(error))] * max(1, unpublished))[1:-1])
    content = b'{"results":[' + b",".join(coded) + b"]}"
    return Response(content, 422 if count and not taken else 200, media_type="application/json")


async def _publish_patiently(
    request: Request, found: Sequence[Incoming | BrokerError], principal: Principal, first: bool
) -> list[EventResult]:
    """Publish a group of a stream; but for the first one, wait where a request of its own would be refused."""
    broker = broker_of(request)
    deadline = perf_counter() + PATIENCE_SECONDS
    while True:
        broker.tokens.check_current(principal)
        try:
            return await _publish_group(request, found, principal)
        except (TooManyRequests, Unavailable) as error:
            if first or not broker.ready or perf_counter() > deadline:
                raise
            await asyncio.sleep(error.retry_after)


async def _line_groups(request: Request) -> AsyncIterator[list[bytes]]:
    """The lines of a body in groups of at most GROUP_LINES. A line that is too long comes cut off, just too long."""
    hold(request, GROUP_BYTES + EVENT_BYTES.value)
    rest = b""
    lines: list[bytes] = []
    size = 0
    async for piece in pieces_of(request):
        *whole, rest = (rest + piece).split(b"\n")
        rest = rest[: EVENT_BYTES.value + 1]
        lines += [line for line in whole if line.strip()]
        size += len(piece)
        while len(lines) >= GROUP_LINES or (lines and size >= GROUP_BYTES):
            yield lines[:GROUP_LINES]
            lines, size = lines[GROUP_LINES:], 0
    if rest.strip():
        lines.append(rest)
    if lines:
        yield lines


@OPERATIONS.add("GET", "/dead-letters", {200: DeadLetterPage}, query={"after": _AFTER, "limit": PAGE})
async def dead_letters(request: Request) -> Response:
    """Events that were refused, with reasons."""
    broker, principal = broker_of(request), principal_of(request, "publish")
    limit = limit_of(request)
    after = integer_of(request, "after", _AFTER)
    return answer(await broker.runtime.in_background(_letters, broker, principal, after, limit))


def _letters(broker: Broker, principal: Principal, after: int, limit: int) -> DeadLetterPage:
    """A page of dead letters; it ends early when it is large."""
    owner = None if principal.sees_all else principal.name
    shown: list[DeadLetterShown] = []
    size = 0
    while size < PAGE_BYTES and len(shown) < limit:
        found = broker.store.dead_letters(after, min(limit - len(shown), _LETTERS), owner)
        if not found:
            return DeadLetterPage(shown, None)
        for letter in found:
            after = letter.number
            size += len(letter.event)
            if allows_text(principal.rules, letter.event, broker.index.timestamps):
                text, reason = letter.event.decode(errors="replace"), msgspec.json.decode(letter.reason)
                shown.append(DeadLetterShown(letter.number, letter.time, letter.owner, reason, text))
    return DeadLetterPage(shown, after)
