"""What a broker knows of one link, whether it is connected or not."""

from __future__ import annotations

from dataclasses import dataclass, field

from whimbrel.broker.peering.wire import Region
from whimbrel.model.token_rules import Rules


@dataclass
class Link:
    """A link to the broker whose log is `peer`. Counts are those since the start. Only the event loop changes it."""

    peer: str
    name: str
    """The URL if we dialed, else the name of the token that the peer shows."""
    dialed: bool
    since: int
    cursor: int | None = None
    """The peer has our log up to here; None if nothing was sent so far."""
    received: int | None = None
    """The last entry of the peer's log that is here; it moves with every acknowledgement."""
    label: str = ""
    """The name that the peer gives itself."""
    region: Region = field(default_factory=Region)
    """What lies on the peer's side."""
    tenant: str = ""
    rules: Rules = field(default_factory=dict)
    events_in: int = 0
    events_out: int = 0
    repeated_events: int = 0
    """Events that came again, and were in the log."""
    refused_events: int = 0
    refused_prefixes: int = 0
    refused_messages: int = 0
    missed: int = 0
    """Entries of our log that were deleted before the peer had them."""
    connects: int = 0
    reason: str = ""
    """Why it is not connected."""
    held_keys: set[bytes] = field(default_factory=set)
    """The keys of our filters that the peer has named so far in this handshake."""
    stored: tuple[int | None, bytes] = (None, b"")
    """The cursor and the region that the store has."""
