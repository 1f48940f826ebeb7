"""What brokers tell each other over a link, as bytes. Pure functions.

A message is a MessagePack array that starts with its name. It travels in binary WebSocket frames of at most 60 KiB,
each of which begins with a byte that says whether more of the message follows. The first message of both sides is
`Hello`; its first field is the version of the protocol, in every version.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, TypeAlias

import msgspec

from whimbrel.broker.requests.errors import BrokerError
from whimbrel.model.limits import Limit

PROTOCOL = 1
SUBPROTOCOL = "whimbrel.overlay"
PATH = "/overlay/link"

LINK_MESSAGE = Limit("link message", 64 << 20, "bytes", "a message of a peer is decoded whole, in memory")
HELLO_BYTES = 4 << 20
"""The first message of a peer, at most."""
FRAME_BYTES = 60 << 10
FILTERS_BYTES = 1 << 20
"""Bytes at which a message of filters is sent; it is also sent when it has `FILTERS_AT_ONCE` filters and keys."""
FILTERS_AT_ONCE = 1_000
EVENTS_BYTES = 1 << 20
"""Bytes at which a message of events is sent; it is also sent when it has `EVENTS_AT_ONCE` events."""
EVENTS_AT_ONCE = 512

Id: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
"""The id of a log, by which a broker is known."""
Offset: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
Version: TypeAlias = tuple[
    Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)], Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
]
Key: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=256)]
Edge: TypeAlias = tuple[Id, Id, Offset]
"""Two brokers that are linked, and since when, in microseconds."""


class Region(msgspec.Struct, array_like=True):
    """Brokers with their names, and the links between them."""

    names: Annotated[dict[Id, Name], msgspec.Meta(max_length=10_000)] = {}
    edges: Annotated[list[Edge], msgspec.Meta(max_length=10_000)] = []


class Hello(msgspec.Struct, tag="hello", array_like=True):
    """Who the sender is: its log, the ids that the log had until which offset, and what lies on its side of the link.

    `since` is when the link was made, as the side that dials knows it; 0 from the other.
    """

    protocol: int
    id: Id
    name: Name
    former: Annotated[list[tuple[Id, Offset]], msgspec.Meta(max_length=1_000)]
    timestamps: Annotated[list[Name], msgspec.Meta(max_length=10_000)]
    since: Offset
    region: Region


class Welcome(msgspec.Struct, tag="welcome", array_like=True):
    """The link is established. The sender has the receiver's log up to the entry `received`; None if it has nothing."""

    received: Offset | None


class HeldFilters(msgspec.Struct, tag="held", array_like=True):
    """Filters of the receiver that the sender has; the last message of them is not followed by `more`."""

    keys: Annotated[list[Key], msgspec.Meta(max_length=100_000)]
    more: bool


class Filters(msgspec.Struct, tag="filters", array_like=True):
    """Filters that the sender wants from now on, as tenant and text, and keys of filters that it no longer wants."""

    added: Annotated[list[tuple[Name, str]], msgspec.Meta(max_length=FILTERS_AT_ONCE)]
    removed: Annotated[list[Key], msgspec.Meta(max_length=100_000)] = []


class ForwardedItem(msgspec.Struct, array_like=True, gc=False):
    """An event: where it is in the sender's log and in that of its origin, whose it is, its prefix and its bytes."""

    offset: Offset
    origin: Id
    origin_offset: Offset
    tenant: Name
    prefix: bytes
    raw: bytes


class Events(msgspec.Struct, tag="events", array_like=True):
    """Events, in the order of the sender's log."""

    items: Annotated[list[ForwardedItem], msgspec.Meta(max_length=4_096)]


class Ack(msgspec.Struct, tag="ack", array_like=True):
    """Everything up to this offset of the receiver's log is on disk at the sender, or was refused for good."""

    offset: Offset


class RegionChange(msgspec.Struct, tag="behind", array_like=True):
    """The sender's new region: what lies on its side of the link."""

    region: Region


class OptimizerMessage(msgspec.Struct, tag="announced", array_like=True):
    """Says who the optimizer is: see `whimbrel.overlay.router.router_messages.Announce`."""

    epoch: Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)]
    optimizer: Id
    version: Version


