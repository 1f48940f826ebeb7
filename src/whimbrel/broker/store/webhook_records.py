"""What a store knows of webhooks, as records. Secrets are a fold over the log; the rest lives in the store alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from whimbrel.broker.requests.entries import SinkSecrets
from whimbrel.broker.store.cursor import Cursor


class WebhookState(NamedTuple):
    """How the deliveries of a subscription stand; one without a record is fresh.

    Consent was given for `sink`: `none`, `granted` or `refused`; `rate` is what the receiver allows a minute. While a
    delivery fails, `attempts` were made since `failing`, and the next one is `due`. Batches and digests are cut from
    the messages up to the cursor `until`, so that every attempt has the same events. `disabled` says why nothing is
    sent. Times are microseconds since 1970 UTC.
    """

    sink: str
    consent: str = "none"
    rate: int | None = None
    callback: str | None = None  # the digest of the secret in the callback URL
    disabled: str | None = None
    attempts: int = 0
    failing: int | None = None
    due: int | None = None
    until_offset: int | None = None
    until_part: int | None = None
    problem: str | None = None

    @property
    def until(self) -> Cursor | None:
        """The cursor of the last message that is cut into requests."""
        return None if self.until_offset is None else Cursor(self.until_offset, self.until_part)


class Attempt(NamedTuple):
    """One request to a sink: `message` is its webhook-id, `cursor` that of its last event."""

    number: int
    id: str
    time: int
    message: str
    cursor: str
    events: int
    attempt: int
    status: int | None
    seconds: float
    problem: str | None


class UndeliveredMessage(NamedTuple):
    """A delivery that was given up: the messages behind the cursor `after`, up to `until`."""

    number: int
    id: str
    time: int
    message: str
    after: str
    until: str
    events: int
    attempts: int
    problem: str


class WebhookChanges(NamedTuple):
    """What deliveries changed, to be stored together. Numbers are ignored."""

    cursors: Mapping[str, Cursor]
    states: Mapping[str, WebhookState]
    attempts: Sequence[Attempt]
    undelivered: Sequence[UndeliveredMessage]


class WebhookStore(Protocol):
    """What every store does for webhooks. All methods may be called from any thread."""

    def numbers(self) -> list[int]:
        """The numbers of all subscriptions with a sink, ascending."""

    def positions(self) -> list[tuple[str, int, int, int | None, int | None]]:
        """For each version of subscriptions with a sink: id, number, first, start, and the cursor's offset."""

    def secrets(self, id: str) -> SinkSecrets | None:
        """The secrets of a subscription."""

    def state(self, id: str) -> WebhookState | None:
        """How the deliveries of a subscription stand; None if nothing was sent yet."""

    def due(self) -> list[tuple[str, int]]:
        """The subscriptions with a delivery to try again, and when."""

    def by_callback(self, digest: str) -> str | None:
        """The id of the subscription whose callback has this digest."""

    def save(self, changes: WebhookChanges, keep: int) -> None:
        """Store changes in one transaction; of attempts and dead letters each subscription keeps the newest."""

    def attempts(self, id: str, before: int, limit: int) -> list[Attempt]:
        """Attempts with numbers below `before`, newest first."""

    def undelivered(self, id: str, after: int, limit: int) -> list[UndeliveredMessage]:
        """Deliveries that were given up, with numbers above `after`."""

    def redelivered(self, number: int) -> None:
        """Delete a dead letter that was delivered after all."""
