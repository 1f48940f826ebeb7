"""Bodies in, answers out: what every endpoint shares."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from whimbrel.broker.requests.errors import (
    BAD_JSON,
    BadRequest,
    BrokerError,
    TooLarge,
    Unprocessable,
    UnsupportedMediaType,
)
from whimbrel.broker.requests.rules import constrain
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.service.principal import Principal
from whimbrel.model.errors import EventError, FilterError, LimitExceeded, UnknownDialect, WhimbrelError
from whimbrel.model.filter import Filter

BODY_SECONDS = 30.0
"""How long a client may take to send a body."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def broker_of(request: Request) -> Broker:
    """The broker that the application serves."""
    broker: Broker = request.app.state.broker
    return broker


def principal_of(request: Request, scope: str) -> Principal:
    """The caller, who must have a scope."""
    principal: Principal = request.scope["whimbrel.principal"]
    principal.require(scope)
    return principal


async def body_of(request: Request) -> bytes:
    """The whole body, bounded in bytes and in time. Compressed bodies are refused."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedMediaType("Expected a body without Content-Encoding")
    limit = broker_of(request).settings.body_bytes
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                size += len(piece)
                if size > limit:
                    raise TooLarge(f"Expected a body of at most {limit:,} bytes")
                pieces.append(piece)
    except TimeoutError:
        raise RequestTimeout(f"Expected the whole body within {BODY_SECONDS:g} seconds") from None
    except ClientDisconnect:
        raise BadRequest("Expected the whole body, but the connection was closed") from None
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class RequestTimeout(BrokerError):
    """A body that did not come in time."""

    status = 408
    code = "timeout"


async def json_of(request: Request) -> dict[str, Any]:
    """The body, which must be a JSON object."""
    body = await body_of(request)
    try:
        value = _decode(body)
    except BAD_JSON as error:
        raise BadRequest(f"Expected a JSON object, but got: {error}") from None
    if not isinstance(value, dict):
        raise BadRequest(f"Expected a JSON object, but got {type(value).__name__}")
    return value


def number_of(request: Request, name: str, default: float, low: float, high: float) -> float:
    """A number of the query, within bounds."""
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high or (isinstance(default, int) and value != int(value)):
        raise BadRequest(f"Expected {name} from {low:g} to {high:g}, but got {text[:40]!r}")
    return value


async def check_cost(broker: Broker, filter: Filter, principal: Principal) -> None:
    """Refuse a filter that is too large, or would cost every event too much."""
    _ = filter.conjunctions
    limit = broker.settings.filter_nanoseconds
    if limit > 0:
        cost = await broker.in_background(broker.index.cost, constrain(filter, principal.rules))
        if cost.nanoseconds > limit:
            raise Unprocessable(
                f"Expected a filter of at most {limit:,.0f} ns per event, but this one would cost about"
                f" {cost.nanoseconds:,.0f}",
                "filter-too-expensive",
            )


def answer(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(_encode(content), status, dict(headers or {}), "application/json")


def error_answer(error: WhimbrelError) -> Response:
    """The answer for an error: `{"error": {"code", "message", ...}}`."""
    headers: dict[str, str] = {}
    retry = getattr(error, "retry_after", None)
    if retry is not None:
        headers["retry-after"] = str(max(1, math.ceil(retry)))
    if getattr(error, "status", 0) == 401:
        headers["www-authenticate"] = "Bearer"
    return answer({"error": problem_of(error)}, status_of(error), headers)


def status_of(error: WhimbrelError) -> int:
    """The HTTP status of an error."""
    if isinstance(error, BrokerError):
        return error.status
    return 422 if isinstance(error, FilterError | LimitExceeded | UnknownDialect | EventError) else 400


def problem_of(error: WhimbrelError) -> dict[str, object]:
    """An error as JSON; of a filter also where the trouble is."""
    if isinstance(error, BrokerError):
        return {"code": error.code, "message": str(error)}
    problem: dict[str, object] = {"code": "invalid-filter", "message": str(error)}
    if isinstance(error, FilterError) and error.text:
        problem |= {"position": error.position, "line": error.line, "column": error.column}
    elif isinstance(error, LimitExceeded):
        problem["code"] = "limit-exceeded"
    elif isinstance(error, EventError):
        problem["code"] = "invalid-event"
    return problem


def text_field(body: Mapping[str, Any], name: str) -> str:
    """A text of a JSON object."""
    value = body.get(name)
    if not isinstance(value, str):
        raise Unprocessable(f"Expected a text - at $.{name}", "invalid-request")
    return value
