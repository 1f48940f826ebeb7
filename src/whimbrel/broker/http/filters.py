"""What a filter means and does: validate, explain, near misses, preview, lint.

Nothing here changes anything. Filters get the rules of the caller's token, and events that the rules hide do not exist.
"""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from whimbrel.broker.delivery.history import scan
from whimbrel.broker.http.exchange import (
    Problem,
    answer,
    body_of,
    broker_of,
    caller_of,
    integer_of,
    principal_of,
    problem_of,
    read_body,
    subscription_of,
)
from whimbrel.broker.http.messages import PulledMessage
from whimbrel.broker.http.operation import JsonSchema, Operations, json_body
from whimbrel.broker.requests.errors import BadRequest, NotFound
from whimbrel.broker.requests.subscriptions import SubscriptionRequest, filter_of, read_request
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.service.principal import Principal
from whimbrel.engine.index import Index
from whimbrel.language.lint import lint_filter, lint_together
from whimbrel.log import EVENT
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.event import Event
from whimbrel.model.explain import explain as explain_filter
from whimbrel.model.explain import explain_conjunction
from whimbrel.model.filter import Filter
from whimbrel.model.near_misses import nearest_conjunction
from whimbrel.model.token_rules import Rules, allows, allows_text

LOOKED_AT = 10_000
"""Subscriptions that lint and near misses look at, at most: the first ones, in the order of their ids."""

SHOWN_KEYS = 100
"""Conjunctions of which a validation says how they would be indexed, at most."""

NEAR_EVENTS = 200
"""How many of the newest events a preview searches for near misses."""

PREVIEW_BYTES = 8 << 20
"""Events that a preview shows, at most."""


