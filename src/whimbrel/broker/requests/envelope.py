"""Events as publishers send them, turned into structured CloudEvents in JSON: what the log stores and filters see.

A structured event keeps its exact bytes; only `id`, `source` and `type` are read here. In binary mode the headers
become attributes and the body `data`. Plain JSON becomes the `data` of a new event.
"""

from __future__ import annotations

import base64
import itertools
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec

from whimbrel.broker.requests.errors import (
    BAD_JSON,
    BadRequest,
    BrokerError,
    TooLarge,
    Unprocessable,
    UnsupportedMediaType,
    json_problem,
)
from whimbrel.model.errors import LimitExceeded
from whimbrel.model.limits import EVENT_BYTES

CURSOR = "whimbrelcursor"
"""The extension attribute in which a WebSocket message carries its cursor; publishers may not use it."""
BATCH_EVENTS = 10_000
"""Events of one request, at most."""
LONG_BODY = 1 << 20
"""A longer batch is read by a decoder that keeps no more items than may come."""

_ATTRIBUTE = re.compile(r"[a-z0-9]{1,64}")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_CHARSET = re.compile(r';\s*charset="?([^\s";]*)', re.IGNORECASE)


class Incoming(NamedTuple):
    """One event to publish: what the log will store, and the names by which repeats are recognised."""

    raw: bytes
    source: str
    id: str


class _Attributes(msgspec.Struct, gc=False):
    """The required attributes of CloudEvents, and the one that events may not have."""

    specversion: str
    id: str
    source: str
    type: str
    whimbrelcursor: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_attributes = msgspec.json.Decoder(_Attributes)
_array = msgspec.json.Decoder(list[msgspec.Raw])
_json = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode


class PlainEvents:
    """Makes CloudEvents of plain JSON: a new id, the principal as source, type `event`."""

    def __init__(self) -> None:
        self._prefix = secrets.token_hex(8)
        self._numbers = itertools.count()

    def wrap(self, data: bytes, principal: str) -> Incoming:
        """The event with this JSON text as its data. The text is checked where the event is matched."""
        id = f"{self._prefix}-{next(self._numbers)}"
        start = _encode({"specversion": "1.0", "id": id, "source": principal, "type": "event"})
        return Incoming(start[:-1] + b',"data":' + data + b"}", principal, id)


def structured(raw: bytes) -> Incoming:
    """One structured event in JSON; its bytes are kept."""
    EVENT_BYTES.check(len(raw), "$")
    try:
        event = _attributes.decode(raw)
        _json.decode(raw)  # a number that no float holds, such as 1e999, would stop its readers
    except BAD_JSON as error:
        raise Unprocessable(f"Expected a CloudEvent, but got: {json_problem(raw, error)}", "invalid-event") from None
    if event.specversion != "1.0":
        raise Unprocessable(f"Expected specversion '1.0', but got {event.specversion!r}", "invalid-event")
    if not (event.id and event.source and event.type):
        raise Unprocessable("Expected id, source and type, but one of them is empty", "invalid-event")
    if event.whimbrelcursor is not msgspec.UNSET:
        raise Unprocessable(f"Expected no attribute {CURSOR}, which is the broker's own", "invalid-event")
    return Incoming(raw, event.source, event.id)


def read_events(
    content_type: str, headers: Mapping[str, str], body: bytes, principal: str, plain: PlainEvents
) -> list[Incoming | BrokerError]:
    """The events of a body, each or the reason why it is refused. Raises if the request as a whole is bad."""
    kind = _kind(content_type)
    if kind.startswith("application/cloudevents-batch"):
        _only_json(kind, "application/cloudevents-batch+json")
        return _each(structured, map(bytes, _read_array(body)))
    if kind.startswith("application/cloudevents"):
        _only_json(kind, "application/cloudevents+json")
        return _each(structured, [body])
    if any(name.startswith("ce-") for name in headers):
        return _each(lambda data: _binary(content_type, headers, data), [body])
    if kind in ("", "application/json") or kind.endswith("+json"):
        return _each(lambda data: _plain(data, principal, plain), [body])
    raise UnsupportedMediaType(
        f"Expected a CloudEvent (structured, batch, or binary with ce- headers), JSON or NDJSON, but got {kind!r}"
    )


def is_lines(content_type: str) -> bool:
    """Whether a body is JSON lines."""
    return _kind(content_type) in ("application/x-ndjson", "application/ndjson", "application/jsonl")


def read_lines(lines: Iterable[bytes], principal: str, plain: PlainEvents) -> list[Incoming | BrokerError]:
    """The events of JSON lines, each or the reason why it is refused."""
    return _each(lambda line: _line(line, principal, plain), lines)


