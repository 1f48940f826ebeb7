"""What the broker's log holds besides events. The log is the truth: everything else is a fold over these entries.

An entry's kind is a number that never changes its meaning. Events are kind 0 and are stored as structured CloudEvents,
byte for byte. The other kinds are JSON objects of the classes below, but for match lists, which are packed.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from whimbrel.log import match_commit
from whimbrel.log.match_commit import MatchCommit
from whimbrel.model.errors import WhimbrelError


class NewerEntry(WhimbrelError):
    """The log holds an entry of a kind that a newer Whimbrel wrote."""

    def __init__(self, kind: int) -> None:
        self.kind = kind
        super().__init__(f"Expected entries of kinds up to {max(KINDS)}, but got {kind}: a newer Whimbrel wrote it")


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
    on: str = "events"  # or "publications", or "spaces/NAME"
    tenant: str = ""  # whose publications or space it is about
    entered: bytes = b""  # offsets of the publications that it begins to match with this entry, as a match list
    left: bytes = b""  # and of those that it ceases to match and is told of
    inside: list[tuple[str, float | None]] = []  # with outer or dwell: the keys inside, and when they leave


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


class PublicationChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A publication has a new state, which is an object, or null if it was deleted.

    The match list of the entry says who is told; `kinds` has a letter for each of them (e, l, d: enter, leave, delete),
    or one letter for all. `inside` are changes of pairs that are remembered for outer and dwell: the first number of
    the subscription and when the publication leaves; `outside` are pairs that are no more.
    """

    key: str
    tenant: str = ""
    state: msgspec.Raw = msgspec.Raw(b"null")
    time: int = 0  # microseconds since 1970 UTC
    kinds: str = ""
    inside: list[tuple[int, float | None]] = []
    outside: list[int] = []
    space: str = ""  # the subject space that it belongs to; its state is then {"regions": [...]}

    @property
    def content(self) -> bytes | None:
        """The state; None if the publication was deleted."""
        content = bytes(self.state)
        return None if content == b"null" else content


class SpaceChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A subject space is defined by its dimensions and their types, or dropped, with all in it, if there are none."""

    name: str
    tenant: str = ""
    dimensions: dict[str, str | dict[str, Any]] | None = None


class DwellExpiry(msgspec.Struct, frozen=True, omit_defaults=True):
    """Publications leave because they were out for long enough.

    Each pair has the first number of the subscription, the key, the offset of the publication's state, and the number
    of the version that is told, -1 if it did not ask for leaves.
    """

    pairs: list[tuple[int, str, int, int]]
    tenant: str = ""
    space: str = ""


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


class SchemaExtension(msgspec.Struct, frozen=True):
    """The schema is extended. `definition` is an extension as the request had it; `by` is the token that asked."""

    definition: msgspec.Raw
    by: str = ""


LinkChange: TypeAlias = ForwardedEvents | LinkPut | LinkEnd | PeerFilters
"""What the overlay keeps."""
PublicationEntry: TypeAlias = PublicationChange | SpaceChange | DwellExpiry
"""What changes publications and spaces."""


class SigningSecret(msgspec.Struct, frozen=True, omit_defaults=True):
    """A secret that signs webhooks, and until when; None for good."""

    secret: str
    until: int | None = None  # microseconds since 1970 UTC


class SinkSecrets(msgspec.Struct, frozen=True, omit_defaults=True):
    """The secrets of a subscription with a sink, all of them: what signs, newest first, and the sink's credential."""

    id: str
    signing: list[SigningSecret]
    credential: dict[str, Any] | None = None


SubscriberChange: TypeAlias = SubscriptionPut | SubscriptionEnd | TokenPut | TokenEnd | SinkSecrets
"""What changes subscriptions and tokens."""
Change: TypeAlias = SubscriberChange | SchemaExtension | PublicationEntry | MatchCommit | LinkChange
"""The entries that change what the store holds."""

TENANT_EVENTS = 1
FORWARDED_EVENTS = 11
"""The kinds of TenantEvents and ForwardedEvents."""
KINDS: dict[int, type[TenantEvents | Change]] = {
    TENANT_EVENTS: TenantEvents,
    2: SubscriptionPut,
    3: SubscriptionEnd,
    4: TokenPut,
    5: TokenEnd,
    6: SchemaExtension,
    7: PublicationChange,
    8: SpaceChange,
    9: DwellExpiry,
    10: MatchCommit,
    FORWARDED_EVENTS: ForwardedEvents,
    12: LinkPut,
    13: LinkEnd,
    14: PeerFilters,
    15: SinkSecrets,
}

KIND_OF = {entry: kind for kind, entry in KINDS.items()}
_DECODERS = {kind: msgspec.json.Decoder(entry) for kind, entry in KINDS.items()}
_ENCODER = msgspec.json.Encoder()
MATCHES = KIND_OF[MatchCommit]
"""The kind of the entries with match lists that another engine brings."""


def encode(entry: TenantEvents | Change, told: bytes | None = None) -> tuple[int, bytes, bytes | None]:
    """The row that `LogWriter.append_rows` takes; `told` is the match list of those who get messages of it."""
    if isinstance(entry, MatchCommit):
        return MATCHES, match_commit.encode(entry), None
    return KIND_OF[type(entry)], _ENCODER.encode(entry), told


def decode(kind: int, payload: bytes) -> TenantEvents | Change:
    """The entry of a kind other than EVENT; NewerEntry if this Whimbrel does not know the kind."""
    if kind not in _DECODERS:
        raise NewerEntry(kind)
    return match_commit.decode(payload) if kind == MATCHES else _DECODERS[kind].decode(payload)
