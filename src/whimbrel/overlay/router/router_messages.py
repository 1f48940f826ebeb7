"""What routers tell each other, and what a call of a router brings about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from whimbrel.model.event import Event
from whimbrel.overlay.tree.paths import Interest
from whimbrel.overlay.tree.prefix import Version


@dataclass(frozen=True, slots=True)
class Subscribe:
    """The sender, or somebody behind it, wants the events of a filter."""

    interest: Interest


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Nobody at or behind the sender wants the events of a filter any longer, but for filters that cover it."""

    key: bytes


@dataclass(frozen=True, slots=True)
class Forwarded:
    """An event: the `offset`-th of the router `origin`, with the `prefix` that says who wants it, if there is one."""

    origin: str
    offset: int
    event: Event
    prefix: bytes = b""
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Announce:
    """The optimizer of this epoch is the router of that name, which is the sender or behind it.

    Versions up to `version` are not sent by themselves.
    """

    epoch: int
    optimizer: str
    version: Version


@dataclass(frozen=True, slots=True)
class TreeUpdate:
    """The tree `version` is the tree `base` with these changes, in order: a filter to insert, or the key of one to
    remove.

    `digest` is that of all changes since the tree was empty.
    """

    version: Version
    base: Version
    changes: tuple[Interest | bytes, ...]
    digest: bytes


@dataclass(frozen=True, slots=True)
class TreeRequest:
    """The sender lacks this version, and asks for this or a younger one as a whole."""

    version: Version


@dataclass(frozen=True, slots=True)
class WholeTree:
    """A version as a whole, as `tree_bytes` codes it."""

    version: Version
    data: bytes


Message: TypeAlias = Subscribe | Unsubscribe | Forwarded | Announce | TreeUpdate | TreeRequest | WholeTree


@dataclass(slots=True)
class Effects:
    """The results of a call: messages to neighbours, in order, and events for local subscriptions."""

    sent: list[tuple[str, Message]] = field(default_factory=list)
    delivered: list[tuple[str, Forwarded]] = field(default_factory=list)
