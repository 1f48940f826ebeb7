"""The consent of a receiver, as CloudEvents' webhooks ask for it: OPTIONS on the target before anything is sent.

A receiver consents if it answers with WebHook-Allowed-Origin (our origin, or `*`) and, if a rate was asked for, with
WebHook-Allowed-Rate; the status does not matter. It may also consent later, by a request to the callback URL.
"""

from __future__ import annotations

import secrets
from hashlib import sha256
from typing import NamedTuple

from whimbrel.broker.webhooks.connection import HttpResponse

CALLBACK_PATH = "/webhooks/consent/"


class Consent(NamedTuple):
    """Whether a receiver consents; `rate` in requests a minute, None for any; else the `problem`."""

    granted: bool
    rate: int | None = None
    problem: str | None = None


def read_consent(answer: HttpResponse, origin: str, asked_rate: int | None) -> Consent:
    """What an answer to OPTIONS means."""
    allowed = answer.headers.get("webhook-allowed-origin")
    if allowed is None:
        return Consent(False, problem="Expected consent: the answer to OPTIONS has no WebHook-Allowed-Origin")
    if allowed != "*" and allowed.lower() != origin.lower():
        return Consent(False, problem=f"Expected consent for the origin {origin!r}, but the receiver allows another")
    text = answer.headers.get("webhook-allowed-rate")
    if text is None:
        if asked_rate is not None:
            return Consent(False, problem="Expected consent: the answer to OPTIONS has no WebHook-Allowed-Rate")
        return Consent(True)
    return read_rate(text)


def read_rate(text: str) -> Consent:
    """Consent with a rate: a positive number of requests a minute, or `*`."""
    if text == "*":
        return Consent(True)
    if text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0:
        return Consent(True, int(text))
    return Consent(False, problem="Expected WebHook-Allowed-Rate to be a positive number or *")


def new_callback(public_url: str | None) -> tuple[str | None, str | None]:
    """A callback URL that nobody can guess, and the digest of its secret; nothing if we have no public URL."""
    if public_url is None:
        return None, None
    secret = secrets.token_urlsafe(32)
    return public_url.rstrip("/") + CALLBACK_PATH + secret, callback_digest(secret)


def callback_digest(secret: str) -> str:
    """What is stored of a callback URL."""
    return sha256(secret.encode()).hexdigest()
