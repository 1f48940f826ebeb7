"""/subscriptions: create, read, change, delete, list and query, import, export."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from whimbrel.broker.http.exchange import (
    Problem,
    answer,
    body_of,
    broker_of,
    limit_of,
    lines_of,
    merge_refused,
    principal_of,
    problem_of,
    subscription_of,
)
from whimbrel.broker.http.matches import RANGE, export_versions
from whimbrel.broker.http.operation import IF_MATCH, LINES, PAGES, TAGGED, JsonSchema, Operations, json_body
from whimbrel.broker.requests.errors import BrokerError, Unprocessable
from whimbrel.broker.requests.subscriptions import (
    ID,
    PROTOCOLS,
    SubscriptionRequest,
    read_request,
    read_spec,
    time_text,
)
from whimbrel.broker.requests.webhook_sinks import HTTP
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.service.principal import Principal
from whimbrel.broker.service.subscriptions import RequestWithBody, Versions
from whimbrel.broker.store import StoredSubscription

IMPORT_LINES = 20_000
"""Subscriptions of one request of import, at most."""
QUERIED = 20_000
"""Subscriptions that one query looks at, at most; the next page goes on behind them."""
_PAGE = 1_000


class SubscriptionShown(SubscriptionRequest, kw_only=True):
    """A subscription: as it was asked for, with what the broker adds.

    `version` is what If-Match takes; `lag` counts the messages behind `cursor`. Of a subscription with a sink, `secret`
    signs, shown once when it was created, and `delivery` says how deliveries stand.
    """

    id: str
    version: str
    owner: str
    protocol: str
    created: str
    cursor: str | None = None
    lag: int | None = None
    secret: str | None = None
    delivery: dict[str, Any] | None = None


class SubscriptionPage(msgspec.Struct):
    """Subscriptions in the order of their ids. `next` is the `after` of the next page."""

    subscriptions: list[SubscriptionShown]
    next: str | None


class ImportResult(msgspec.Struct, omit_defaults=True):
    """What became of one line: the id of its subscription, with the secret of its webhook, or an error."""

    id: str | None = None
    secret: str | None = None
    error: Problem | None = None


class ImportAnswer(msgspec.Struct):
    """What became of each line, in their order."""

    results: list[ImportResult]


_ONE = "/subscriptions/{id}"
_QUERY: dict[str, JsonSchema] = {
    "protocol": {"enum": list(PROTOCOLS), "type": "string"},
    "source": {"type": "string"},
    "type": {"type": "string", "description": "One of its types."},
    "owner": {"type": "string"},
    "contains": {"type": "string", "description": "A part of the text of its filter."},
}
OPERATIONS = Operations()


@OPERATIONS.add(
    "POST",
    "/subscriptions",
    {201: SubscriptionShown},
    json_body(SubscriptionRequest),
    answer_headers=("etag", "location"),
    errors=(413, 422),
)
async def create(request: Request) -> Response:
    """Create a subscription."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    body = await body_of(request)
    made = await broker.subscriptions.create((read_request(body), body), principal)
    one = shown(made)
    if made.protocol == HTTP:
        one.secret = broker.webhooks.signing_secret(made.id)
    return answer(one, 201, {"location": f"/subscriptions/{made.id}", "etag": f'"{made.number}"'})


@OPERATIONS.add("GET", "/subscriptions", {200: SubscriptionPage}, query={**PAGES, **_QUERY})
async def listing(request: Request) -> Response:
    """List subscriptions, in the order of their ids; only those that fulfil every condition given."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    limit = limit_of(request)
    wanted = {name: request.query_params[name] for name in _QUERY if name in request.query_params}
    after = request.query_params.get("after", "")
    return answer(await broker.runtime.in_thread(_query, broker, principal, after, limit, wanted))


def _query(broker: Broker, principal: Principal, after: str, limit: int, wanted: dict[str, str]) -> SubscriptionPage:
    found: list[SubscriptionShown] = []
    for _ in range(QUERIED // _PAGE):
        page = broker.subscriptions.page(principal, after, _PAGE if wanted else limit)
        for held in page:
            after = held.id
            one = shown(held)
            if all(_fulfils(one, name, text) for name, text in wanted.items()):
                found.append(one)
                if len(found) == limit:
                    return SubscriptionPage(found, after)
        if len(page) < (_PAGE if wanted else limit):
            return SubscriptionPage(found, None)
    return SubscriptionPage(found, after)


def _fulfils(one: SubscriptionShown, name: str, text: str) -> bool:
    """Whether a subscription fulfils one condition."""
    if name == "type":
        return text in (one.types or ())
    if name == "contains":
        return isinstance(one.filter, str) and text in one.filter
    return bool(getattr(one, name) == text)


@OPERATIONS.add("GET", _ONE, {200: SubscriptionShown}, answer_headers=TAGGED, errors=(404,))
async def read(request: Request) -> Response:
    """Read a subscription, with its cursor and how many messages wait."""
    broker, held = broker_of(request), subscription_of(request)
    one = shown(held)
    cursor = broker.messages.position(held)
    one.cursor = str(cursor)
    one.lag = await broker.runtime.in_thread(broker.messages.lag, held, cursor.offset)
    if held.protocol == HTTP:
        one.delivery = broker.webhooks.state(held)
    return answer(one, headers={"etag": f'"{held.number}"'})


@OPERATIONS.add(
    "PUT",
    _ONE,
    {200: SubscriptionShown},
    json_body(SubscriptionRequest),
    headers=IF_MATCH,
    answer_headers=TAGGED,
    errors=(404, 412, 413, 422),
)
async def replace(request: Request) -> Response:
    """Give a subscription another filter. If-Match names the version to replace."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    body = await body_of(request)
    asked = read_request(body), body
    made = await broker.subscriptions.replace(request.path_params["id"], asked, principal, if_match(request))
    return answer(shown(made), headers={"etag": f'"{made.number}"'})


