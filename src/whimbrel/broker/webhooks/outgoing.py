"""Messages as an HTTP request: one event, a batch, or a digest, with the id and the signatures of Standard Webhooks."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterable, Sequence
from hashlib import blake2b, sha256
from importlib.metadata import version
from typing import NamedTuple

from whimbrel.broker.delivery.digests import digest_of
from whimbrel.broker.delivery.message_reader import StoredMessage
from whimbrel.broker.webhooks.target import WebhookTarget

REQUEST_BYTES = 1 << 20
"""Bytes at which a batch ends: the event that reaches the limit is its last one."""
_AGENT = f"whimbrel/{version('whimbrel')}"


class Outgoing(NamedTuple):
    """What is sent: `id` is its webhook-id, `cursor` that of its last event."""

    id: str
    content_type: str
    body: bytes
    events: int
    cursor: str


def compose(log: str, target: WebhookTarget, messages: Sequence[StoredMessage]) -> Outgoing:
    """The request for some messages of a subscription."""
    first, last = str(messages[0].cursor), str(messages[-1].cursor)
    id = message_id(log, target.held.first, first, last)
    if target.digest is not None:
        return Outgoing(id, "application/json", digest_of(messages, target.digest.seconds), len(messages), last)
    if target.settings.batch is not None:
        body = b"[" + b",".join(message.event for message in messages) + b"]"
        return Outgoing(id, "application/cloudevents-batch+json", body, len(messages), last)
    return Outgoing(id, "application/cloudevents+json", messages[0].event, 1, last)


def fitting(messages: Sequence[StoredMessage], limit: int, size_limit: int) -> list[StoredMessage]:
    """The messages at the front that go into one request: it ends with the one that makes it `size_limit` bytes."""
    found: list[StoredMessage] = []
    size = 0
    for message in messages[:limit]:
        found.append(message)
        size += len(message.event)
        if size >= size_limit:
            break
    return found


def post(target: WebhookTarget, outgoing: Outgoing, origin: str, now: int) -> bytes:
    """The bytes of the request; `now` is in microseconds."""
    timestamp = now // 1_000_000
    headers = {
        "host": target.url.authority,
        "content-type": outgoing.content_type,
        "content-length": str(len(outgoing.body)),
        "user-agent": _AGENT,
        "webhook-request-origin": origin,
        "webhook-id": outgoing.id,
        "webhook-timestamp": str(timestamp),
    }
    keys = target.valid_keys(now)
    if keys:
        headers["webhook-signature"] = sign(keys, outgoing.id, timestamp, outgoing.body)
    if target.authorization is not None:
        headers["authorization"] = target.authorization
    return _head("POST", target, headers | target.settings.headers) + outgoing.body


def options(target: WebhookTarget, origin: str, callback: str | None) -> bytes:
    """The bytes of the request that asks for consent."""
    headers = {"host": target.url.authority, "user-agent": _AGENT, "webhook-request-origin": origin}
    if target.settings.rate is not None:
        headers["webhook-request-rate"] = str(target.settings.rate)
    if callback is not None:
        headers["webhook-request-callback"] = callback
    return _head("OPTIONS", target, headers)


def _head(method: str, target: WebhookTarget, headers: dict[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{method} {target.url.target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")


def sign(keys: Iterable[bytes], id: str, timestamp: int, body: bytes) -> str:
    """The header webhook-signature: HMAC-SHA256 of `id.timestamp.body`, one for every secret that is valid.

    >>> sign(
    ...     [base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")],
    ...     "msg_p5jXN8AQM9LWM0D4loKWxJek",
    ...     1614265330,
    ...     b'{"test": 2432232314}',
    ... )
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """
    signed = b"%b.%d.%b" % (id.encode(), timestamp, body)
    return " ".join("v1," + base64.b64encode(hmac.digest(key, signed, sha256)).decode() for key in keys)


def message_id(log: str, subscription: int, first: str, last: str) -> str:
    """The webhook-id of the messages from cursor `first` to `last` of a subscription: the same whenever they are sent.

    Two requests with different events have different ids, so that a receiver that drops ids which it knows drops no
    event that it does not.
    """
    name = f"{log} {subscription} {first} {last}".encode()
    return "msg_" + blake2b(name, digest_size=16).hexdigest()
