"""The requests to a broker and its answers, as pure functions, and the pauses between attempts."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from random import SystemRandom
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote

import msgspec

from whimbrel.client.errors import BadName, Gone, Refused

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

_JSON = {"content-type": "application/json"}
_LINES = {"content-type": "application/x-ndjson"}


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


class PublishResults(msgspec.Struct):
    """The answer to a publish: what became of each event."""

    results: list[PublishResult]


class Pulled(msgspec.Struct):
    """The answer to a pull; not `complete` while the broker still searches older events."""

    messages: list[Message]
    complete: bool = True


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


def get(path: str, query: Mapping[str, str] = {}) -> Call:
    """Read what a path names."""
    return Call("GET", path, query=query)


def post(path: str, body: Any, query: Mapping[str, str] = {}, repeatable: bool = False) -> Call:
    """Send a JSON body."""
    return Call("POST", path, msgspec.json.encode(body), _JSON, query, repeatable)


def ask(path: str, body: Any, query: Mapping[str, str] = {}) -> Call:
    """Ask something with a JSON body. It changes nothing, so it may be sent again."""
    return post(path, body, query, repeatable=True)


def put(path: str, body: Any) -> Call:
    """Send a JSON object that replaces another. Sent twice, it says the same."""
    return Call("PUT", path, msgspec.json.encode(body), _JSON)


def delete(path: str) -> Call:
    """Delete what a path names. Sent twice, it would find nothing."""
    return Call("DELETE", path, repeatable=False)


def lines(path: str, objects: Iterable[Mapping[str, Any]]) -> Call:
    """Send JSON objects, one per line, each of which may be refused alone. Sent twice, they might be done twice."""
    content = b"\n".join(msgspec.json.encode(one) for one in objects)
    return Call("POST", path, content, _LINES, repeatable=False, accepted=frozenset({422}))


def asked(filter: str | None, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """A subscription as it is asked for."""
    return fields if filter is None else {"filter": filter, **fields}


def webhook(id: str, what: str, repeatable: bool = True) -> Call:
    """Enable or disable a webhook, or test it."""
    return Call("POST", f"{subscription_path(id)}/{what}", repeatable=repeatable, patience=30.0)


def named(event: Event | int, filter: str | None) -> dict[str, Any]:
    """The event of a question, given or at an offset, and the filter that it is about."""
    asked: dict[str, Any] = {"offset": event} if isinstance(event, int) else {"event": event}
    return asked if filter is None else {**asked, "filter": filter}


def path_of(*parts: str) -> str:
    """The path with these parts. BadName if one would be a step in the path, which leads to something else."""
    if bad := [part for part in parts if part in ("", ".", "..")]:
        raise BadName(bad[0])
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def subscription_path(id: str) -> str:
    """The path of a subscription."""
    return path_of("subscriptions", id)


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
