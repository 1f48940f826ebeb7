"""/publications: events that stay. Put, patch, read and delete them by key, list them, change many as JSON lines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from whimbrel.broker.http.exchange import answer, body_of, broker_of, limit_of, principal_of, problem_of
from whimbrel.broker.http.operation import IF_MATCH, LINES, OBJECT, PAGES, TAGGED, Operations, json_body
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


UPDATE_ERRORS = (403, 404, 412, 413, 422, 429)
_ONE = "/publications/{key}"
OPERATIONS = Operations()


@OPERATIONS.add(
    "PUT",
    _ONE,
    {200: EventResult},
    json_body(OBJECT),
    headers=IF_MATCH,
    answer_headers=TAGGED,
    errors=UPDATE_ERRORS,
)
async def put(request: Request) -> Response:
    """Give a publication a new state. The answer comes when it is on disk."""
    return await _update(request, UpdateKind.PUT)


@OPERATIONS.add(
    "PATCH",
    _ONE,
    {200: EventResult},
    json_body(OBJECT),
    headers=IF_MATCH,
    answer_headers=TAGGED,
    errors=UPDATE_ERRORS,
)
async def patch(request: Request) -> Response:
    """Change some attributes of a publication: a JSON merge patch, in which null deletes."""
    return await _update(request, UpdateKind.PATCH)


@OPERATIONS.add("DELETE", _ONE, {200: EventResult}, headers=IF_MATCH, errors=(404, 412, 422))
async def delete(request: Request) -> Response:
    """Delete a publication. All that matched it are told."""
    return await _update(request, UpdateKind.DELETE)


async def _update(request: Request, kind: UpdateKind) -> Response:
    broker, principal = broker_of(request), principal_of(request, "publish")
    return await answer_update(request, principal, kind, lambda updates: broker.publications.update(updates, principal))


@OPERATIONS.add("GET", _ONE, {200: PublicationShown}, answer_headers=TAGGED, errors=(404, 422))
async def read(request: Request) -> Response:
    """Read a publication."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    held = await broker.runtime.in_thread(broker.publications.find, request.path_params["key"], principal)
    return answer(shown_publication(held), headers={"etag": f'"{held.offset}"'})


@OPERATIONS.add("GET", "/publications", {200: PublicationPage}, query=PAGES)
async def listing(request: Request) -> Response:
    """List publications, in the order of their keys."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    limit = limit_of(request)
    after = request.query_params.get("after", "")
    found, next_key = await broker.runtime.in_thread(broker.publications.page, principal, after, limit)
    return answer(PublicationPage([shown_publication(one) for one in found], next_key))


@OPERATIONS.add("POST", "/publications", {200: PublishAnswer, 422: PublishAnswer}, {LINES: LINES}, errors=(413,))
async def update_lines(request: Request) -> Response:
    """Change many: one {"key", "state"}, {"key", "patch"} or {"key", "delete": true} per line."""
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
