"""Subscriptions as requests ask for them, checked and turned into log entries."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec

from whimbrel.broker.requests.entries import SubscriptionPut
from whimbrel.broker.requests.errors import TooLarge, Unprocessable, decode_body
from whimbrel.broker.requests.filter_dialects import subscription_filter
from whimbrel.broker.requests.webhook_sinks import HTTP, DigestRequest, check_digest, read_sink
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.event_schema import EventSchema
from whimbrel.model.expression import And, Constant
from whimbrel.model.filter import Filter
from whimbrel.model.token_rules import Rules, constrain

SUBSCRIPTION_BYTES = 2 << 20
"""A subscription as it is asked for, at most: its filter, which has a limit of its own, and what goes with it."""
PROTOCOLS = ("PULL", "SSE", "WS", HTTP)
DWELL_SECONDS = 366 * 86_400.0
"""Dwell of a subscription, at most."""
MARGIN = 1e15
"""Hysteresis in one dimension of a space, at most: far more than any distance, and as a time still a number."""
ID = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9_.~-]{1,128}")
"""Not one or two dots: clients and proxies read those as steps in a path, and would ask for something else."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]


class SubscriptionRequest(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The body of POST and PUT /subscriptions: the shape of the CloudEvents Subscriptions API and some shorthands.

    All of `source`, `types`, `filters` and `filter` must hold. `filter` is a text in `dialect` (default `sql`).
    `start` is `now`, `beginning`, an offset, or a time in RFC 3339. `id` is ignored, but for imports. A `sink` goes
    with the protocol HTTP, whose settings are those of `SinkSettings`; `sinkcredential` is never shown.

    `on` is `events`, `publications`, or `spaces/NAME`. On publications and spaces, `leave` asks to be told of leaves,
    and `dwell` is the seconds that a publication must be out before it leaves. On publications, `outer` is a wider
    filter: a publication that entered is out when it no longer matches that. On a space, `regions` stand for the
    filter, and `hysteresis` is a margin by dimension.
    """

    id: str | None = None
    source: Text | None = None
    types: Annotated[list[Text], msgspec.Meta(max_length=1000)] | None = None
    filters: Annotated[list[dict[str, Any]], msgspec.Meta(max_length=1000)] | None = None
    filter: str | dict[str, Any] | None = None
    dialect: str | None = None
    protocol: str = "PULL"
    protocolsettings: dict[str, Any] | None = None
    sink: str | None = None
    sinkcredential: dict[str, Any] | None = None
    digest: DigestRequest | None = None
    config: dict[str, Any] | None = None
    start: str | int | None = None
    expires: str | None = None
    on: Annotated[str, msgspec.Meta(pattern=r"^(events|publications|spaces/[A-Za-z0-9_.~-]{1,128})$")] = "events"
    leave: bool = False
    outer: str | None = None
    dwell: Annotated[float, msgspec.Meta(ge=0, le=DWELL_SECONDS)] = 0.0
    regions: Annotated[list[dict[str, Any]], msgspec.Meta(min_length=1)] | None = None
    hysteresis: dict[str, Annotated[float, msgspec.Meta(ge=0, le=MARGIN)]] | None = None


_decoder = msgspec.json.Decoder(SubscriptionRequest)


def read_request(body: bytes, on: str | None = None) -> SubscriptionRequest:
    """The request in a body; Unprocessable says what is wrong and where. `on` is what the path says it is on."""
    if len(body) > SUBSCRIPTION_BYTES:
        raise TooLarge(f"Expected a subscription of at most {SUBSCRIPTION_BYTES:,} bytes, but got {len(body):,}")
    request = decode_body(body, SubscriptionRequest, "invalid-subscription")
    if request.protocol not in PROTOCOLS:
        raise Unprocessable(
            f"Expected a protocol of {', '.join(PROTOCOLS)}, but got {request.protocol!r} - at $.protocol",
            "unsupported-protocol",
        )
    if request.protocol == HTTP:
        read_sink(request.sink, request.protocolsettings, request.sinkcredential)
    elif request.sink is not None or request.sinkcredential is not None:
        raise Unprocessable('Expected a sink only with the protocol "HTTP" - at $.sink', "unsupported-sink")
    if request.digest is not None:
        check_digest(request.digest)
    if on is not None:
        if request.on not in ("events", on):
            raise Unprocessable(f"Expected a subscription on {on}, as the path says - at $.on", "invalid-subscription")
        request.on = on
    _check_topic(request)
    return request


def read_spec(spec: bytes) -> SubscriptionRequest:
    """The request of a subscription, as it is kept; it was checked when it came."""
    return _decoder.decode(spec)


_FOREIGN = {
    "events": ("leave", "dwell", "outer", "regions", "hysteresis"),
    "publications": ("source", "types", "filters", "start", "regions", "hysteresis"),
    "spaces": ("source", "types", "filters", "start", "filter", "dialect", "outer"),
}
"""Fields that mean nothing for what a subscription is on."""


def _check_topic(request: SubscriptionRequest) -> None:
    """Refuse fields that mean nothing for what the subscription is on."""
    topic = request.on.partition("/")[0]
    if topic == "spaces" and request.regions is None:
        raise Unprocessable("Expected regions in a subscription on a space - at $.regions", "invalid-subscription")
    for name in _FOREIGN[topic]:
        value = getattr(request, name)
        is_given = value not in (None, "now") if name == "start" else bool(value)  # an offset may be 0
        if is_given:
            raise Unprocessable(
                f"Expected no {name} in a subscription on {request.on} - at $.{name}", "invalid-subscription"
            )


def outer_of(request: SubscriptionRequest, rules: Rules) -> Filter | None:
    """The wider filter of a subscription on publications, AND the rules of its owner."""
    return None if request.outer is None else constrain(Filter.parse(request.outer, request.dialect or "sql"), rules)


def without_secrets(request: SubscriptionRequest, body: bytes) -> bytes:
    """What is kept of a request's body: not the credential of its sink, nor its secret."""
    settings = request.protocolsettings
    has_secret = request.protocol == HTTP and settings is not None and "secret" in settings
    if request.sinkcredential is None and not has_secret:
        return body
    kept = {name: value for name, value in (settings or {}).items() if name != "secret"} if has_secret else settings
    return msgspec.json.encode(msgspec.structs.replace(request, sinkcredential=None, protocolsettings=kept))


def filter_of(request: SubscriptionRequest, rules: Rules, schema: EventSchema | None = None) -> Filter:
    """The filter that is matched: everything that the request asks for, AND the rules of its owner."""
    parts = subscription_filter(request.filters, request.source, request.types)
    own: Filter | None = None
    if request.filter is not None:
        own = Filter.parse(request.filter, request.dialect or "sql")
        if not parts and not rules:
            return own if schema is None else schema.typed(own)
        parts.append(own.expression)
    elif request.dialect is not None:
        raise Unprocessable("Expected a dialect only with a filter - at $.dialect", "invalid-subscription")
    joined = Filter(parts[0] if len(parts) == 1 else And(tuple(parts)) if parts else Constant(True))
    constrained = constrain(joined, rules)
    return constrained if schema is None else schema.typed(constrained)


def entry_of(
    request: SubscriptionRequest, body: bytes, id: str, owner: str, filter: Filter, rules: Rules, now: int
) -> SubscriptionPut:
    """The log entry of a subscription. `start` is decided by the caller, who knows the log."""
    try:
        text = filter.text if filter.text is not None and filter.dialect == "sql" else str(filter)
        _ = filter.conjunctions  # a normal form above its limits is refused now
    except WhimbrelError as error:
        raise Unprocessable(str(error), "invalid-filter") from error
    return entry_of_text(request, body, id, owner, text, rules, now)


def plain_text(request: SubscriptionRequest) -> str | None:
    """The whole filter, if it is one text in SQL."""
    others = (request.source, request.types, request.filters)
    is_sql = isinstance(request.filter, str) and request.dialect in (None, "sql")
    return request.filter if is_sql and others == (None, None, None) else None  # type: ignore[return-value]


def entry_of_text(
    request: SubscriptionRequest, body: bytes, id: str, owner: str, text: str, rules: Rules, now: int
) -> SubscriptionPut:
    """The log entry of a subscription whose filter is this text."""
    return SubscriptionPut(
        id=id,
        owner=owner,
        text=text,
        spec=msgspec.Raw(without_secrets(request, body)),
        protocol=request.protocol,
        created=now,
        expires=_expiry(request, now),
        rules=dict(rules),
        on=request.on,
    )


def _expiry(request: SubscriptionRequest, now: int) -> int | None:
    if request.expires is None:
        return None
    expires = read_time(request.expires, "$.expires")
    if expires <= now:
        raise Unprocessable("Expected an expiry in the future - at $.expires", "invalid-subscription")
    return expires


def read_time(text: str, path: str) -> int:
    """Microseconds since 1970 UTC of a time in RFC 3339; no zone means UTC. `time_text` can show it again."""
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Unprocessable(f"Expected a time in RFC 3339, but got {text[:80]!r} - at {path}", "invalid-time") from None
    return (moment - _EPOCH) // timedelta(microseconds=1)


def time_text(microseconds: int) -> str:
    """A time in RFC 3339."""
    return (_EPOCH + timedelta(microseconds=microseconds)).isoformat().replace("+00:00", "Z")
