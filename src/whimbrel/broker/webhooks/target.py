"""A webhook as the broker delivers to it: where, how, and with which secrets. Loaded from the store when needed."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from whimbrel.broker.requests.subscriptions import read_spec
from whimbrel.broker.requests.webhook_sinks import (
    HTTP,
    DigestRequest,
    SinkSettings,
    SinkUrl,
    read_credential,
    read_url,
    secret_bytes,
)
from whimbrel.broker.store import Store, StoredSubscription


class SigningKey(NamedTuple):
    """A key that signs, and until when in microseconds; None for good."""

    key: bytes
    until: int | None


class WebhookTarget(NamedTuple):
    """Everything that a delivery needs to know of a subscription."""

    held: StoredSubscription
    sink: str
    url: SinkUrl
    settings: SinkSettings
    digest: DigestRequest | None
    keys: tuple[SigningKey, ...]
    authorization: str | None

    def valid_keys(self, now: int) -> list[bytes]:
        """The keys that sign now."""
        return [one.key for one in self.keys if one.until is None or one.until > now]

    @property
    def is_grouped(self) -> bool:
        """Whether a request may have several events."""
        return self.digest is not None or self.settings.batch is not None

    @property
    def batch(self) -> int:
        """Events of one request, at most."""
        return self.digest.max if self.digest is not None else self.settings.batch or 1


def load_target(store: Store, id: str) -> WebhookTarget | None:
    """The webhook of a subscription; None if it has ended or has no sink."""
    held = store.subscription(id)
    if held is None or held.protocol != HTTP:
        return None
    asked = read_spec(held.spec)
    secrets = store.webhooks.secrets(id)
    assert asked.sink is not None
    credential = None if secrets is None or secrets.credential is None else read_credential(secrets.credential)
    return WebhookTarget(
        held,
        asked.sink,
        read_url(asked.sink),
        msgspec.convert(asked.protocolsettings or {}, SinkSettings),
        asked.digest,
        tuple(SigningKey(secret_bytes(one.secret), one.until) for one in (secrets.signing if secrets else ())),
        None if credential is None else credential.authorization,
    )
