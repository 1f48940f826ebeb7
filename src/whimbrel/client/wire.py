"""What goes over the wire, as pure functions: requests to build, answers to read, Server-Sent Events to parse."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec

from whimbrel.client.errors import Refused

Event: TypeAlias = Mapping[str, Any]
BATCH = "application/cloudevents-batch+json"
RETRY_STATUSES = frozenset({408, 429, 502, 503, 504})
"""Answers after which a request is sent again."""


class Message(msgspec.Struct, frozen=True):
    """An event that a subscription matched. `cursor` acknowledges it and all before it."""

    offset: int
    cursor: str
    event: dict[str, Any]

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
    """A request. `repeatable` if sending it twice does no harm."""

    method: str
    path: str
    content: bytes = b""
    headers: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    repeatable: bool = True


class _Results(msgspec.Struct):
    results: list[PublishResult]


class _Pulled(msgspec.Struct):
    messages: list[Message]
    complete: bool = True


_results = msgspec.json.Decoder(_Results)
_pulled = msgspec.json.Decoder(_Pulled)


def as_cloud_event(event: Event, source: str) -> Event:
    """The event itself if it is a CloudEvent, else one with the event as its data.

    It gets its id here and not in the broker, so that a request that is sent again is recognised.
    """
    if "specversion" in event:
        return event
    return {"specversion": "1.0", "id": uuid.uuid4().hex, "source": source, "type": "event", "data": event}


def publish(events: Iterable[Event]) -> Call:
    """Publish CloudEvents. May be sent again: the broker recognises events by source and id."""
    return Call("POST", "/events", msgspec.json.encode(list(events)), {"content-type": BATCH})


def published(content: bytes) -> list[PublishResult]:
    """What became of each event."""
    return _results.decode(content).results


def create(subscription: Mapping[str, Any]) -> Call:
    """Create a subscription. Sent twice, it would make two."""
    return Call("POST", "/subscriptions", msgspec.json.encode(subscription), _JSON, repeatable=False)


def pull(id: str, after: str | int | None, limit: int, wait: float) -> Call:
    """Pull messages."""
    query = {"limit": str(limit), "wait": f"{wait:g}"} | ({} if after is None else {"after": str(after)})
    return Call("GET", f"/subscriptions/{id}/messages", query=query)


def pulled(content: bytes) -> list[Message]:
    """The messages of a pull."""
    return _pulled.decode(content).messages


def acknowledge(id: str, cursor: str | int) -> Call:
    """Move a subscription's cursor."""
    return Call("POST", f"/subscriptions/{id}/ack", msgspec.json.encode({"cursor": str(cursor)}), _JSON)


def delete(id: str) -> Call:
    """End a subscription."""
    return Call("DELETE", f"/subscriptions/{id}", repeatable=False)


def get(path: str) -> Call:
    """Read something."""
    return Call("GET", path)


def post(path: str, body: Any) -> Call:
    """Send a JSON object."""
    return Call("POST", path, msgspec.json.encode(body), _JSON, repeatable=False)


_JSON = {"content-type": "application/json"}


def check(status: int, content: bytes, accepted: frozenset[int] = frozenset()) -> None:
    """Refused unless the status is below 400 or accepted."""
    if status < 400 or status in accepted:
        return
    try:
        error = msgspec.json.decode(content)["error"]
        raise Refused(status, error["code"], error["message"])
    except (msgspec.DecodeError, LookupError, TypeError):
        raise Refused(status, "unknown", content[:200].decode(errors="replace")) from None


class EventParser:
    """Server-Sent Events from pieces of a stream.

    >>> parser = EventParser()
    >>> list(parser.feed(b'id: 7\\ndata: {"a": 1}\\n')), list(parser.feed(b"\\n: heartbeat\\n\\n"))
    ([], [('message', '7', b'{"a": 1}')])
    """

    def __init__(self) -> None:
        self._rest = b""
        self._name, self._id = "message", ""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[tuple[str, str, bytes]]:
        """The (name, id, data) of the events that are whole now."""
        lines = (self._rest + piece).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            line = line.removesuffix(b"\r")  # noqa: PLW2901
            if not line:
                if self._data:
                    yield self._name, self._id, b"\n".join(self._data)
                self._name, self._data = "message", []
                continue
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"data":
                self._data.append(value)
            elif field == b"id":
                self._id = value.decode(errors="replace")
            elif field == b"event":
                self._name = value.decode(errors="replace")


def message_of(id: str, data: bytes) -> Message:
    """The message of an event of a stream."""
    return Message(int(id.partition(".")[0]), id, msgspec.json.decode(data))
