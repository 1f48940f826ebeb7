"""/spaces: subject spaces, the publications in them, and subscriptions with regions."""

from __future__ import annotations

from typing import Annotated, Any

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
    read_body,
)
from whimbrel.broker.http.operation import IF_MATCH, LINES, PAGE, Operation, json_body
from whimbrel.broker.http.publications import (
    UPDATE_ERRORS,
    PublicationPage,
    PublicationShown,
    answer_lines,
    answer_update,
    shown_publication,
)
from whimbrel.broker.http.publish import EventResult, PublishAnswer
from whimbrel.broker.http.subscriptions import SubscriptionShown, if_match, shown
from whimbrel.broker.publications.region_bodies import RegionPatch, RegionsBody
from whimbrel.broker.publications.update_requests import UpdateKind
from whimbrel.broker.requests.errors import Unprocessable
from whimbrel.broker.requests.subscriptions import ID, SubscriptionRequest, read_request


class SpaceBody(msgspec.Struct, forbid_unknown_fields=True):
    """The dimensions of a space and their types."""

    dimensions: Annotated[dict[str, str | dict[str, Any]], msgspec.Meta(min_length=1)]


class SpaceShown(msgspec.Struct):
    """A space: its name, and the types of its dimensions."""

    name: str
    dimensions: dict[str, str | dict[str, Any]]


class SpaceList(msgspec.Struct):
    """The spaces of a tenant, in the order of their names."""

    spaces: list[SpaceShown]


_bodies = msgspec.json.Decoder(SpaceBody)


async def define(request: Request) -> Response:
    """PUT /spaces/{name}."""
    broker, principal = broker_of(request), principal_of(request, "publish")
    name = request.path_params["name"]
    if not ID.fullmatch(name):
        raise Unprocessable("Expected a name of letters, digits and _.~-", "invalid-space")
    body = read_body(await body_of(request), _bodies, "invalid-space")
    await broker.spaces.define(name, body.dimensions, principal)
    return answer(SpaceShown(name, body.dimensions))


async def read_space(request: Request) -> Response:
    """GET /spaces/{name}."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    name = request.path_params["name"]
    return answer(SpaceShown(name, await broker.runtime.in_thread(broker.spaces.find_space, name, principal)))


async def spaces(request: Request) -> Response:
    """GET /spaces."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    found = await broker.runtime.in_thread(broker.spaces.spaces, principal)
    return answer(SpaceList([SpaceShown(*one) for one in found.items()]))


async def drop(request: Request) -> Response:
    """DELETE /spaces/{name}."""
    broker, principal = broker_of(request), principal_of(request, "publish")
    await broker.spaces.drop(request.path_params["name"], principal)
    return Response(status_code=204)


async def put(request: Request) -> Response:
    """PUT /spaces/{name}/publications/{key}."""
    return await _update(request, UpdateKind.PUT)


async def patch(request: Request) -> Response:
    """PATCH /spaces/{name}/publications/{key}."""
    return await _update(request, UpdateKind.PATCH)


async def delete(request: Request) -> Response:
    """DELETE /spaces/{name}/publications/{key}."""
    return await _update(request, UpdateKind.DELETE)


async def _update(request: Request, kind: UpdateKind) -> Response:
    broker, principal = broker_of(request), principal_of(request, "publish")
    name = request.path_params["name"]
    return await answer_update(request, principal, kind, lambda updates: broker.spaces.update(name, updates, principal))


async def update_lines(request: Request) -> Response:
    """POST /spaces/{name}/publications: one update per line."""
    broker, principal = broker_of(request), principal_of(request, "publish")
    name = request.path_params["name"]
    return await answer_lines(request, principal, lambda updates: broker.spaces.update(name, updates, principal))


async def read(request: Request) -> Response:
    """GET /spaces/{name}/publications/{key}."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    name, key = request.path_params["name"], request.path_params["key"]
    held = await broker.runtime.in_thread(broker.spaces.find, name, key, principal)
    return answer(shown_publication(held), headers={"etag": f'"{held.offset}"'})


async def listing(request: Request) -> Response:
    """GET /spaces/{name}/publications."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    limit = int(number_of(request, "limit", 100, 1, 1000))
    name, after = request.path_params["name"], request.query_params.get("after", "")
    found, next_key = await broker.runtime.in_thread(broker.spaces.page, name, principal, after, limit)
    return answer(PublicationPage([shown_publication(one) for one in found], next_key))


