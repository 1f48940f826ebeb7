"""Bodies in, answers out: what every endpoint shares."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from time import monotonic
from types import MappingProxyType
from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Scope

from whimbrel.broker.http.operation import PAGE, JsonSchema
from whimbrel.broker.requests.errors import (
    BadRequest,
    BrokerError,
    TooLarge,
    Truncated,
    Unavailable,
    UnsupportedMediaType,
    decode_body,
)
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.service.principal import Principal
from whimbrel.broker.store import StoredSubscription
from whimbrel.log import BelowFloor
from whimbrel.model.errors import FilterError, LimitExceeded, RowError, UnknownDialect, WhimbrelError

BODY_SECONDS = 30.0
"""How long a client may take to send a body."""
QUESTION_BYTES = 4 << 20
"""A body that asks for one thing, at most: it may hold a filter and an event, which have limits of their own."""

T = TypeVar("T")
R = TypeVar("R")
N = TypeVar("N", int, float)
_NUMBER = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20})?")
_encode = msgspec.json.Encoder().encode


class Problem(msgspec.Struct, omit_defaults=True):
    """Why something was refused: a `code` for programs and a sentence for people.

    An error in a filter has a position, a line and a column. If a cursor lies below the floor of the log, `first` is
    the first offset that is left. If an extension of the schema breaks a rule, `rule` is its name.
    """

    code: str
    message: str
    position: int | None = None
    line: int | None = None
    column: int | None = None
    first: int | None = None
    rule: str | None = None


class ErrorAnswer(msgspec.Struct):
    """The answer to a request that was refused."""

    error: Problem


class Bodies:
    """Bounds the bytes of all request bodies that are held at one time. Used in the event loop only."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0

    def take(self, scope: Scope, size: int) -> None:
        """Count more bytes of a request's body; Unavailable if all requests together hold too many."""
        if self._held and self._held + size > self._limit:
            raise Unavailable(f"Expected bodies of at most {self._limit:,} bytes at one time: try again")
        self._held += size
        scope["whimbrel.held"] = scope.get("whimbrel.held", 0) + size

    def give_back(self, scope: Scope) -> None:
        """Release the bytes of a request that was answered."""
        self._held -= scope.get("whimbrel.held", 0)


def broker_of(request: Request) -> Broker:
    """The broker that the application serves."""
    broker: Broker = request.app.state.broker
    return broker


def caller_of(request: HTTPConnection) -> Principal:
    """Who makes a request, or opens a WebSocket."""
    principal: Principal = request.scope["whimbrel.principal"]
    return principal


def principal_of(request: Request, scope: str) -> Principal:
    """The caller, who must have a scope."""
    principal = caller_of(request)
    principal.require(scope)
    return principal


