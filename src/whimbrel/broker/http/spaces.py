"""/spaces: subject spaces, and subscriptions with regions."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from whimbrel.broker.http.exchange import answer, body_of, broker_of, principal_of, read_body
from whimbrel.broker.http.operation import IF_MATCH, TAGGED, Operations, json_body
from whimbrel.broker.http.publications import UPDATE_ERRORS
from whimbrel.broker.http.subscriptions import SubscriptionShown, if_match, shown
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


_SPACE, _SUBSCRIPTION = "/spaces/{name}", "/spaces/{name}/subscriptions/{id}"
OPERATIONS = Operations()


@OPERATIONS.add("PUT", _SPACE, {200: SpaceShown}, json_body(SpaceBody), errors=(403, 409, 413, 422, 429))
async def define(request: Request) -> Response:
    """Define a subject space: its dimensions and their types."""
    broker, principal = broker_of(request), principal_of(request, "publish")
    name = request.path_params["name"]
    if not ID.fullmatch(name):
        raise Unprocessable("Expected a name of letters, digits and _.~-, other than . and ..", "invalid-space")
    body = await read_body(request, SpaceBody, "invalid-space")
    await broker.spaces.define(name, body.dimensions, principal)
    return answer(SpaceShown(name, body.dimensions))


@OPERATIONS.add("GET", _SPACE, {200: SpaceShown}, errors=(404,))
async def read_space(request: Request) -> Response:
    """Read the definition of a space."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    name = request.path_params["name"]
    return answer(SpaceShown(name, await broker.runtime.in_thread(broker.spaces.find_space, name, principal)))


@OPERATIONS.add("GET", "/spaces", {200: SpaceList})
async def spaces(request: Request) -> Response:
    """List the spaces."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    found = await broker.runtime.in_thread(broker.spaces.spaces, principal)
    return answer(SpaceList([SpaceShown(*one) for one in found.items()]))


@OPERATIONS.add("DELETE", _SPACE, {204: None}, errors=(403, 404))
async def drop(request: Request) -> Response:
    """Drop a space with its publications, and end the subscriptions on it."""
    broker, principal = broker_of(request), principal_of(request, "publish")
    await broker.spaces.drop(request.path_params["name"], principal)
    return Response(status_code=204)


@OPERATIONS.add(
    "PUT",
    _SUBSCRIPTION,
    {200: SubscriptionShown, 201: SubscriptionShown},
    json_body(SubscriptionRequest),
    headers=IF_MATCH,
    answer_headers=TAGGED,
    errors=(409, *UPDATE_ERRORS),
)
async def subscribe(request: Request) -> Response:
    """Create a subscription with regions, or replace it. Its messages are read at /subscriptions/{id}."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    name, id = request.path_params["name"], request.path_params["id"]
    if not ID.fullmatch(id):
        raise Unprocessable("Expected an id of letters, digits and _.~-, other than . and ..", "invalid-subscription")
    asked = read_request(await body_of(request), f"spaces/{name}")
    made, is_new = await broker.spaces.subscribe(name, id, asked, principal, if_match(request))
    return answer(shown(made), 201 if is_new else 200, {"etag": f'"{made.number}"'})


@OPERATIONS.add("GET", _SUBSCRIPTION, {200: SubscriptionShown}, answer_headers=TAGGED, errors=(404,))
async def read_subscription(request: Request) -> Response:
    """Read a subscription on a space."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    name, id = request.path_params["name"], request.path_params["id"]
    held = await broker.runtime.in_thread(broker.spaces.find_subscription, name, id, principal)
    return answer(shown(held), headers={"etag": f'"{held.number}"'})


@OPERATIONS.add("DELETE", _SUBSCRIPTION, {204: None}, headers=IF_MATCH, errors=(404, 412))
async def unsubscribe(request: Request) -> Response:
    """End a subscription on a space."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    name, id = request.path_params["name"], request.path_params["id"]
    held = await broker.runtime.in_thread(broker.spaces.find_subscription, name, id, principal)
    await broker.subscriptions.delete(held.id, principal, if_match(request))
    return Response(status_code=204)
