"""/publications, also of spaces: put, patch, read and delete events that stay, list them, change many as JSON lines."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from whimbrel.broker.http.exchange import answer, body_of, broker_of, limit_of, lines_of, merge_refused, principal_of
from whimbrel.broker.http.operation import (
    IF_MATCH,
    LINES,
    OBJECT,
    PAGES,
    TAGGED,
    Endpoint,
    Operations,
    Shape,
    json_body,
)
from whimbrel.broker.http.publish import EventResult, PublishAnswer, answer_results, event_results
from whimbrel.broker.http.subscriptions import if_match
from whimbrel.broker.publications.region_bodies import RegionPatch, RegionsBody
from whimbrel.broker.publications.update_requests import PublicationUpdate, UpdateKind, read_update, read_update_lines
from whimbrel.broker.requests.errors import BrokerError
from whimbrel.broker.requests.subscriptions import time_text
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
_ALL, _ONE = "/publications", "/publications/{key}"
_ALL_IN_SPACE, _ONE_IN_SPACE = f"/spaces/{{name}}{_ALL}", f"/spaces/{{name}}{_ONE}"
OPERATIONS = Operations()
IN_SPACES = Operations("spaces")
"""The same for the publications of the space that the path names."""


def _add_update(operations: Operations, method: str, path: str, body: Shape) -> Callable[[Endpoint], Endpoint]:
    """Declare the endpoint below: it updates a publication from the body."""
    return operations.add(
        method,
        path,
        {200: EventResult},
        json_body(body),
        headers=IF_MATCH,
        answer_headers=TAGGED,
        errors=UPDATE_ERRORS,
    )


@_add_update(OPERATIONS, "PUT", _ONE, OBJECT)
@_add_update(IN_SPACES, "PUT", _ONE_IN_SPACE, RegionsBody)
async def put(request: Request) -> Response:
    """Give a publication a new state, in a space its regions. The answer comes when it is on disk."""
    return await _update(request, UpdateKind.PUT)


@_add_update(OPERATIONS, "PATCH", _ONE, OBJECT)
@_add_update(IN_SPACES, "PATCH", _ONE_IN_SPACE, RegionPatch)
async def patch(request: Request) -> Response:
    """Change some attributes of a publication by a JSON merge patch, or in a space one region; null deletes."""
    return await _update(request, UpdateKind.PATCH)


@OPERATIONS.add("DELETE", _ONE, {200: EventResult}, headers=IF_MATCH, errors=(404, 412, 422))
@IN_SPACES.add("DELETE", _ONE_IN_SPACE, {200: EventResult}, headers=IF_MATCH, errors=(404, 412, 422))
async def delete(request: Request) -> Response:
    """Delete a publication. All that matched it are told."""
    return await _update(request, UpdateKind.DELETE)


async def _update(request: Request, kind: UpdateKind) -> Response:
    """Apply the update of one key, and answer its offset."""
    broker, principal = broker_of(request), principal_of(request, "publish")
    body = b"" if kind is UpdateKind.DELETE else await body_of(request)
    asked = read_update(request.path_params["key"], kind, body, if_match(request))
    request.app.state.event_rate.take(principal.name, 1)
    (result,) = await broker.publications.update([asked], principal, _space(request))
    if isinstance(result, BrokerError):
        raise result
    return answer(EventResult(result.offset), headers={"etag": f'"{result.offset}"'})


@OPERATIONS.add("GET", _ONE, {200: PublicationShown}, answer_headers=TAGGED, errors=(404, 422))
@IN_SPACES.add("GET", _ONE_IN_SPACE, {200: PublicationShown}, answer_headers=TAGGED, errors=(404, 422))
async def read(request: Request) -> Response:
    """Read a publication."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    key = request.path_params["key"]
    held = await broker.runtime.in_thread(broker.publications.find, key, principal, _space(request))
    return answer(_shown(held), headers={"etag": f'"{held.offset}"'})


@OPERATIONS.add("GET", _ALL, {200: PublicationPage}, query=PAGES)
@IN_SPACES.add("GET", _ALL_IN_SPACE, {200: PublicationPage}, query=PAGES, errors=(404,))
async def listing(request: Request) -> Response:
    """List publications, in the order of their keys."""
    broker, principal, space = broker_of(request), principal_of(request, "subscribe"), _space(request)
    if space:
        await broker.runtime.in_thread(broker.spaces.find_space, space, principal)
    after, limit = request.query_params.get("after", ""), limit_of(request)
    page = await broker.runtime.in_thread(broker.publications.page, principal, after, limit, space)
    return answer(PublicationPage([_shown(one) for one in page[0]], page[1]))


@OPERATIONS.add("POST", _ALL, {200: PublishAnswer, 422: PublishAnswer}, {LINES: LINES}, errors=(413,))
@IN_SPACES.add("POST", _ALL_IN_SPACE, {200: PublishAnswer, 422: PublishAnswer}, {LINES: LINES}, errors=(404, 413))
async def update_lines(request: Request) -> Response:
    """Change many: one {"key", "state"}, {"key", "patch"} or {"key", "delete": true} per line."""
    broker, principal = broker_of(request), principal_of(request, "publish")
    asked = read_update_lines(await lines_of(request, UPDATE_LINES))
    good = [one for one in asked if isinstance(one, PublicationUpdate)]
    request.app.state.event_rate.take(principal.name, len(good))
    made = await broker.publications.update(good, principal, _space(request)) if good else []
    return answer_results(event_results(merge_refused(asked, made)))


def _space(request: Request) -> str:
    """The space that the path names; "" if it names none."""
    return str(request.path_params.get("name", ""))


def _shown(held: StoredPublication) -> PublicationShown:
    return PublicationShown(held.key, held.offset, time_text(held.time), msgspec.Raw(held.state))
