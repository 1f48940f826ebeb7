"""/tokens: create, list, change and revoke tokens. For admins."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from whimbrel.broker.http.exchange import answer, broker_of, principal_of, read_body
from whimbrel.broker.http.operation import Operations, json_body


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


_ONE = "/tokens/{name}"
OPERATIONS = Operations()


@OPERATIONS.add("POST", "/tokens", {201: TokenMade}, json_body(TokenRequest), errors=(409, 422))
async def create(request: Request) -> Response:
    """Create a token; its text is shown once."""
    principal_of(request, "admin")
    asked = await read_body(request, TokenRequest, "invalid-token")
    token = await broker_of(request).tokens.create(asked.name, asked.scopes, asked.tenant, asked.rules)
    return answer(TokenMade(asked.name, token), 201, {"cache-control": "no-store"})


@OPERATIONS.add("GET", "/tokens", {200: TokenList})
async def listing(request: Request) -> Response:
    """List tokens, without secrets."""
    principal_of(request, "admin")
    stored = broker_of(request).tokens.stored.values()
    shown = [TokenShown(one.name, one.scopes.split(), one.tenant, msgspec.json.decode(one.rules)) for one in stored]
    return answer(TokenList(shown))


@OPERATIONS.add("PUT", _ONE, {204: None}, json_body(TokenRequest), errors=(404, 422))
async def change(request: Request) -> Response:
    """Give a token other rights: the new rules hold for its subscriptions, and its streams are closed."""
    principal_of(request, "admin")
    asked = await read_body(request, TokenRequest, "invalid-token")
    await broker_of(request).tokens.change(request.path_params["name"], asked.scopes, asked.tenant, asked.rules)
    return Response(status_code=204)


@OPERATIONS.add("DELETE", _ONE, {204: None}, errors=(404,))
async def revoke(request: Request) -> Response:
    """Revoke a token: its subscriptions end, and its streams are closed."""
    principal_of(request, "admin")
    await broker_of(request).tokens.revoke(request.path_params["name"])
    return Response(status_code=204)
