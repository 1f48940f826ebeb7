"""/publications: events that stay. Put, patch, read and delete them by key, list them, change many as JSON lines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from whimbrel.broker.http.exchange import (
    ErrorAnswer,
    answer,
    body_of,
    broker_of,
    number_of,
    principal_of,
    problem_of,
)
from whimbrel.broker.http.operation import IF_MATCH, LINES, OBJECT, PAGE, Operation, json_body
from whimbrel.broker.http.publish import EventResult, PublishAnswer
from whimbrel.broker.http.subscriptions import if_match
from whimbrel.broker.publications.update_requests import PublicationUpdate, UpdateKind, read_update, read_update_lines
from whimbrel.broker.requests.errors import BrokerError, TooLarge
from whimbrel.broker.requests.subscriptions import time_text
from whimbrel.broker.sequencing.request_group import Published
from whimbrel.broker.service.principal import Principal
from whimbrel.broker.store import StoredPublication

UPDATE_LINES = 10_000
"""Lines of one request, at most."""


class PublicationShown(msgspec.Struct):
    """A publication: its state, the offset of the entry that gave it (also its ETag), and when that was."""

    key: str
    offset: int
    time: str
    state: msgspec.Raw


class PublicationPage(msgspec.Struct):
    """Publications in the order of their keys. `next` is the `after` of the next page."""

    publications: list[PublicationShown]
    next: str | None


async def put(request: Request) -> Response:
    """PUT /publications/{key}."""
    return await _update(request, UpdateKind.PUT)


async def patch(request: Request) -> Response:
    """PATCH /publications/{key}."""
    return await _update(request, UpdateKind.PATCH)


async def delete(request: Request) -> Response:
    """DELETE /publications/{key}."""
    return await _update(request, UpdateKind.DELETE)


async def _update(request: Request, kind: UpdateKind) -> Response:
    broker, principal = broker_of(request), principal_of(request, "publish")
    return await answer_update(request, principal, kind, lambda updates: broker.publications.update(updates, principal))


async def read(request: Request) -> Response:
    """GET /publications/{key}."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    held = await broker.runtime.in_thread(broker.publications.find, request.path_params["key"], principal)
    return answer(shown_publication(held), headers={"etag": f'"{held.offset}"'})


async def listing(request: Request) -> Response:
    """GET /publications."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    limit = int(number_of(request, "limit", 100, 1, 1000))
    after = request.query_params.get("after", "")
    found, next_key = await broker.runtime.in_thread(broker.publications.page, principal, after, limit)
    return answer(PublicationPage([shown_publication(one) for one in found], next_key))


async def update_lines(request: Request) -> Response:
    """POST /publications: one update per line."""
    broker, principal = broker_of(request), principal_of(request, "publish")
    return await answer_lines(request, principal, lambda updates: broker.publications.update(updates, principal))


Update = Callable[[list[PublicationUpdate]], Awaitable[list[Published | BrokerError]]]


async def answer_update(request: Request, principal: Principal, kind: UpdateKind, update: Update) -> Response:
    """Apply the update of one key, and answer its offset."""
    body = b"" if kind is UpdateKind.DELETE else await body_of(request)
    asked = read_update(request.path_params["key"], kind, body, if_match(request))
    request.app.state.event_rate.take(principal.name, 1)
    (result,) = await update([asked])
    if isinstance(result, BrokerError):
        raise result
    return answer(EventResult(result.offset), headers={"etag": f'"{result.offset}"'})


async def answer_lines(request: Request, principal: Principal, update: Update) -> Response:
    """Apply the updates of JSON lines, and answer what became of each."""
    lines = [line for line in (await body_of(request)).split(b"\n") if line.strip()]
    if len(lines) > UPDATE_LINES:
        raise TooLarge(f"Expected at most {UPDATE_LINES:,} lines, but got {len(lines):,}")
    asked = read_update_lines(lines)
    good = [one for one in asked if isinstance(one, PublicationUpdate)]
    request.app.state.event_rate.take(principal.name, len(good))
    made = iter(await update(good) if good else [])
    results: list[EventResult] = []
    for one in asked:
        result = next(made) if isinstance(one, PublicationUpdate) else one
        if isinstance(result, BrokerError):
            results.append(EventResult(error=problem_of(result)))
        else:
            results.append(EventResult(result.offset))
    refused = bool(results) and all(result.error is not None for result in results)
    return answer(PublishAnswer(results), 422 if refused else 200)


def shown_publication(held: StoredPublication) -> PublicationShown:
    """A publication as the API shows it."""
    return PublicationShown(held.key, held.offset, time_text(held.time), msgspec.Raw(held.state))


UPDATE_ERRORS = {
    403: ErrorAnswer,
    404: ErrorAnswer,
    412: ErrorAnswer,
    413: ErrorAnswer,
    422: ErrorAnswer,
    429: ErrorAnswer,
}
_ONE = "/publications/{key}"
_TAGGED = ("etag",)
OPERATIONS = [
    Operation(
        "PUT",
        _ONE,
        put,
        "Give a publication a new state. The answer comes when it is on disk.",
        {200: EventResult, **UPDATE_ERRORS},
        json_body(OBJECT),
        headers={"if-match": IF_MATCH},
        answer_headers=_TAGGED,
    ),
    Operation(
        "PATCH",
        _ONE,
        patch,
        "Change some attributes of a publication: a JSON merge patch, in which null deletes.",
        {200: EventResult, **UPDATE_ERRORS},
        json_body(OBJECT),
        headers={"if-match": IF_MATCH},
        answer_headers=_TAGGED,
    ),
    Operation(
        "DELETE",
        _ONE,
        delete,
        "Delete a publication. All that matched it are told.",
        {200: EventResult, 404: ErrorAnswer, 412: ErrorAnswer, 422: ErrorAnswer},
        headers={"if-match": IF_MATCH},
    ),
    Operation(
        "GET",
        _ONE,
        read,
        "Read a publication.",
        {200: PublicationShown, 404: ErrorAnswer, 422: ErrorAnswer},
        answer_headers=_TAGGED,
    ),
    Operation(
        "GET",
        "/publications",
        listing,
        "List publications, in the order of their keys.",
        {200: PublicationPage},
        query={"after": {"type": "string"}, "limit": PAGE},
    ),
    Operation(
        "POST",
        "/publications",
        update_lines,
        'Change many: one {"key", "state"}, {"key", "patch"} or {"key", "delete": true} per line.',
        {200: PublishAnswer, 413: ErrorAnswer, 422: PublishAnswer},
        {LINES: LINES},
    ),
]
