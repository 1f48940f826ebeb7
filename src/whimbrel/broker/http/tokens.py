"""/tokens: create, list, change and revoke tokens. For admins."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from whimbrel.broker.http.exchange import ErrorAnswer, answer, body_of, broker_of, principal_of, read_body
from whimbrel.broker.http.operation import Operation, json_body


class TokenRequest(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The body of POST /tokens and PUT /tokens/{name}."""

    scopes: list[str]
    name: str = ""
    tenant: str = ""
    rules: dict[str, str | int | float | bool] = {}


class TokenMade(msgspec.Struct):
    """A new token. `token` is in this answer and nowhere else."""

    name: str
    token: str


class TokenShown(msgspec.Struct):
    """A token without its secret."""

    name: str
    scopes: list[str]
    tenant: str
    rules: dict[str, str | int | float | bool]


class TokenList(msgspec.Struct):
    """All tokens."""

    tokens: list[TokenShown]


_requests = msgspec.json.Decoder(TokenRequest)


async def create(request: Request) -> Response:
    """POST /tokens. The token is in this answer and nowhere else."""
    principal_of(request, "admin")
    asked = await _asked(request)
    token = await broker_of(request).tokens.create(asked.name, asked.scopes, asked.tenant, asked.rules)
    return answer(TokenMade(asked.name, token), 201, {"cache-control": "no-store"})


async def listing(request: Request) -> Response:
    """GET /tokens: names and rights, never secrets."""
    principal_of(request, "admin")
    stored = broker_of(request).tokens.stored.values()
    shown = [TokenShown(one.name, one.scopes.split(), one.tenant, msgspec.json.decode(one.rules)) for one in stored]
    return answer(TokenList(shown))


async def change(request: Request) -> Response:
    """PUT /tokens/{name}."""
    principal_of(request, "admin")
    asked = await _asked(request)
    await broker_of(request).tokens.change(request.path_params["name"], asked.scopes, asked.tenant, asked.rules)
    return Response(status_code=204)


async def revoke(request: Request) -> Response:
    """DELETE /tokens/{name}."""
    principal_of(request, "admin")
    await broker_of(request).tokens.revoke(request.path_params["name"])
    return Response(status_code=204)


async def _asked(request: Request) -> TokenRequest:
    return read_body(await body_of(request), _requests, "invalid-token")


_ONE = "/tokens/{name}"
OPERATIONS = [
    Operation(
        "POST",
        "/tokens",
        create,
        "Create a token; its text is shown once.",
        {201: TokenMade, 409: ErrorAnswer, 422: ErrorAnswer},
        json_body(TokenRequest),
    ),
    Operation("GET", "/tokens", listing, "List tokens, without secrets.", {200: TokenList}),
    Operation(
        "PUT",
        _ONE,
        change,
        "Give a token other rights: its filters follow, and its streams are closed.",
        {204: None, 404: ErrorAnswer, 422: ErrorAnswer},
        json_body(TokenRequest),
    ),
    Operation(
        "DELETE",
        _ONE,
        revoke,
        "Revoke a token: its subscriptions end, and its streams are closed.",
        {204: None, 404: ErrorAnswer},
    ),
]
