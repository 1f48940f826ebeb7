"""The role of a store. Subscriptions and tokens are folds over the log, stamped with the offset that was applied;
cursors, dead letters and the attempts of webhooks live here alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from whimbrel.broker.requests.entries import Change, SchemaExtension
from whimbrel.broker.store.cursor import Cursor
from whimbrel.broker.store.matching import MatchingTables
from whimbrel.broker.store.peer_links import StoredLink
from whimbrel.broker.store.schema import SchemaBase
from whimbrel.broker.store.webhook_records import WebhookStore
from whimbrel.model.event_schema import EventSchema
from whimbrel.model.filter import Filter
from whimbrel.model.token_rules import Rules


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


class DeadLetter(NamedTuple):
    """An event that was refused, and why. `owner` is the principal that published it."""

    number: int
    time: int
    owner: str
    reason: str
    event: bytes


class Store(Protocol):
    """What every store does. All methods may be called from any thread."""

    matching: MatchingTables
    """Versions with their ranges, and how far events are matched."""

    @property
    def webhooks(self) -> WebhookStore:
        """The part of the store that is about webhooks."""

    @property
    def stamp(self) -> int:
        """Every entry below this offset has been applied."""

    def apply(self, changes: Sequence[tuple[int, Change]], stamp: int) -> None:
        """Apply entries and set the stamp, in one transaction. Applying them again changes nothing."""

    @property
    def synced(self) -> int:
        """Every entry below this offset has been applied, and that survives a loss of power."""

    def sync(self, stamp: int) -> None:
        """Set the stamp, and return when everything that was applied is on disk."""

    def prune(self, floor: int, time: int) -> None:
        """Delete versions that ended not above `floor`, and refused events of before `time`."""

    def numbers(self) -> list[int]:
        """The numbers of all versions, ascending."""

    def ids_of(self, numbers: Sequence[int]) -> dict[int, str]:
        """The ids of the subscriptions that some versions belong to, by the numbers of the versions."""

    def schema_extensions(self) -> list[tuple[int, SchemaExtension]]:
        """The extensions of the schema with their offsets, in their order."""

    def schema_base(self) -> SchemaBase | None:
        """The schema that extensions extend, when it was last used; None if there was none."""

    def set_schema_base(self, base: SchemaBase) -> None:
        """Remember the schema that extensions extend."""

    def subscription(self, id: str) -> StoredSubscription | None:
        """The subscription of that id; None if there is none or it has ended."""

    def subscriptions(self, after: str, limit: int, owner: str | None = None) -> list[StoredSubscription]:
        """A page of subscriptions with ids above `after`, in the order of their ids."""

    def count_subscriptions(self, owner: str) -> int:
        """How many subscriptions an owner has."""

    def versions(self, id: str) -> list[tuple[int, int | None]]:
        """The (number, until) pairs of a subscription, oldest first; `until` is None for the newest."""

    def live_filters(self) -> Iterable[tuple[int, str, str]]:
        """The (number, text, dialect) of every subscription, in the order of numbers."""

    def changed_since(self, offset: int) -> tuple[list[tuple[int, str, str]], list[int]]:
        """What an index saved at `offset` lacks: (number, text, dialect) of new versions, and numbers that ended."""

    def constrained(self) -> Iterable[tuple[int, str]]:
        """The (number, rules) of every subscription with rules."""

    def subscriptions_on(self, on: str) -> list[StoredSubscription]:
        """All subscriptions on publications, or on spaces (their `on` starts with the text), by their first numbers."""

    def publication(self, tenant: str, key: str, space: str = "") -> StoredPublication | None:
        """A publication; None if there is none."""

    def publications(self, tenant: str, after: str, limit: int, space: str = "") -> list[StoredPublication]:
        """A page of publications with keys above `after`, in the order of their keys."""

    def publications_at(self, tenant: str, space: str, offsets: Sequence[int]) -> list[StoredPublication]:
        """The publications whose states are from the entries at some offsets."""

    def all_publications(self) -> Iterable[tuple[str, str, str, int, bytes]]:
        """The (tenant, space, key, offset, state) of every publication."""

    def spaces(self, tenant: str | None = None) -> list[tuple[str, str, int, str]]:
        """The (tenant, name, offset, dimensions as JSON) of the spaces of a tenant, or of all."""

    def pairs(self) -> Iterable[tuple[int, str, float | None]]:
        """The remembered pairs: the first number of the subscription, the key, and when it leaves."""

    def expired(self, time: int, limit: int) -> list[str]:
        """The ids of at most `limit` subscriptions that expire at `time` or before."""

    def cursor(self, id: str) -> Cursor | None:
        """The acknowledged cursor of a subscription."""

    def acknowledge(self, id: str, cursor: Cursor) -> Cursor:
        """Move the cursor forward, never back, and return where it is. One that has ended gets none."""

    def tokens(self) -> list[Token]:
        """All tokens."""

    def origins(self) -> dict[str, int]:
        """The last offset that was received of every other log."""

    def links(self) -> list[StoredLink]:
        """The links that have not ended."""

    def peer_filters(self, peer: str) -> list[tuple[str, str]]:
        """The filters of a peer, as tenant and text."""

    def move_link(self, peer: str, cursor: int) -> None:
        """Note that a peer has our log up to the offset `cursor`."""

    def set_region(self, peer: str, region: bytes) -> None:
        """Store the region behind a peer, encoded."""

    def add_dead_letters(self, letters: Sequence[DeadLetter], keep: int) -> None:
        """Add refused events (their numbers are ignored). The oldest are deleted when there are more than `keep`."""

    def dead_letters(self, after: int, limit: int, owner: str | None = None) -> list[DeadLetter]:
        """A page of refused events with numbers above `after`."""

    def close(self) -> None:
        """Close the store; no call may follow."""