async def subscribe(request: Request) -> Response:
    """PUT /spaces/{name}/subscriptions/{id}."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    name, id = request.path_params["name"], request.path_params["id"]
    if not ID.fullmatch(id):
        raise Unprocessable("Expected an id of letters, digits and _.~-", "invalid-subscription")
    asked = read_request(await body_of(request), f"spaces/{name}")
    made, is_new = await broker.spaces.subscribe(name, id, asked, principal, if_match(request))
    return answer(shown(made), 201 if is_new else 200, {"etag": f'"{made.number}"'})


async def read_subscription(request: Request) -> Response:
    """GET /spaces/{name}/subscriptions/{id}."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    name, id = request.path_params["name"], request.path_params["id"]
    held = await broker.runtime.in_thread(broker.spaces.find_subscription, name, id, principal)
    return answer(shown(held), headers={"etag": f'"{held.number}"'})


async def unsubscribe(request: Request) -> Response:
    """DELETE /spaces/{name}/subscriptions/{id}."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    name, id = request.path_params["name"], request.path_params["id"]
    held = await broker.runtime.in_thread(broker.spaces.find_subscription, name, id, principal)
    await broker.subscriptions.delete(held.id, principal, if_match(request))
    return Response(status_code=204)


_SPACE, _ONE, _SUBSCRIPTION = "/spaces/{name}", "/spaces/{name}/publications/{key}", "/spaces/{name}/subscriptions/{id}"
_TAGGED = ("etag",)
_IF_MATCH = {"if-match": IF_MATCH}
OPERATIONS = [
    Operation(
        "PUT",
        _SPACE,
        define,
        "Define a subject space: its dimensions and their types.",
        {200: SpaceShown, 403: ErrorAnswer, 409: ErrorAnswer, 413: ErrorAnswer, 422: ErrorAnswer, 429: ErrorAnswer},
        json_body(SpaceBody),
    ),
    Operation("GET", _SPACE, read_space, "Read the definition of a space.", {200: SpaceShown, 404: ErrorAnswer}),
    Operation("GET", "/spaces", spaces, "List the spaces.", {200: SpaceList}),
    Operation(
        "DELETE",
        _SPACE,
        drop,
        "Drop a space with its publications, and end the subscriptions on it.",
        {204: None, 403: ErrorAnswer, 404: ErrorAnswer},
    ),
    Operation(
        "PUT",
        _ONE,
        put,
        "Give a publication regions. The answer comes when they are on disk.",
        {200: EventResult, **UPDATE_ERRORS},
        json_body(RegionsBody),
        headers=_IF_MATCH,
        answer_headers=_TAGGED,
    ),
    Operation(
        "PATCH",
        _ONE,
        patch,
        "Change some dimensions of one region of a publication; null removes a constraint.",
        {200: EventResult, **UPDATE_ERRORS},
        json_body(RegionPatch),
        headers=_IF_MATCH,
        answer_headers=_TAGGED,
    ),
    Operation(
        "DELETE",
        _ONE,
        delete,
        "Delete a publication. All that matched it are told.",
        {200: EventResult, 404: ErrorAnswer, 412: ErrorAnswer, 422: ErrorAnswer},
        headers=_IF_MATCH,
    ),
    Operation(
        "GET",
        _ONE,
        read,
        "Read the regions of a publication.",
        {200: PublicationShown, 404: ErrorAnswer, 422: ErrorAnswer},
        answer_headers=_TAGGED,
    ),
    Operation(
        "GET",
        "/spaces/{name}/publications",
        listing,
        "List the publications of a space, in the order of their keys.",
        {200: PublicationPage, 404: ErrorAnswer},
        query={"after": {"type": "string"}, "limit": PAGE},
    ),
    Operation(
        "POST",
        "/spaces/{name}/publications",
        update_lines,
        'Change many: one {"key", "state": {"regions"}}, {"key", "patch"} or {"key", "delete": true} per line.',
        {200: PublishAnswer, 404: ErrorAnswer, 413: ErrorAnswer, 422: PublishAnswer},
        {LINES: LINES},
    ),
    Operation(
        "PUT",
        _SUBSCRIPTION,
        subscribe,
        "Create a subscription with regions, or replace it. Its messages are read at /subscriptions/{id}.",
        {200: SubscriptionShown, 201: SubscriptionShown, 409: ErrorAnswer, **UPDATE_ERRORS},
        json_body(SubscriptionRequest),
        headers=_IF_MATCH,
        answer_headers=_TAGGED,
    ),
    Operation(
        "GET",
        _SUBSCRIPTION,
        read_subscription,
        "Read a subscription on a space.",
        {200: SubscriptionShown, 404: ErrorAnswer},
        answer_headers=_TAGGED,
    ),
    Operation(
        "DELETE",
        _SUBSCRIPTION,
        unsubscribe,
        "End a subscription on a space.",
        {204: None, 404: ErrorAnswer, 412: ErrorAnswer},
        headers=_IF_MATCH,
    ),
]
