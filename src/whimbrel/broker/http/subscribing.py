"""/subscriptions: create, read, change, delete, list, import, export; validate, explain, preview and lint filters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from whimbrel.broker.delivery.history import scan
from whimbrel.broker.http.exchange import (
    answer,
    body_of,
    broker_of,
    check_cost,
    json_of,
    number_of,
    principal_of,
    problem_of,
)
from whimbrel.broker.requests.errors import BadRequest, BrokerError, NotFound, TooLarge, Unprocessable
from whimbrel.broker.requests.rules import allows_text
from whimbrel.broker.requests.subscriptions import ID, SubscriptionRequest, filter_of, read_request
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.service.principal import Principal
from whimbrel.broker.store import StoredSubscription
from whimbrel.engine.index import Index
from whimbrel.language.lint import lint_filter, lint_together
from whimbrel.log import EVENT
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.event import Event
from whimbrel.model.explain import explain as explain_filter
from whimbrel.model.filter import Filter
from whimbrel.model.json_text import parse_json

IMPORT_LINES = 20_000
"""Subscriptions of one request of import, at most."""
_PAGE = 1_000
_LINTED = 10_000


async def create(request: Request) -> Response:
    """POST /subscriptions."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    body = await body_of(request)
    asked = read_request(body)
    await check_cost(broker, filter_of(asked, {}), principal)
    made = await broker.create(asked, body, principal)
    headers = {"location": f"/subscriptions/{made.id}", "etag": f'"{made.number}"'}
    return answer(represent(made), 201, headers)


async def listing(request: Request) -> Response:
    """GET /subscriptions."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    limit = int(number_of(request, "limit", 100, 1, _PAGE))
    protocol = request.query_params.get("protocol")
    found = await broker.in_thread(broker.page, principal, request.query_params.get("after", ""), limit)
    shown = [represent(one) for one in found if protocol is None or one.protocol == protocol]
    return answer({"subscriptions": shown, "next": found[-1].id if len(found) == limit else None})


async def read(request: Request) -> Response:
    """GET /subscriptions/{id}."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    held = broker.find(request.path_params["id"], principal)
    cursor = broker.messages.position(held)
    lag = await broker.in_thread(broker.messages.lag, held, cursor.offset)
    shown = represent(held) | {"cursor": str(cursor), "lag": lag}
    return answer(shown, headers={"etag": f'"{held.number}"'})


async def replace(request: Request) -> Response:
    """PUT /subscriptions/{id}."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    body = await body_of(request)
    asked = read_request(body)
    broker.find(request.path_params["id"], principal)
    await check_cost(broker, filter_of(asked, {}), principal)
    made = await broker.replace(request.path_params["id"], asked, body, principal, _if_match(request))
    return answer(represent(made), headers={"etag": f'"{made.number}"'})


async def delete(request: Request) -> Response:
    """DELETE /subscriptions/{id}."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    await broker.delete(request.path_params["id"], principal, _if_match(request))
    return Response(status_code=204)


async def import_lines(request: Request) -> Response:
    """POST /subscriptions/import: one subscription per line."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    lines = [line for line in (await body_of(request)).split(b"\n") if line.strip()]
    if len(lines) > IMPORT_LINES:
        raise TooLarge(f"Expected at most {IMPORT_LINES:,} lines, but got {len(lines):,}")
    asked = await broker.in_thread(_read_lines, lines)
    good = [one for one in asked if not isinstance(one, BrokerError)]
    made = iter(await broker.import_many(good, principal) if good else [])
    results: list[dict[str, object]] = []
    for one in asked:
        result = one if isinstance(one, BrokerError) else next(made)
        results.append({"error": problem_of(result)} if isinstance(result, BrokerError) else {"id": result.id})
    refused = bool(results) and all("error" in result for result in results)
    return answer({"results": results}, 422 if refused else 200)


def _read_lines(lines: list[bytes]) -> list[tuple[SubscriptionRequest, bytes] | BrokerError]:
    read: list[tuple[SubscriptionRequest, bytes] | BrokerError] = []
    for line in lines:
        try:
            asked = read_request(line)
            if asked.id is not None and not ID.fullmatch(asked.id):
                raise Unprocessable("Expected an id of letters, digits and _.~- - at $.id", "invalid-subscription")
            if asked.start not in (None, "now"):
                raise Unprocessable("Expected to start now, because imports do - at $.start", "invalid-subscription")
            read.append((asked, line))
        except BrokerError as error:
            read.append(error)
    return read


async def export_lines(request: Request) -> Response:
    """GET /subscriptions/export: what `import` takes, one subscription per line."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")

    async def lines() -> AsyncIterator[bytes]:
        after = ""
        while page := await broker.in_thread(broker.page, principal, after, _PAGE):
            after = page[-1].id
            yield b"".join(msgspec.json.encode({**_spec(one), "id": one.id}) + b"\n" for one in page)

    return StreamingResponse(lines(), media_type="application/x-ndjson")


