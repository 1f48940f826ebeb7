"""The requests to a broker and its answers, as pure functions, and the pauses between attempts."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import SystemRandom
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote

import msgspec

from whimbrel.client.errors import Gone, Refused

Event: TypeAlias = Mapping[str, Any]
BATCH = "application/cloudevents-batch+json"
BATCH_EVENTS = 10_000
BATCH_BYTES = 8 << 20
"""Events and bytes of one request, at most."""
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0
LONGEST_RETRY = 60
"""Seconds between attempts: the first ones, the last ones, and what a broker may ask for."""
RETRY_STATUSES = frozenset({408, 429, 502, 503, 504})
"""Answers after which a request is sent again, if that does no harm."""
REFUSED_STATUSES = frozenset({408, 429, 503})
"""Answers after which any request is sent again: the broker did nothing. A gateway with another answer cannot know."""


class Message(msgspec.Struct, frozen=True):
    """An event that a subscription matched. `cursor` acknowledges it and all before it.

    `dropped` says how many messages before it a stream of a filter lost because it was read too slowly. `gap` is set if
    messages before it were deleted before they were read: it is the first offset that was left.
    """

    offset: int
    cursor: str
    event: dict[str, Any]
    dropped: int = 0
    gap: int | None = None

    @property
    def data(self) -> Any:
        """The event's own content."""
        return self.event.get("data")


class PublishResult(msgspec.Struct, frozen=True):
    """What became of an event: its `offset` in the log, or the `error`."""

    offset: int | None = None
    duplicate: bool = False
    error: dict[str, Any] | None = None


class Call(NamedTuple):
    """A request. `repeatable` if sending it twice does no harm.

    The broker may take `patience` seconds longer than usual. Statuses in `accepted` are answers, not errors.
    """

    method: str
    path: str
    content: bytes = b""
    headers: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    repeatable: bool = True
    patience: float = 0.0
    accepted: frozenset[int] = frozenset()

    def is_retried(self, status: int) -> bool:
        """Whether the request is sent again after an answer."""
        return status in (RETRY_STATUSES if self.repeatable else REFUSED_STATUSES)


class _Results(msgspec.Struct):
    results: list[PublishResult]


class Pulled(msgspec.Struct):
    """The answer to a pull; not `complete` while the broker still searches older events."""

    messages: list[Message]
    complete: bool = True


_results = msgspec.json.Decoder(_Results)
_pulled = msgspec.json.Decoder(Pulled)


def as_cloud_event(event: Event, source: str) -> msgspec.Raw:
    """The event itself if it is a CloudEvent, else one with the event as its data; encoded.

    It gets its id here and not in the broker, so that a request that is sent again is recognised.
    """
    if "specversion" not in event:
        event = {"specversion": "1.0", "id": uuid.uuid4().hex, "source": source, "type": "event", "data": event}
    return msgspec.Raw(msgspec.json.encode(event))


