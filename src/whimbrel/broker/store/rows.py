"""What the tables of the store hold, as records, and cursors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from whimbrel.model.event_schema import EventSchema
from whimbrel.model.filter import Filter
from whimbrel.model.token_rules import Rules


class Cursor(NamedTuple):
    """A place behind a message: `part` of the entry at `offset`. Written `offset` or `offset.n`.

    An event is one message, part 0. A bare offset stands behind all messages of the entry.
    """

    offset: int
    part: int | None = None

    def __str__(self) -> str:
        return str(self.offset) if self.part is None else f"{self.offset}.{self.part}"

    @property
    def place(self) -> tuple[int, float]:
        """What cursors are ordered by: a bare offset stands behind all messages of its entry."""
        return self.offset, float("inf") if self.part is None else self.part

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """ValueError unless the text is a cursor. `-1` stands before the first entry."""
        offset, dot, part = text.partition(".")
        if not (offset == "-1" or (offset.isascii() and offset.isdigit() and len(offset) < 19)):
            raise ValueError(f"Expected a cursor such as 17 or 17.0, but got {text[:40]!r}")
        if dot and not (part.isascii() and part.isdigit() and len(part) < 10):
            raise ValueError(f"Expected a cursor such as 17 or 17.0, but got {text[:40]!r}")
        return cls(int(offset), int(part) if dot else None)


class StoredSubscription(NamedTuple):
    """The newest version of a subscription that has not ended. Its fields are those of `SubscriptionPut`."""

    id: str
    number: int
    first: int  # the number of its first version
    owner: str
    text: str
    dialect: str
    spec: bytes
    protocol: str
    created: int
    start: int | None
    expires: int | None
    rules: str  # a JSON object
    on: str = "events"
    tenant: str = ""

    def parse(self, schema: EventSchema | None = None) -> Filter:
        """Parse its filter. `schema` is that of events: filters on publications are not read by it."""
        return Filter.parse(self.text, self.dialect, schema if self.on == "events" else None)

    def decode_rules(self) -> Rules:
        """The rules of its owner's token."""
        rules: Rules = msgspec.json.decode(self.rules)
        return rules


class StoredPublication(NamedTuple):
    """The state of a publication, as JSON; `offset` is the entry that gave it, `time` when that was."""

    key: str
    offset: int
    time: int
    state: bytes


class Token(NamedTuple):
    """A token without its secret. `rules` is a JSON object, `scopes` are names with spaces between."""

    name: str
    digest: str
    scopes: str
    tenant: str
    rules: str


class SchemaBase(NamedTuple):
    """The schema of --schema as it was last used: its document as JSON, and a digest that tells whether it changed."""

    digest: str
    document: bytes


class DeadLetter(NamedTuple):
    """An event that was refused, and why. `owner` is the principal that published it."""

    number: int
    time: int
    owner: str
    reason: str
    event: bytes


class WebhookState(NamedTuple):
    """How the deliveries of a subscription stand; one without a record is fresh.

    Consent was given for `sink`: `none`, `granted` or `refused`; `rate` is what the receiver allows a minute. While a
    delivery fails, `attempts` were made since `failing`, and the next one is `due`: at the `moment` of `monotonic()` in
    this `boot` of the machine, whatever the clock is set to meanwhile. Batches and digests are cut from the messages up
    to the cursor `until`, so that every attempt has the same events. `disabled` says why nothing is sent. Times are
    microseconds since 1970 UTC.
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
    moment: float | None = None
    boot: str | None = None

    def reset(self, **changes: Any) -> WebhookState:
        """The state with some changes, in which no attempt has failed and none is due."""
        return self._replace(attempts=0, failing=None, due=None, moment=None, **changes)

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