async def validate(request: Request) -> Response:
    """POST /subscriptions/validate: whether a subscription would be taken, and what its filter means."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    try:
        asked = read_request(await body_of(request))
        filter = filter_of(asked, principal.rules, broker.index.schema)
        cost = await broker.in_background(broker.index.cost, filter)
        shown: dict[str, object] = {
            "valid": True,
            "filter": str(filter),
            "attributes": sorted(filter.attributes),
            "conjunctions": len(filter.conjunctions),
            "cost": {"nanoseconds": round(cost.nanoseconds, 1), "candidates": cost.candidates},
            "remarks": [{"rule": remark.rule, "message": remark.message} for remark in lint_filter(filter)],
        }
        return answer(shown)
    except WhimbrelError as error:
        return answer({"valid": False, "error": problem_of(error)})


async def explain(request: Request) -> Response:
    """POST /subscriptions/explain and /subscriptions/{id}/explain: why an event matches, or why not."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    body = await json_of(request)
    event = await _event_of(broker, body, principal)
    if "id" in request.path_params:
        held = broker.find(request.path_params["id"], principal)
        filter = Filter.parse(held.text, held.dialect, broker.index.schema)
    else:
        asked = read_request(msgspec.json.encode({key: body[key] for key in body if key not in ("event", "offset")}))
        filter = filter_of(asked, principal.rules, broker.index.schema)
    explanation = explain_filter(filter, event if filter.schema is None else filter.schema.read(event))
    return answer({"filter": str(filter), **explanation.to_dict()})


async def preview(request: Request) -> Response:
    """POST /subscriptions/preview: what a subscription would have matched among the newest stored events."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    limit = int(number_of(request, "limit", 20, 0, 1000))
    count = int(number_of(request, "events", 10_000, 1, 100_000))
    filter = filter_of(read_request(await body_of(request)), principal.rules)
    return answer(await broker.in_background(_previewed, broker, filter, principal, count, limit))


def _previewed(broker: Broker, filter: Filter, principal: Principal, count: int, limit: int) -> dict[str, object]:
    floor, end = broker.log.bounds
    start = max(floor, end - count)
    index = Index(broker.index.timestamps, broker.index.schema)
    index.add(0, filter)
    matched = 0
    newest: list[tuple[int, bytes]] = []
    for _, found in scan(broker.log, index, principal.rules, start, end):
        matched += len(found)
        newest = (newest + found)[-limit:] if limit else []
    messages = [{"offset": offset, "cursor": str(offset), "event": msgspec.Raw(event)} for offset, event in newest]
    return {"from": start, "until": end, "matched": matched, "messages": messages}


async def lint(request: Request) -> Response:
    """GET /subscriptions/lint: what is suspicious about the caller's subscriptions, alone and beside each other."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    return answer(await broker.in_background(_linted, broker, principal))


def _linted(broker: Broker, principal: Principal) -> dict[str, object]:
    held = broker.page(principal, "", _LINTED)
    filters = [Filter.parse(one.text, one.dialect, broker.index.schema) for one in held]
    findings: list[dict[str, object]] = []
    for one, filter in zip(held, filters, strict=True):
        findings += [{"id": one.id, "rule": r.rule, "message": r.message} for r in lint_filter(filter)]
    for place, remark in lint_together(filters):
        other = "" if remark.other is None else f" {held[remark.other].id}"
        findings.append({"id": held[place].id, "rule": remark.rule, "message": remark.message + other})
    return {"checked": len(held), "findings": findings}


def represent(held: StoredSubscription) -> dict[str, Any]:
    """A subscription as the API shows it: as it was asked for, with what the broker adds."""
    shown = _spec(held) | {"id": held.id, "protocol": held.protocol, "created": _time(held.created)}
    if held.expires is not None:
        shown["expires"] = _time(held.expires)
    return shown


def _spec(held: StoredSubscription) -> dict[str, Any]:
    spec: dict[str, Any] = msgspec.json.decode(held.spec)
    return spec


def _time(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat().replace("+00:00", "Z")


def _if_match(request: Request) -> str | None:
    value = request.headers.get("if-match")
    return None if value is None else value.removeprefix("W/").strip('"')


async def _event_of(broker: Broker, body: dict[str, Any], principal: Principal) -> Event:
    """The event that a request names by its offset or brings along. One that the rules hide does not exist."""
    if ("event" in body) == ("offset" in body):
        raise BadRequest("Expected either an event or an offset")
    if "event" in body:
        if not isinstance(body["event"], dict):
            raise BadRequest("Expected an object - at $.event")
        return Event.of(body["event"], broker.index.timestamps)
    offset = body["offset"]
    if isinstance(offset, int) and not isinstance(offset, bool) and broker.log.floor <= offset < broker.end:
        _, _, kind, raw, _ = (await broker.in_thread(broker.log.pick, [offset]))[0]
        if kind == EVENT and allows_text(principal.rules, raw, broker.index.timestamps):
            return Event.of(parse_json(raw), broker.index.timestamps)
    raise NotFound("Expected the offset of an event")