def batches(events: Iterable[msgspec.Raw]) -> Iterator[list[msgspec.Raw]]:
    """Events in groups that a broker takes in one request."""
    batch: list[msgspec.Raw] = []
    size = 0
    for event in events:
        length = len(bytes(event))
        if batch and (len(batch) == BATCH_EVENTS or size + length > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += length
    if batch:
        yield batch


def publish(events: list[msgspec.Raw]) -> Call:
    """Publish CloudEvents. May be sent again: the broker recognises events by source and id."""
    return Call("POST", "/events", msgspec.json.encode(events), {"content-type": BATCH}, accepted=frozenset({422}))


def published(content: bytes) -> list[PublishResult]:
    """Read the answer to a publish: what became of each event."""
    return _results.decode(content).results


def create(filter: str | None, fields: Mapping[str, Any]) -> Call:
    """Create a subscription. Sent twice, it would make two."""
    return post("/subscriptions", asked(filter, fields))


def listing(after: str, query: Mapping[str, str]) -> Call:
    """A request for one page of subscriptions."""
    return Call("GET", "/subscriptions", query={**query, "after": after, "limit": "1000"})


def replace(id: str, filter: str | None, fields: Mapping[str, Any], version: str | None) -> Call:
    """Replace a subscription. With a version it is not sent again: the first try may have made another one."""
    headers = _JSON if version is None else {**_JSON, "if-match": f'"{version}"'}
    content = msgspec.json.encode(asked(filter, fields))
    return Call("PUT", subscription_path(id), content, headers, repeatable=version is None)


def asked(filter: str | None, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """A subscription as it is asked for."""
    return fields if filter is None else {"filter": filter, **fields}


def import_many(subscriptions: Sequence[Mapping[str, Any]]) -> Call:
    """Create many subscriptions, one per line."""
    lines = b"\n".join(msgspec.json.encode(one) for one in subscriptions)
    return Call("POST", "/subscriptions/import", lines, LINES, repeatable=False, accepted=frozenset({422}))


def pull(id: str, after: str | int | None, limit: int, wait: float) -> Call:
    """A request for the messages of a subscription."""
    query = {"limit": str(limit), "wait": f"{wait:g}"} | ({} if after is None else {"after": str(after)})
    return Call("GET", f"{subscription_path(id)}/messages", query=query, patience=wait)


def pulled(content: bytes) -> Pulled:
    """Read the answer to a pull."""
    return _pulled.decode(content)


def acknowledge(id: str, cursor: str | int) -> Call:
    """A request that moves a subscription's cursor."""
    return Call("POST", f"{subscription_path(id)}/ack", msgspec.json.encode({"cursor": str(cursor)}), _JSON)


def rotate(id: str, secret: str | None, keep: int) -> Call:
    """Make another secret for a webhook. Sent twice, it would make two."""
    return post(f"{subscription_path(id)}/rotate", {"keep": keep} | ({} if secret is None else {"secret": secret}))


def webhook(id: str, what: str, repeatable: bool = True) -> Call:
    """Enable or disable a webhook, or test it."""
    return Call("POST", f"{subscription_path(id)}/{what}", repeatable=repeatable, patience=30.0)


def webhook_page(id: str, what: str, limit: int) -> Call:
    """The newest attempts, or the dead letters."""
    return Call("GET", f"{subscription_path(id)}/{what}", query={"limit": str(limit)})


def delete(id: str) -> Call:
    """A request that ends a subscription."""
    return Call("DELETE", subscription_path(id), repeatable=False)


def schema_view(types: Sequence[str]) -> Call:
    """Ask what events of some types have."""
    return Call("GET", "/schema/views", query={"types": ",".join(types)})


def extend_schema(extensions: Sequence[Mapping[str, Any]]) -> Call:
    """Extend the schema. The same extensions again change nothing, so the request may be repeated."""
    return Call("POST", "/schema/extensions", msgspec.json.encode({"extensions": extensions}), _JSON)


def about(question: str, body: Mapping[str, Any], id: str | None = None, query: Mapping[str, str] = {}) -> Call:
    """Ask about a filter: validate, explain, preview or near-misses. Changes nothing."""
    path = f"/subscriptions/{question}" if id is None else f"{subscription_path(id)}/{question}"
    return Call("POST", path, msgspec.json.encode(body), _JSON, query)


def named(event: Event | int, filter: str | None) -> dict[str, Any]:
    """The event of a question, given or at an offset, and the filter that it is about."""
    asked: dict[str, Any] = {"offset": event} if isinstance(event, int) else {"event": event}
    return asked if filter is None else {**asked, "filter": filter}


def get(path: str) -> Call:
    """A request that reads a path."""
    return Call("GET", path)


def post(path: str, body: Any) -> Call:
    """A request with a JSON body."""
    return Call("POST", path, msgspec.json.encode(body), _JSON, repeatable=False)


def put(path: str, body: Any) -> Call:
    """Send a JSON object that replaces another. Sent twice, it says the same."""
    return Call("PUT", path, msgspec.json.encode(body), _JSON)


def watched(on: str | None, leave: bool) -> dict[str, str | None]:
    """What a stream of a filter is about: events, or publications and whether it is told of leaves."""
    return {"on": on, "leave": "true" if leave else None}


def subscription_path(id: str) -> str:
    """The path of a subscription."""
    return f"/subscriptions/{quote(id, safe='')}"


LINES = {"content-type": "application/x-ndjson"}
_JSON = {"content-type": "application/json"}


def check(status: int, content: bytes, accepted: frozenset[int] = frozenset()) -> None:
    """Raise Refused, or Gone, unless the status is below 400 or `accepted`."""
    if status < 400 or status in accepted:
        return
    try:
        error = msgspec.json.decode(content)["error"]
        code, message = error["code"], error["message"]
        if status == 410 and isinstance(error.get("first"), int):
            raise Gone(status, code, message, error["first"])
    except (msgspec.DecodeError, LookupError, TypeError):
        code, message = "unknown", content[:200].decode(errors="replace")
    raise Refused(status, code, message)


_chance = SystemRandom()  # never the generator that the program around us may have seeded


def pause(attempt: int, headers: Mapping[str, str] = {}) -> float:
    """Seconds before the next attempt: doubling, and random, so that clients do not come back all at once.

    At least what the broker asks for in Retry-After, and at most a minute.
    """
    asked = headers.get("retry-after", "")
    least = min(LONGEST_RETRY, int(asked)) if asked.isascii() and asked.isdigit() and len(asked) < 9 else 0
    return max(least, min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(attempt, 30)) * _chance.uniform(0.5, 1.0))