@OPERATIONS.add("DELETE", _ONE, {204: None}, headers=IF_MATCH, errors=(404, 412))
async def delete(request: Request) -> Response:
    """End a subscription."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    await broker.subscriptions.delete(request.path_params["id"], principal, if_match(request))
    return Response(status_code=204)


@OPERATIONS.add("POST", "/subscriptions/import", {200: ImportAnswer, 422: ImportAnswer}, {LINES: LINES}, errors=(413,))
async def import_lines(request: Request) -> Response:
    """Create many: one subscription per line."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    asked = await broker.runtime.in_parser(_read_lines, await lines_of(request, IMPORT_LINES))
    good = [one for one in asked if not isinstance(one, BrokerError)]
    made = await broker.subscriptions.import_many(good, principal) if good else []
    results: list[ImportResult] = []
    for result in merge_refused(asked, made):
        if isinstance(result, BrokerError):
            results.append(ImportResult(error=problem_of(result)))
        else:
            secret = broker.webhooks.signing_secret(result.id) if result.protocol == HTTP else None
            results.append(ImportResult(result.id, secret))
    refused = bool(results) and all(result.error is not None for result in results)
    return answer(ImportAnswer(results), 422 if refused else 200)


def _read_lines(lines: list[bytes]) -> list[RequestWithBody | BrokerError]:
    found: list[RequestWithBody | BrokerError] = []
    for line in lines:
        try:
            asked = read_request(line)
            if asked.id is not None and not ID.fullmatch(asked.id):
                expected = "an id of letters, digits and _.~-, other than . and .."
                raise Unprocessable(f"Expected {expected} - at $.id", "invalid-subscription")
            if asked.start not in (None, "now"):
                raise Unprocessable("Expected to start now, because imports do - at $.start", "invalid-subscription")
            found.append((asked, line))
        except BrokerError as error:
            found.append(error)
    return found


@OPERATIONS.add("GET", "/subscriptions/export", {200: LINES}, query={**RANGE, "since": RANGE["from"]}, errors=(422,))
async def export_lines(request: Request) -> Response:
    """All subscriptions, one per line, as import takes them.

    With `from` every version that overlaps a range of the log, ended or not, for engines outside of the broker: those
    that began or ended at `since` or later.
    """
    if "from" in request.query_params:
        return await export_versions(request)
    broker, principal = broker_of(request), principal_of(request, "subscribe")

    async def lines() -> AsyncIterator[bytes]:
        after = ""
        while page := await broker.runtime.in_thread(broker.subscriptions.page, principal, after, _PAGE):
            broker.tokens.check_current(principal)
            after = page[-1].id
            yield b"".join(map(_exported, page))

    return StreamingResponse(lines(), media_type=LINES)


def _exported(held: StoredSubscription) -> bytes:
    request = read_spec(held.spec)
    return msgspec.json.encode(msgspec.structs.replace(request, id=held.id, start=None)) + b"\n"


def shown(held: StoredSubscription) -> SubscriptionShown:
    """A subscription as the API shows it."""
    asked = read_spec(held.spec)
    fields = msgspec.structs.asdict(asked)
    fields |= {"id": held.id, "version": str(held.number), "owner": held.owner, "created": time_text(held.created)}
    if held.expires is not None:
        fields["expires"] = time_text(held.expires)
    return SubscriptionShown(**fields)


def if_match(request: Request) -> Versions:
    """The versions that If-Match names; weak tags never match."""
    value = request.headers.get("if-match")
    if value is None or value.strip() == "*":
        return None
    return frozenset(tag.strip().strip('"') for tag in value.split(",") if not tag.strip().startswith("W/"))