def _kind(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _only_json(kind: str, expected: str) -> None:
    if kind not in (expected, expected.partition("+")[0]):
        raise UnsupportedMediaType(f"Expected {expected}, but got {kind!r}")


def _read_array(body: bytes) -> list[msgspec.Raw]:
    try:
        events = _array.decode(body) if len(body) <= LONG_BODY else _long_array(body)
    except BAD_JSON as error:
        raise BadRequest(f"Expected a JSON array of CloudEvents, but got: {json_problem(body, error)}") from None
    if len(events) > BATCH_EVENTS:
        raise TooLarge(f"Expected at most {BATCH_EVENTS:,} events, but got more")
    return events


def _long_array(body: bytes) -> list[msgspec.Raw]:
    """The items of an array, but no more than one beyond the limit."""
    return [item for item in msgspec.structs.astuple(_first_items().decode(body)) if item is not msgspec.UNSET]


@cache
def _first_items() -> msgspec.json.Decoder[msgspec.Struct]:
    """A decoder that keeps the first items of an array and skips the others. To define it takes 0.1 s.

    A list would get all items before its length is checked: memory of forty times the body.
    """
    fields = [(f"item_{n}", msgspec.Raw | msgspec.UnsetType, msgspec.UNSET) for n in range(BATCH_EVENTS + 1)]
    return msgspec.json.Decoder(msgspec.defstruct("_FirstItems", fields, array_like=True, gc=False))


def _each(read: Callable[[bytes], Incoming], bodies: Iterable[bytes]) -> list[Incoming | BrokerError]:
    events: list[Incoming | BrokerError] = []
    for body in bodies:
        try:
            events.append(read(body))
        except BrokerError as error:
            events.append(error)
        except BAD_JSON as error:
            events.append(Unprocessable(f"Expected JSON, but got: {json_problem(body, error)}", "invalid-event"))
        except LimitExceeded as error:
            events.append(TooLarge(str(error)))
    return events


def _line(line: bytes, principal: str, plain: PlainEvents) -> Incoming:
    """A line of NDJSON: a CloudEvent if it has `specversion`, else plain."""
    EVENT_BYTES.check(len(line), "$")
    if b'"specversion"' in line:
        found = _json.decode(line)
        if isinstance(found, dict) and "specversion" in found:
            return structured(line.strip())
    return _plain(line, principal, plain)


def _plain(data: bytes, principal: str, plain: PlainEvents) -> Incoming:
    EVENT_BYTES.check(len(data), "$")
    _json.decode(data)  # text between the braces that we write must be one whole value
    return plain.wrap(data.strip(), principal)


def _binary(content_type: str, headers: Mapping[str, str], body: bytes) -> Incoming:
    EVENT_BYTES.check(len(body), "$")
    kind = _kind(content_type)
    attributes: dict[str, str] = {}
    for header, value in headers.items():
        if header.startswith("ce-"):
            name = header[3:]
            if not _ATTRIBUTE.fullmatch(name):
                raise Unprocessable(f"Expected an attribute name of a-z and 0-9, but got {name!r}", "invalid-event")
            if name in ("data", "datacontenttype", CURSOR):
                raise Unprocessable(f"Expected an attribute, but got the header ce-{name}", "invalid-event")
            attributes[name] = _header_text(header, value)
    if kind:
        attributes["datacontenttype"] = content_type.strip()
    start = _encode(attributes)
    if not body:
        return structured(start)
    if kind in ("", "application/json") or kind.endswith("+json"):
        _json.decode(body)
        return structured(start[:-1] + b',"data":' + body + b"}")
    charset = _CHARSET.search(content_type)
    if kind.startswith("text/") and (charset is None or charset[1].lower() in ("utf-8", "utf8", "us-ascii")):
        try:
            return structured(start[:-1] + b',"data":' + _encode(body.decode()) + b"}")
        except UnicodeDecodeError:
            pass
    return structured(start[:-1] + b',"data_base64":"' + base64.b64encode(body) + b'"}')


def _header_text(header: str, value: str) -> str:
    """The value of an attribute: a header is a quoted string or not, and its percent-encoding is UTF-8."""
    quoted = _QUOTED.fullmatch(value)
    unquoted = value if quoted is None else re.sub(r"\\(.)", r"\1", quoted[1])
    try:
        return unquote_to_bytes(unquoted.encode("latin-1")).decode()
    except UnicodeError:
        raise Unprocessable(f"Expected UTF-8 in the header {header}, percent-encoded", "invalid-event") from None