class TreeUpdateMessage(msgspec.Struct, tag="updated", array_like=True):
    """A version of the tree as changes of the one before: tenant and text of a filter, or the key of one that went."""

    version: Version
    base: Version
    changes: list[tuple[Name, str, bytes]]
    digest: Key


class TreeRequestMessage(msgspec.Struct, tag="requested", array_like=True):
    """Asks for a version of the tree as a whole."""

    version: Version


class WholeTreeMessage(msgspec.Struct, tag="whole", array_like=True):
    """A version of the tree as a whole."""

    version: Version
    data: bytes


class Trace(msgspec.Struct, tag="trace", array_like=True):
    """Asks what the receiver, and those behind it, would do with an event of this prefix.

    The answer has the same number.
    """

    number: Offset
    prefix: bytes
    raw: bytes


class TraceAnswer(msgspec.Struct, tag="traced", array_like=True):
    """What the sender, and those behind it, would do with an event; JSON."""

    number: Offset
    hops: bytes


class Bye(msgspec.Struct, tag="bye", array_like=True):
    """Why the sender ends the connection. After `ended` the link is gone for good."""

    code: Name
    reason: Annotated[str, msgspec.Meta(max_length=65_536)]


LinkMessage: TypeAlias = (
    Welcome
    | HeldFilters
    | Filters
    | Events
    | Ack
    | RegionChange
    | OptimizerMessage
    | TreeUpdateMessage
    | TreeRequestMessage
    | WholeTreeMessage
    | Trace
    | TraceAnswer
    | Bye
)


class _Opening(msgspec.Struct, tag="hello", array_like=True):
    """What every version of `Hello` begins with."""

    protocol: int


class BadLink(BrokerError):
    """A peer that cannot be linked, or says what it must not: a `code` for programs and a sentence."""

    status = 400

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


_opening = msgspec.msgpack.Decoder(_Opening | Bye)
_hello = msgspec.msgpack.Decoder(Hello)
_messages: msgspec.msgpack.Decoder[LinkMessage] = msgspec.msgpack.Decoder(LinkMessage)


def encode(message: Hello | LinkMessage) -> bytes:
    """Encode a message."""
    return msgspec.msgpack.encode(message)


def decode(data: bytes) -> LinkMessage:
    """The message that these bytes are; BadLink if they are none."""
    try:
        return _messages.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadLink("bad-message", f"Expected a message of the overlay, but got: {error}") from None


def decode_hello(data: bytes) -> Hello:
    """The first message of a peer; BadLink if it is none, if it has another version, or if the peer refuses us."""
    try:
        opening = _opening.decode(data)
        if isinstance(opening, Bye):
            raise BadLink(opening.code, opening.reason)
        if opening.protocol != PROTOCOL:
            raise BadLink(
                "other-protocol", f"Expected a peer with version {PROTOCOL} of the protocol, but got {opening.protocol}"
            )
        return _hello.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadLink("bad-message", f"Expected the hello of a peer, but got: {error}") from None


def frames(message: bytes) -> Iterator[bytes]:
    """The frames of a message: a byte that is 1 if more follows and 0 in the last, and a part of the message."""
    for start in range(0, max(1, len(message)), FRAME_BYTES):
        more = start + FRAME_BYTES < len(message)
        yield bytes([more]) + message[start : start + FRAME_BYTES]


class Assembler:
    """Puts messages together from frames. `limit` is what one may have, in bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._message = bytearray()

    def add(self, frame: bytes) -> bytes | None:
        """Take a frame; the message, if it is whole now. BadLink if it is too large."""
        if not frame or frame[0] > 1:
            raise BadLink("bad-message", "Expected a frame that begins with 0 or 1")
        if len(self._message) + len(frame) - 1 > self.limit:
            raise BadLink("too-large", f"Expected a message of at most {self.limit:,} bytes, but got more")
        self._message += memoryview(frame)[1:]
        if frame[0]:
            return None
        whole, self._message = bytes(self._message), bytearray()
        return whole
