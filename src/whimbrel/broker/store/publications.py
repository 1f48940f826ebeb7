"""Publications in the store: their states, and the pairs that are remembered for hysteresis and dwell."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from whimbrel.broker.requests.entries import Change, DwellExpiry, PublicationChange, SubscriptionPut

STATE = "key, offset, time, state"
"""The columns of a `StoredPublication`."""

_PUT = (
    "INSERT INTO publication VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET offset = excluded.offset,"
    " time = excluded.time, state = excluded.state WHERE excluded.offset > publication.offset"
)
_DELETE = "DELETE FROM publication WHERE tenant = ? AND key = ? AND offset < ?"
_INSIDE = "INSERT OR REPLACE INTO publication_pair VALUES (?, ?, ?)"
_OUTSIDE = "DELETE FROM publication_pair WHERE first = ? AND key = ?"

Changes = Sequence[tuple[int, Change]]


def split_publications(changes: Changes) -> tuple[list[tuple[int, Change]], list[tuple[int, Change]]]:
    """The changes that publications see, in the order of the log, and those that the rest of the store sees."""
    seen = [one for one in changes if isinstance(one[1], PublicationChange | DwellExpiry | SubscriptionPut)]
    return seen, [one for one in changes if not isinstance(one[1], PublicationChange | DwellExpiry)]


def apply_publications(connection: sqlite3.Connection, changes: Changes) -> None:
    """Apply entries to states and pairs."""
    for offset, change in changes:
        if isinstance(change, PublicationChange):
            content = change.content
            if content is None:
                connection.execute(_DELETE, (change.tenant, change.key, offset))
            else:
                connection.execute(_PUT, (change.tenant, change.key, offset, change.time, content))
            if change.inside:
                connection.executemany(_INSIDE, [(first, change.key, due) for first, due in change.inside])
            if change.outside:
                connection.executemany(_OUTSIDE, [(first, change.key) for first in change.outside])
        elif isinstance(change, DwellExpiry) and not change.space:
            connection.executemany(_OUTSIDE, [(first, key) for first, key, _, _ in change.pairs])
        elif isinstance(change, SubscriptionPut) and change.on == "publications":
            found = connection.execute("SELECT first FROM subscription WHERE id = ?", (change.id,)).fetchone()
            if found is not None:
                connection.execute("DELETE FROM publication_pair WHERE first = ?", found)
                connection.executemany(_INSIDE, [(*found, key, due) for key, due in change.inside])
