"""What the broker's log holds besides events. The log is the truth: everything else is a fold over these entries.

An entry's kind is a number that never changes its meaning. Events are kind 0 and are stored as structured CloudEvents,
byte for byte. The other kinds are JSON objects of the classes below.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from whimbrel.log import EVENT

__all__ = [
    "EVENT",
    "KINDS",
    "Change",
    "ForwardedEvents",
    "LinkChange",
    "LinkEnd",
    "LinkPut",
    "PeerFilters",
    "SubscriptionEnd",
    "SubscriptionPut",
    "TenantEvents",
    "TokenEnd",
    "TokenPut",
]


class TenantEvents(msgspec.Struct, frozen=True, gc=False):
    """The next `events` entries were published for `tenant`. Events without such an entry belong to tenant ""."""

    tenant: str
    events: int


class SubscriptionPut(msgspec.Struct, frozen=True, omit_defaults=True):
    """A new subscription, or a new version of one. The offset of this entry is the version's number.

    `text` is the filter that is matched, rules of the owner's token included, in `dialect`; `spec` is the request as it
    came, which is what the owner reads back. `created` and `start` are those of the first version: the subscription
    sees the stored events from offset `start` on (None: only later ones).
    """

    id: str
    owner: str
    text: str
    spec: msgspec.Raw
    dialect: str = "sql"
    protocol: str = "PULL"
    created: int = 0  # microseconds since 1970 UTC
    start: int | None = None
    expires: int | None = None  # microseconds since 1970 UTC
    rules: dict[str, str | int | float | bool] = {}


class SubscriptionEnd(msgspec.Struct, frozen=True):
    """A subscription ends: deleted, expired, or its token was revoked."""

    id: str
    reason: str = "deleted"


class TokenPut(msgspec.Struct, frozen=True, omit_defaults=True):
    """A new token, or other rights of one. Only the digest of its secret is stored."""

    name: str
    digest: str
    scopes: list[str]
    tenant: str = ""
    rules: dict[str, str | int | float | bool] = {}


class TokenEnd(msgspec.Struct, frozen=True):
    """A token is revoked."""

    name: str


class ForwardedEvents(msgspec.Struct, frozen=True, gc=False):
    """The next events came from the broker `peer`, up to offset `last` of its log. A `TenantEvents` may stand between.

    They were published at the broker with the log `origin`, at `offsets` of that log, and came with these `prefixes`.
    """

    origin: str
    peer: str
    last: int
    offsets: list[int]
    prefixes: list[bytes]


class LinkPut(msgspec.Struct, frozen=True, omit_defaults=True):
    """A link to the broker with the log `peer`. `name` is its URL if it is `dialed`, else the token that it shows.

    `received` is set if the log had another id before: the offset up to which it was received.
    """

    peer: str
    name: str
    dialed: bool
    since: int  # microseconds since 1970 UTC
    received: int | None = None


class LinkEnd(msgspec.Struct, frozen=True):
    """A link is gone for good, and with it the filters that came over it."""

    peer: str
    reason: str = "removed"


class PeerFilters(msgspec.Struct, frozen=True, omit_defaults=True):
    """The broker `peer`, or one behind it, wants the events of filters (tenant and text), and of others no more."""

    peer: str
    added: list[tuple[str, str]] = []
    removed: list[bytes] = []


LinkChange: TypeAlias = ForwardedEvents | LinkPut | LinkEnd | PeerFilters
"""What the overlay keeps."""
Change: TypeAlias = SubscriptionPut | SubscriptionEnd | TokenPut | TokenEnd | LinkChange
"""The entries that change what the store holds."""

TENANT_EVENTS = 1
"""The kind of TenantEvents."""
KINDS: dict[int, type[TenantEvents | Change]] = {
    TENANT_EVENTS: TenantEvents,
    2: SubscriptionPut,
    3: SubscriptionEnd,
    4: TokenPut,
    5: TokenEnd,
    11: ForwardedEvents,
    12: LinkPut,
    13: LinkEnd,
    14: PeerFilters,
}

_NUMBERS = {entry: kind for kind, entry in KINDS.items()}
_DECODERS = {kind: msgspec.json.Decoder(entry) for kind, entry in KINDS.items()}
_ENCODER = msgspec.json.Encoder()


def encode(entry: TenantEvents | Change) -> tuple[int, bytes, None]:
    """The row that `LogWriter.append_rows` takes."""
    return _NUMBERS[type(entry)], _ENCODER.encode(entry), None


def decode(kind: int, payload: bytes) -> TenantEvents | Change:
    """The entry of a kind other than EVENT."""
    return _DECODERS[kind].decode(payload)