class EventNamed(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """An event of a request: given, or stored at an offset. `limit` is for near misses."""

    event: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    offset: int | None = None
    limit: int = 10


class ExplainRequest(SubscriptionRequest, kw_only=True):
    """A subscription as for POST /subscriptions, and an event: given, or stored at an offset."""

    event: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    offset: int | None = None


class PlannedKey(msgspec.Struct):
    """How one conjunction would be indexed: the kind of key, its attributes, and the share of events that reach it."""

    key: str
    attributes: list[str]
    share: float


class Validation(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Whether a subscription would be taken; what its filter means, costs an event and looks suspicious for."""

    valid: bool
    filter: str | None = None
    attributes: list[str] | None = None
    conjunctions: int | None = None
    cost: dict[str, float] | None = None
    keys: list[PlannedKey] | None = None
    remarks: list[dict[str, str]] | None = None
    error: Problem | None = None


class NearEvent(msgspec.Struct):
    """An event that almost matches: how many constraints of the best conjunction failed, and each of them."""

    offset: int
    failed: int
    constraints: list[dict[str, Any]]
    event: msgspec.Raw


class Preview(msgspec.Struct, kw_only=True):
    """What matched among the stored events of a range of offsets: how many, and the newest of them.

    `near` are events that almost match, fewest failed constraints first, among the newest ones.
    """

    start: int = msgspec.field(name="from")
    until: int
    matched: int
    messages: list[PulledMessage]
    near: list[NearEvent]


class LintFinding(msgspec.Struct):
    """What is suspicious about one subscription."""

    id: str
    rule: str
    message: str


class LintAnswer(msgspec.Struct):
    """Findings about the first `checked` subscriptions; `complete` if these are all."""

    checked: int
    complete: bool
    findings: list[LintFinding]


_PREVIEW: dict[str, JsonSchema] = {
    "limit": {"type": "integer", "minimum": 0, "maximum": 1000, "default": 20},
    "events": {"type": "integer", "minimum": 1, "maximum": 100_000, "default": 10_000},
    "near": {"type": "integer", "minimum": 0, "maximum": 50, "default": 0},
}
_EXPLAINED: JsonSchema = {
    "type": "object",
    "required": ["filter", "matched", "conjunctions"],
    "properties": {"filter": {"type": "string"}, "matched": {"type": "boolean"}, "conjunctions": {"type": "array"}},
}
OPERATIONS = Operations()


@OPERATIONS.add("POST", "/subscriptions/validate", {200: Validation}, json_body(SubscriptionRequest), errors=(413,))
async def validate(request: Request) -> Response:
    """Say whether a subscription would be taken, and what its filter means."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    try:
        filter = await broker.subscriptions.checked(read_request(await body_of(request)), principal)
        return answer(await broker.runtime.in_background(_validated, broker, filter))
    except WhimbrelError as error:
        return answer(Validation(valid=False, error=problem_of(error)))


def _validated(broker: Broker, filter: Filter) -> Validation:
    cost = broker.index.cost(filter)
    return Validation(
        valid=True,
        filter=str(filter),
        attributes=sorted(filter.attributes),
        conjunctions=len(filter.conjunctions),
        cost={"nanoseconds": round(cost.nanoseconds, 1), "candidates": cost.candidates},
        keys=[PlannedKey(one.key, list(one.attributes), one.share) for one in cost.conjunctions[:SHOWN_KEYS]],
        remarks=[{"rule": remark.rule, "message": remark.message} for remark in lint_filter(filter)],
    )


@OPERATIONS.add("POST", "/subscriptions/explain", {200: _EXPLAINED}, json_body(ExplainRequest), errors=(404, 422))
async def explain(request: Request) -> Response:
    """Say why an event matches a filter, or why not."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    asked = await read_body(request, ExplainRequest, "invalid-subscription")
    event = await _event_of(broker, asked, principal)

    def explained() -> dict[str, object]:
        return _explained(filter_of(asked, principal.rules, broker.index.schema), event, principal.rules)

    return answer(await broker.runtime.in_background(explained))


@OPERATIONS.add("POST", "/subscriptions/{id}/explain", {200: _EXPLAINED}, json_body(EventNamed), errors=(404, 422))
async def explain_one(request: Request) -> Response:
    """Say why an event, given or at an offset, matches a subscription or not."""
    broker, held = broker_of(request), subscription_of(request)
    event = await _event_of(broker, await read_body(request, EventNamed, "invalid-request"), caller_of(request))

    def explained() -> dict[str, object]:
        return _explained(held.parse(broker.index.schema), event, held.decode_rules())

    return answer(await broker.runtime.in_background(explained))


def _explained(filter: Filter, event: Event, rules: Rules) -> dict[str, object]:
    """The explanation. An attribute of the rules with several values hides the event, whatever the filter says."""
    explanation = explain_filter(filter, event if filter.schema is None else filter.schema.read(event)).to_dict()
    if not allows(rules, event):
        explanation["matched"] = False
    return {"filter": str(filter), **explanation}


@OPERATIONS.add(
    "POST",
    "/subscriptions/near-misses",
    {200: {"type": "object", "required": ["near_misses"]}},
    json_body(EventNamed),
    errors=(404, 422),
)
async def near_misses(request: Request) -> Response:
    """Show the subscriptions that an event almost matches, fewest failed constraints first."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    asked = await read_body(request, EventNamed, "invalid-request")
    if not 1 <= asked.limit <= 100:
        raise BadRequest(f"Expected a limit from 1 to 100, but got {asked.limit} - at $.limit")
    event = await _event_of(broker, asked, principal)
    found = await broker.runtime.in_background(_nearest, broker, principal, event, asked.limit)
    return answer({"near_misses": found})


def _nearest(broker: Broker, principal: Principal, event: Event, limit: int) -> list[dict[str, object]]:
    if principal.sees_all:
        found = [one.to_dict() for one in broker.index.near_misses(event.plain, limit)]
        numbered = [(number, one) for one in found if isinstance(number := one["subscription"], int) and number >= 0]
        names = broker.store.ids_of([number for number, _ in numbered])
        return [one | {"subscription": names[number]} for number, one in numbered if number in names]
    held = [one for one in broker.subscriptions.page(principal, "", LOOKED_AT) if one.on == "events"]
    index = Index(broker.index.timestamps, broker.index.schema)
    index.add_many([(one.id, one.text) for one in held])
    return [one.to_dict() for one in index.near_misses(event.plain, limit)]


@OPERATIONS.add(
    "POST", "/subscriptions/preview", {200: Preview}, json_body(SubscriptionRequest), query=_PREVIEW, errors=(422,)
)
async def preview(request: Request) -> Response:
    """Show what a subscription would have matched among stored events."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    limit, count, near = (integer_of(request, name, schema) for name, schema in _PREVIEW.items())
    asked = read_request(await body_of(request))
    filter = await broker.runtime.in_parser(filter_of, asked, principal.rules, broker.index.schema)
    return answer(await broker.runtime.in_background(_previewed, broker, filter, principal, count, limit, near))


def _previewed(broker: Broker, filter: Filter, principal: Principal, count: int, limit: int, near: int) -> Preview:
    floor, end = broker.log.bounds
    start = max(floor, end - count)
    index = Index(broker.index.timestamps, broker.index.schema)
    index.add(0, filter)
    matched = 0
    newest: list[tuple[int, bytes]] = []
    for _, found in scan(broker.log, index, principal.rules, start, end):
        matched += len(found)
        newest = _last(newest + found, limit)
    messages = [PulledMessage(offset, str(offset), msgspec.Raw(event)) for offset, event in newest]
    almost = _near_events(broker, filter, principal.rules, near) if near else []
    return Preview(start=start, until=end, matched=matched, messages=messages, near=almost)


def _near_events(broker: Broker, filter: Filter, rules: Rules, limit: int) -> list[NearEvent]:
    """The newest events that almost match, fewest failed constraints first."""
    floor, end = broker.log.bounds
    rows = broker.log.pick(range(end - 1, max(floor, end - NEAR_EVENTS) - 1, -1), PREVIEW_BYTES)
    found: list[NearEvent] = []
    for offset, _, kind, raw, _ in rows:
        if kind == EVENT and allows_text(rules, raw, broker.index.timestamps):
            event = Event.of(raw, broker.index.timestamps)
            event = event if filter.schema is None else filter.schema.read(event)
            nearest = nearest_conjunction(filter, event, None)
            if nearest is not None:
                constraints = explain_conjunction(nearest[1], event, filter.schema).constraints
                found.append(NearEvent(offset, nearest[0], [one.to_dict() for one in constraints], msgspec.Raw(raw)))
    return sorted(found, key=lambda one: one.failed)[:limit]


def _last(messages: list[tuple[int, bytes]], limit: int) -> list[tuple[int, bytes]]:
    """The last messages: at most `limit`, and no more than fit into an answer."""
    kept, size = 0, 0
    for _, event in reversed(messages[-limit:] if limit else []):
        size += len(event)
        if size > PREVIEW_BYTES:
            break
        kept += 1
    return messages[len(messages) - kept :]


@OPERATIONS.add("GET", "/subscriptions/lint", {200: LintAnswer})
async def lint(request: Request) -> Response:
    """Say what is suspicious about one's subscriptions."""
    broker, principal = broker_of(request), principal_of(request, "subscribe")
    return answer(await broker.runtime.in_background(_linted, broker, principal))


def _linted(broker: Broker, principal: Principal) -> LintAnswer:
    held = broker.subscriptions.page(principal, "", LOOKED_AT + 1)
    complete, held = len(held) <= LOOKED_AT, held[:LOOKED_AT]
    findings: list[LintFinding] = []
    for on in ("events", "publications"):  # those on spaces have regions instead of filters
        mine = [one for one in held if one.on == on]
        filters = [one.parse(broker.index.schema) for one in mine]
        for one, filter in zip(mine, filters, strict=True):
            findings += [LintFinding(one.id, remark.rule, remark.message) for remark in lint_filter(filter)]
        for place, remark in lint_together(filters):
            other = "" if remark.other is None else f" {mine[remark.other].id}"
            findings.append(LintFinding(mine[place].id, remark.rule, remark.message + other))
    return LintAnswer(len(held), complete, findings)


async def _event_of(broker: Broker, named: EventNamed | ExplainRequest, principal: Principal) -> Event:
    """The event that a request names by its offset or brings along. One that the rules hide does not exist."""
    given, offset = named.event, named.offset
    if isinstance(given, msgspec.UnsetType) == (offset is None):
        raise BadRequest("Expected either an event or an offset")
    if not isinstance(given, msgspec.UnsetType):
        return await broker.runtime.in_parser(Event.of, bytes(given), broker.index.timestamps)
    if offset is not None and broker.log.floor <= offset < broker.end:
        _, _, kind, raw, _ = (await broker.runtime.in_thread(broker.log.pick, [offset]))[0]
        if kind == EVENT and allows_text(principal.rules, raw, broker.index.timestamps):
            return Event.of(raw, broker.index.timestamps)
    raise NotFound("Expected the offset of an event")
