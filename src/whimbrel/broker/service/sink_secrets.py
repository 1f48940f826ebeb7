"""The secrets of subscriptions with a sink: what they are when one is created, replaced, or rotates them."""

from __future__ import annotations

from whimbrel.broker.requests.entries import SigningSecret, SinkSecrets
from whimbrel.broker.requests.errors import Unprocessable
from whimbrel.broker.requests.subscriptions import SubscriptionRequest, read_spec
from whimbrel.broker.requests.webhook_sinks import HTTP, new_signing_secret, read_sink, read_url, secret_bytes
from whimbrel.broker.service.principal import Principal
from whimbrel.broker.store import StoredSubscription

KEPT_SECONDS = 86_400
"""How long a secret signs beside the one that replaced it, if nothing else is asked for."""


def first_secrets(request: SubscriptionRequest, id: str) -> SinkSecrets | None:
    """The secrets of a new subscription, the one that signs given or made here; None if it has no sink."""
    if request.protocol != HTTP:
        return None
    given = (request.protocolsettings or {}).get("secret")
    return SinkSecrets(id, [SigningSecret(given or new_signing_secret())], request.sinkcredential)


def next_secrets(
    request: SubscriptionRequest, held: StoredSubscription, secrets: SinkSecrets | None
) -> SinkSecrets | None:
    """The secrets of a subscription that is replaced; None if they stay.

    What is not given stays, but a credential is never sent to another origin than the one it was given for.
    """
    if request.protocol != HTTP:
        return None
    fresh = first_secrets(request, held.id)
    assert fresh is not None
    if secrets is None:
        return fresh
    former = read_spec(held.spec)
    is_same = former.sink is not None and read_url(former.sink).origin == read_url(request.sink or "").origin
    credential = request.sinkcredential or (secrets.credential if is_same else None)
    given = (request.protocolsettings or {}).get("secret")
    signing = fresh.signing if given is not None else secrets.signing
    made = SinkSecrets(held.id, signing, credential)
    return None if made == secrets else made


def rotated(secrets: SinkSecrets | None, id: str, secret: str | None, keep: int, now: int) -> SinkSecrets:
    """The secrets after a rotation: a new one signs, and the former ones for `keep` seconds more.

    Times are microseconds.
    """
    if secret is not None:
        secret_bytes(secret)
    until = now + keep * 1_000_000
    former = [
        SigningSecret(one.secret, until if one.until is None else min(one.until, until))
        for one in (secrets.signing if secrets is not None else ())
        if (one.until is None or one.until > now) and keep > 0
    ]
    if secret is not None and any(one.secret == secret for one in former):
        raise Unprocessable("Expected another secret than those that sign already - at $.secret", "invalid-secret")
    credential = None if secrets is None else secrets.credential
    return SinkSecrets(id, [SigningSecret(secret or new_signing_secret()), *former[:3]], credential)


def check_waiver(request: SubscriptionRequest, principal: Principal, held: StoredSubscription | None = None) -> None:
    """Only an admin may waive the consent of a receiver (else Forbidden). A waiver of the same sink may stay."""
    if request.protocol != HTTP:
        return
    if read_sink(request.sink, request.protocolsettings, None).consent != "waived":
        return
    if held is not None and held.protocol == HTTP:
        former = read_spec(held.spec)
        if former.sink == request.sink and (former.protocolsettings or {}).get("consent") == "waived":
            return
    principal.require("admin")
