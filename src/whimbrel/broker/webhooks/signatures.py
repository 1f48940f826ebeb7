"""Signatures of Standard Webhooks: HMAC-SHA256 of `id.timestamp.body`, one for every secret that is valid."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterable
from hashlib import blake2b, sha256


def sign(keys: Iterable[bytes], id: str, timestamp: int, body: bytes) -> str:
    """The header webhook-signature.

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
