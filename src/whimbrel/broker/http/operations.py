"""Health, readiness, metrics, tokens, dead letters."""

from __future__ import annotations

import re

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from whimbrel.broker.http.exchange import answer, body_of, broker_of, number_of, principal_of
from whimbrel.broker.requests.errors import BAD_JSON, Forbidden, Unprocessable
from whimbrel.broker.requests.rules import allows_text
from whimbrel.broker.service.metrics import CONTENT_TYPE
from whimbrel.broker.service.principal import check_scopes

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class TokenRequest(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The body of POST /tokens and PUT /tokens/{name}."""

    scopes: list[str]
    name: str = ""
    tenant: str = ""
    rules: dict[str, str | int | float | bool] = {}


_tokens = msgspec.json.Decoder(TokenRequest)


async def healthz(request: Request) -> Response:
    """Whether the process works at all; 503 once the log has failed."""
    broker = broker_of(request)
    return answer({"status": "ok"} if broker.failure is None else {"status": "failed"}, 503 if broker.failure else 200)


async def readyz(request: Request) -> Response:
    """Whether requests are taken."""
    ready = broker_of(request).ready
    return answer({"ready": ready}, 200 if ready else 503)


async def metrics(request: Request) -> Response:
    """What Prometheus scrapes. A token with rules may not see counts of everybody's events."""
    principal = request.scope["whimbrel.principal"]
    if principal.rules:
        raise Forbidden("Expected a token without rules")
    return Response(request.app.state.metrics.render(), media_type=CONTENT_TYPE)


async def create_token(request: Request) -> Response:
    """POST /tokens. The token is in this answer and nowhere else."""
    broker = broker_of(request)
    principal_of(request, "admin")
    asked = await _token_request(request)
    if not _NAME.fullmatch(asked.name):
        raise Unprocessable("Expected a name of letters, digits, _ and - - at $.name", "invalid-token")
    token = await broker.create_token(asked.name, asked.scopes, asked.tenant, asked.rules)
    return answer({"name": asked.name, "token": token}, 201, {"cache-control": "no-store"})


async def list_tokens(request: Request) -> Response:
    """GET /tokens: names and rights, never secrets."""
    principal_of(request, "admin")
    shown = [
        {
            "name": token.name,
            "scopes": token.scopes.split(),
            "tenant": token.tenant,
            "rules": msgspec.json.decode(token.rules),
        }
        for token in broker_of(request).tokens.values()
    ]
    return answer({"tokens": shown})


async def change_token(request: Request) -> Response:
    """PUT /tokens/{name}."""
    principal_of(request, "admin")
    asked = await _token_request(request)
    await broker_of(request).change_token(request.path_params["name"], asked.scopes, asked.tenant, asked.rules)
    return Response(status_code=204)


async def revoke_token(request: Request) -> Response:
    """DELETE /tokens/{name}."""
    principal_of(request, "admin")
    await broker_of(request).revoke_token(request.path_params["name"])
    return Response(status_code=204)


async def dead_letters(request: Request) -> Response:
    """GET /dead-letters: events that were refused, with reasons; one's own, or all for an admin."""
    broker, principal = broker_of(request), principal_of(request, "publish")
    limit = int(number_of(request, "limit", 100, 1, 1000))
    after = int(number_of(request, "after", 0, 0, 1 << 53))
    found = await broker.in_thread(
        broker.store.dead_letters, after, limit, None if principal.sees_all else principal.name
    )
    shown = []
    for letter in found:
        if not allows_text(principal.rules, letter.event, broker.index.timestamps):
            continue
        reason = msgspec.json.decode(letter.reason)
        shown.append(
            {
                "number": letter.number,
                "owner": letter.owner,
                "reason": reason,
                "event": letter.event.decode(errors="replace"),
            }
        )
    return answer({"dead_letters": shown, "next": found[-1].number if len(found) == limit else None})


async def _token_request(request: Request) -> TokenRequest:
    try:
        asked = _tokens.decode(await body_of(request))
        check_scopes(asked.scopes)
    except BAD_JSON as error:
        raise Unprocessable(str(error), "invalid-token") from None
    return asked
