"""Webhooks: attempts, secrets, enabling, tests, dead letters of a subscription; the consent of receivers."""

from __future__ import annotations

from typing import Annotated

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from whimbrel.broker.http.exchange import ErrorAnswer, answer, body_of, broker_of, number_of, principal_of, read_body
from whimbrel.broker.http.operation import OBJECT, PAGE, Operation, json_body
from whimbrel.broker.requests.errors import NotFound
from whimbrel.broker.requests.subscriptions import time_text
from whimbrel.broker.service.sink_secrets import KEPT_SECONDS
from whimbrel.broker.store import StoredSubscription
from whimbrel.broker.webhooks.consent import CALLBACK_PATH
from whimbrel.broker.webhooks.delivering import SendResult

_LARGE = (1 << 63) - 1


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
    """A delivery that was given up after so many attempts: the messages behind the cursor `after`, up to `until`."""

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


class SendAnswer(msgspec.Struct, omit_defaults=True):
    """What a receiver said: `delivered` if that was 2xx."""

    delivered: bool
    seconds: float
    status: int | None = None
    problem: str | None = None


_rotations = msgspec.json.Decoder(RotateRequest)


async def attempts(request: Request) -> Response:
    """GET /subscriptions/{id}/attempts."""
    broker, held = broker_of(request), _held(request)
    limit = int(number_of(request, "limit", 100, 1, 1_000))
    before = int(number_of(request, "before", _LARGE, 1, _LARGE))
    found = await broker.runtime.in_thread(broker.webhooks.attempts, held, before, limit)
    shown = [
        AttemptShown(
            one.number, time_text(one.time), one.message, one.cursor, one.events, one.attempt, one.seconds, one.status,
            one.problem,
        )
        for one in found
    ]  # fmt: skip
    return answer(AttemptPage(shown, found[-1].number if len(found) == limit else None))


async def rotate(request: Request) -> Response:
    """POST /subscriptions/{id}/rotate."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    held = _held(request)
    asked = read_body(await body_of(request) or b"{}", _rotations, "invalid-request")
    return answer(RotateAnswer(await broker.webhooks.rotate(held.id, principal, asked.secret, asked.keep)))


async def enable(request: Request) -> Response:
    """POST /subscriptions/{id}/enable."""
    await broker_of(request).webhooks.enable(_held(request))
    return Response(status_code=204)


async def disable(request: Request) -> Response:
    """POST /subscriptions/{id}/disable."""
    await broker_of(request).webhooks.disable(_held(request))
    return Response(status_code=204)


async def test(request: Request) -> Response:
    """POST /subscriptions/{id}/test."""
    return _sent(await broker_of(request).webhooks.test(_held(request)))


async def dead_letters(request: Request) -> Response:
    """GET /subscriptions/{id}/dead-letters."""
    broker, held = broker_of(request), _held(request)
    limit = int(number_of(request, "limit", 100, 1, 1_000))
    after = int(number_of(request, "after", 0, 0, _LARGE))
    found = await broker.runtime.in_thread(broker.webhooks.undelivered, held, after, limit)
    shown = [
        UndeliveredShown(
            one.number, time_text(one.time), one.message, one.after, one.until, one.events, one.attempts, one.problem
        )
        for one in found
    ]
    return answer(UndeliveredPage(shown, found[-1].number if len(found) == limit else None))


async def redeliver(request: Request) -> Response:
    """POST /subscriptions/{id}/dead-letters/{number}/redeliver."""
    text = request.path_params["number"]
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise NotFound(f"Expected the number of a dead letter, but got {text[:40]!r}")
    return _sent(await broker_of(request).webhooks.redeliver(_held(request), int(text)))


async def consent(request: Request) -> Response:
    """GET or POST /webhooks/consent/{secret}: a receiver consents. It may say WebHook-Allowed-Rate."""
    rate = request.headers.get("webhook-allowed-rate")
    if not await broker_of(request).webhooks.consent(request.path_params["secret"], rate):
        raise NotFound("Expected a callback URL that is open, or a rate that is a number or *")
    return answer({"consent": "granted"})


async def consent_by_link(request: Request) -> Response:
    """The same by GET, for people with a browser."""
    return await consent(request)


def _held(request: Request) -> StoredSubscription:
    principal = principal_of(request, "subscribe")
    return broker_of(request).subscriptions.find(request.path_params["id"], principal)


def _sent(result: SendResult) -> Response:
    return answer(SendAnswer(result.problem is None, result.seconds, result.status, result.problem))


_ONE = "/subscriptions/{id}"
_NUMBER = {"type": "integer", "minimum": 0}
_CHANGED = {204: None, 404: ErrorAnswer, 409: ErrorAnswer}
_ANSWERED = {200: SendAnswer, 404: ErrorAnswer, 409: ErrorAnswer}
OPERATIONS = [
    Operation(
        "GET",
        f"{_ONE}/attempts",
        attempts,
        "The newest requests to the sink of a subscription.",
        {200: AttemptPage, 404: ErrorAnswer, 409: ErrorAnswer},
        query={"before": _NUMBER, "limit": PAGE},
    ),
    Operation(
        "POST",
        f"{_ONE}/rotate",
        rotate,
        "Sign webhooks with another secret, and with the former one for a while.",
        {200: RotateAnswer, 404: ErrorAnswer, 409: ErrorAnswer, 422: ErrorAnswer},
        json_body(RotateRequest),
    ),
    Operation("POST", f"{_ONE}/enable", enable, "Deliver to the sink again, now.", _CHANGED),
    Operation("POST", f"{_ONE}/disable", disable, "Deliver nothing to the sink until it is enabled.", _CHANGED),
    Operation("POST", f"{_ONE}/test", test, "Send an event of type whimbrel.test to the sink.", _ANSWERED),
    Operation(
        "GET",
        f"{_ONE}/dead-letters",
        dead_letters,
        "Deliveries that were given up.",
        {200: UndeliveredPage, 404: ErrorAnswer},
        query={"after": _NUMBER, "limit": PAGE},
    ),
    Operation(
        "POST",
        f"{_ONE}/dead-letters/{{number}}/redeliver",
        redeliver,
        "Send a delivery that was given up again; if that works, it is no dead letter any more.",
        _ANSWERED,
    ),
    *(
        Operation(
            method,
            f"{CALLBACK_PATH}{{secret}}",
            endpoint,
            "A receiver consents to webhooks, at the URL that it was given.",
            {200: OBJECT, 404: ErrorAnswer},
            headers={"webhook-allowed-rate": {"type": "string"}},
        )
        for method, endpoint in (("GET", consent_by_link), ("POST", consent))
    ),
]