async def pieces_of(request: Request) -> AsyncIterator[bytes]:
    """The pieces of the body as they arrive. Refuses compressed bodies and clients that pause too long."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedMediaType("Expected a body without Content-Encoding")
    pieces = request.stream()
    while True:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                piece = await anext(pieces)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise RequestTimeout(f"Expected more of the body within {BODY_SECONDS:g} seconds") from None
        except ClientDisconnect:
            raise BadRequest("Expected the whole body, but the connection was closed") from None
        yield piece


async def body_of(request: Request, most: int | None = None) -> bytes:
    """The whole body, bounded in time and in bytes: by `most`, if it is given, and by the settings."""
    limit = broker_of(request).settings.body_bytes
    limit = limit if most is None else min(limit, most)
    pieces: list[bytes] = []
    size = 0
    deadline = monotonic() + BODY_SECONDS
    async for piece in pieces_of(request):
        size += len(piece)
        if size > limit:
            raise TooLarge(f"Expected a body of at most {limit:,} bytes")
        if monotonic() > deadline:
            raise RequestTimeout(f"Expected the whole body within {BODY_SECONDS:g} seconds")
        hold(request, len(piece))
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def read_body(request: Request, shape: type[T], code: str, most: int = QUESTION_BYTES) -> T:
    """The struct that the body, of at most `most` bytes, must be; Unprocessable, with a `code`, if it is not."""
    return decode_body(await body_of(request, most), shape, code)


async def lines_of(request: Request, limit: int) -> list[bytes]:
    """The lines of a body that are not blank, at most `limit`."""
    lines = [line for line in (await body_of(request)).split(b"\n") if line.strip()]
    if len(lines) > limit:
        raise TooLarge(f"Expected at most {limit:,} lines, but got {len(lines):,}")
    return lines


def hold(request: Request, size: int) -> None:
    """Hold more bytes of a body until the request is answered."""
    bodies: Bodies = request.scope["whimbrel.bodies"]
    bodies.take(request.scope, size)


class RequestTimeout(BrokerError):
    """A body that did not come in time."""

    status = 408
    code = "timeout"


def number_of(request: Request, name: str, schema: JsonSchema) -> float:
    """A number of the query, or its default; BadRequest if it is not within the bounds of its schema."""
    text = request.query_params.get(name)
    if text is None:
        return float(schema["default"])
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    return _within(schema, name, value, text)


def integer_of(request: Request, name: str, schema: JsonSchema) -> int:
    """A whole number of the query, or its default; BadRequest if it is not within the bounds of its schema."""
    text = request.query_params.get(name)
    if text is None:
        return int(schema["default"])
    value = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
    return _within(schema, name, value, text)


def _within(schema: JsonSchema, name: str, value: N, text: str) -> N:
    low, high = schema["minimum"], schema["maximum"]
    if not low <= value <= high:
        raise BadRequest(f"Expected {name} from {low:g} to {high:g}, but got {text[:40]!r}")
    return value


def limit_of(request: Request) -> int:
    """How many items one page may have."""
    return integer_of(request, "limit", PAGE)


def subscription_of(request: Request) -> StoredSubscription:
    """The subscription that the path names, which the caller must see."""
    return broker_of(request).subscriptions.find(request.path_params["id"], principal_of(request, "subscribe"))


def merge_refused(read: Sequence[T | BrokerError], made: Iterable[R]) -> list[R | BrokerError]:
    """The results of all items of a request, in their order; an item that could not be read has its error."""
    results = iter(made)
    return [one if isinstance(one, BrokerError) else next(results) for one in read]


def answer(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(_encode(content), status, dict(headers or {}), "application/json")


def error_answer(error: WhimbrelError, more: Mapping[str, str] = MappingProxyType({})) -> Response:
    """The answer for an error: `{"error": {"code", "message", ...}}`, with more headers."""
    headers = dict(more)
    retry = getattr(error, "retry_after", None)
    if retry is not None:
        headers["retry-after"] = str(max(1, math.ceil(retry)))
    if getattr(error, "status", 0) == 401:
        headers["www-authenticate"] = "Bearer"
    return answer(ErrorAnswer(problem_of(error)), status_of(error), headers)


def status_of(error: WhimbrelError) -> int:
    """The HTTP status of an error."""
    if isinstance(error, BrokerError):
        return error.status
    if isinstance(error, BelowFloor):
        return Truncated.status
    return 422 if isinstance(error, FilterError | RowError | UnknownDialect) else 400


def problem_of(error: WhimbrelError) -> Problem:
    """An error as JSON, with the place of an error in a filter."""
    if isinstance(error, Truncated):
        return Problem(error.code, str(error), first=error.first)
    if isinstance(error, BrokerError):
        return Problem(error.code, str(error), rule=getattr(error, "rule", None))
    if isinstance(error, BelowFloor):
        return Problem(Truncated.code, str(error), first=error.floor)
    if isinstance(error, FilterError) and error.text:
        return Problem("invalid-filter", str(error), error.position, error.line, error.column)
    if isinstance(error, LimitExceeded):
        return Problem("limit-exceeded", str(error))
    return Problem("invalid-event" if isinstance(error, RowError) else "invalid-filter", str(error))
