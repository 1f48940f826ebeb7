"""Webhooks: attempts, secrets, enabling, tests, dead letters of a subscription; the consent of receivers."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from whimbrel.broker.http.exchange import (
    answer,
    body_of,
    broker_of,
    integer_of,
    limit_of,
    principal_of,
    subscription_of,
)
from whimbrel.broker.http.operation import OBJECT, PAGE, JsonSchema, Operations, json_body
from whimbrel.broker.requests.errors import NotFound, decode_body
from whimbrel.broker.requests.subscriptions import time_text
from whimbrel.broker.service.sink_secrets import KEPT_SECONDS
from whimbrel.broker.store import Attempt, UndeliveredMessage
from whimbrel.broker.webhooks.consent import CALLBACK_PATH
from whimbrel.broker.webhooks.delivering import SendAnswer


class AttemptShown(msgspec.Struct, omit_defaults=True):
    """One request to a sink: the status, or the problem if it was none of 2xx. `message` is its webhook-id."""

    number: int
    time: str
    message: str
    cursor: str
    events: int
    attempt: int
    seconds: float
    status: int | None = None
    problem: str | None = None


class AttemptPage(msgspec.Struct):
    """Attempts, newest first. `next` is the `before` of the next page."""

    attempts: list[AttemptShown]
    next: int | None


class UndeliveredShown(msgspec.Struct):
    """A delivery that was given up after `attempts`: the messages behind the cursor `after`, up to `until`."""

    number: int
    time: str
    message: str
    after: str
    until: str
    events: int
    attempts: int
    problem: str


class UndeliveredPage(msgspec.Struct):
    """Deliveries that were given up. `next` is the `after` of the next page."""

    dead_letters: list[UndeliveredShown]
    next: int | None


class RotateRequest(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The new secret; without one the broker makes it. The former secret signs too for `keep` seconds."""

    secret: str | None = None
    keep: Annotated[int, msgspec.Meta(ge=0, le=30 * 86_400)] = KEPT_SECONDS


class RotateAnswer(msgspec.Struct):
    """The new secret. It is not shown again."""

    secret: str


_ONE = "/subscriptions/{id}"
_BEFORE: JsonSchema = {"type": "integer", "minimum": 1, "maximum": (1 << 63) - 1, "default": (1 << 63) - 1}
_AFTER: JsonSchema = {"type": "integer", "minimum": 0, "maximum": (1 << 63) - 1, "default": 0}
_CALLBACK = f"{CALLBACK_PATH}{{secret}}"
_ALLOWED_RATE = {"webhook-allowed-rate": {"type": "string"}}
OPERATIONS = Operations()


@OPERATIONS.add(
    "GET", f"{_ONE}/attempts", {200: AttemptPage}, query={"before": _BEFORE, "limit": PAGE}, errors=(404, 409)
)
async def attempts(request: Request) -> Response:
    """The newest requests to the sink of a subscription."""
    broker, held = broker_of(request), subscription_of(request)
    limit = limit_of(request)
    before = integer_of(request, "before", _BEFORE)
    found = await broker.runtime.in_thread(broker.webhooks.attempts, held, before, limit)
    shown = [AttemptShown(**_fields(one)) for one in found]
    return answer(AttemptPage(shown, found[-1].number if len(found) == limit else None))


@OPERATIONS.add("POST", f"{_ONE}/rotate", {200: RotateAnswer}, json_body(RotateRequest), errors=(404, 409, 422))
async def rotate(request: Request) -> Response:
    """Sign webhooks with another secret, and with the former one for a while."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    held = subscription_of(request)
    asked = decode_body(await body_of(request) or b"{}", RotateRequest, "invalid-request")
    return answer(RotateAnswer(await broker.webhooks.rotate(held.id, principal, asked.secret, asked.keep)))


@OPERATIONS.add("POST", f"{_ONE}/enable", {204: None}, errors=(404, 409))
async def enable(request: Request) -> Response:
    """Deliver to the sink again, now."""
    await broker_of(request).webhooks.enable(subscription_of(request))
    return Response(status_code=204)


@OPERATIONS.add("POST", f"{_ONE}/disable", {204: None}, errors=(404, 409))
async def disable(request: Request) -> Response:
    """Deliver nothing to the sink until it is enabled."""
    await broker_of(request).webhooks.disable(subscription_of(request))
    return Response(status_code=204)


@OPERATIONS.add("POST", f"{_ONE}/test", {200: SendAnswer}, errors=(404, 409))
async def test(request: Request) -> Response:
    """Send an event of type whimbrel.test to the sink."""
    return answer(await broker_of(request).webhooks.test(subscription_of(request)))


@OPERATIONS.add(
    "GET", f"{_ONE}/dead-letters", {200: UndeliveredPage}, query={"after": _AFTER, "limit": PAGE}, errors=(404,)
)
async def dead_letters(request: Request) -> Response:
    """Deliveries that were given up."""
    broker, held = broker_of(request), subscription_of(request)
    limit = limit_of(request)
    after = integer_of(request, "after", _AFTER)
    found = await broker.runtime.in_thread(broker.webhooks.undelivered, held, after, limit)
    shown = [UndeliveredShown(**_fields(one)) for one in found]
    return answer(UndeliveredPage(shown, found[-1].number if len(found) == limit else None))


@OPERATIONS.add("POST", f"{_ONE}/dead-letters/{{number}}/redeliver", {200: SendAnswer}, errors=(404, 409))
async def redeliver(request: Request) -> Response:
    """Send a delivery that was given up again; if that works, it is no dead letter any more."""
    text = request.path_params["number"]
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise NotFound(f"Expected the number of a dead letter, but got {text[:40]!r}")
    return answer(await broker_of(request).webhooks.redeliver(subscription_of(request), int(text)))


@OPERATIONS.add("POST", _CALLBACK, {200: OBJECT}, headers=_ALLOWED_RATE, errors=(404,))
async def consent(request: Request) -> Response:
    """A receiver consents to webhooks, at the URL that it was given."""
    rate = request.headers.get("webhook-allowed-rate")
    if not await broker_of(request).webhooks.consent(request.path_params["secret"], rate):
        raise NotFound("Expected a callback URL that is open, or a rate that is a number or *")
    return answer({"consent": "granted"})


@OPERATIONS.add("GET", _CALLBACK, {200: OBJECT}, headers=_ALLOWED_RATE, errors=(404,))
async def consent_by_link(request: Request) -> Response:
    """A receiver consents to webhooks, at the URL that it was given.

    By GET it works for people with a browser.
    """
    return await consent(request)


def _fields(record: Attempt | UndeliveredMessage) -> dict[str, Any]:
    """The fields of a record as they are shown: with the time as text, and without the id, which the path names."""
    fields = record._asdict() | {"time": time_text(record.time)}
    del fields["id"]
    return fields
