"""The links of a broker in its store: peers, their filters, and how far each log has come.

Peers, filters and offsets received are folds over the log. `cursor`, the offset up to which a peer has our log, and
`region`, what lies behind it, live here alone: they may be older than the truth after a crash, which costs repetitions.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from whimbrel.broker.requests.entries import ForwardedEvents, LinkChange, LinkEnd, LinkPut
from whimbrel.overlay.tree.paths import interest_key

LINK_FIELDS = "peer, name, dialed, since, received, cursor, region"


class StoredLink(NamedTuple):
    """A link that has not ended."""

    peer: str
    name: str
    dialed: bool
    since: int
    received: int | None
    cursor: int | None
    region: bytes | None


def apply_link_change(connection: sqlite3.Connection, change: LinkChange) -> None:
    """Apply a log entry about links to the tables."""
    if isinstance(change, ForwardedEvents):
        connection.execute(
            "INSERT INTO origin VALUES (?, ?) ON CONFLICT DO UPDATE SET offset = max(offset, excluded.offset)",
            (change.origin, change.offsets[-1]),
        )
        connection.execute(
            "UPDATE link SET received = max(ifnull(received, -1), ?) WHERE peer = ?", (change.last, change.peer)
        )
    elif isinstance(change, LinkPut):
        connection.execute(
            "INSERT INTO link (peer, name, dialed, since, received) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE"
            " SET name = excluded.name, dialed = excluded.dialed, since = excluded.since",
            (change.peer, change.name, change.dialed, change.since, change.received),
        )
    elif isinstance(change, LinkEnd):
        connection.execute("DELETE FROM link WHERE peer = ?", (change.peer,))
        connection.execute("DELETE FROM peer_filter WHERE peer = ?", (change.peer,))
    else:
        rows = [(change.peer, interest_key(tenant, text), tenant, text) for tenant, text in change.added]
        connection.executemany("INSERT OR IGNORE INTO peer_filter VALUES (?, ?, ?, ?)", rows)
        gone = [(change.peer, key) for key in change.removed]
        connection.executemany("DELETE FROM peer_filter WHERE peer = ? AND key = ?", gone)
