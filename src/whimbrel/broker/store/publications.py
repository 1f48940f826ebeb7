"""Publications in the store: their states, subject spaces, and the pairs of hysteresis and dwell."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from whimbrel.broker.requests.entries import (
    Change,
    DwellExpiry,
    PublicationChange,
    PublicationEntry,
    SpaceChange,
    SubscriptionPut,
)

STATE = "key, offset, time, state"
"""The columns of a `StoredPublication`."""

_PUT = (
    "INSERT INTO publication VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET offset = excluded.offset,"
    " time = excluded.time, state = excluded.state WHERE excluded.offset > publication.offset"
)
_DELETE = "DELETE FROM publication WHERE tenant = ? AND space = ? AND key = ? AND offset < ?"
_INSIDE = "INSERT OR REPLACE INTO publication_pair VALUES (?, ?, ?)"
_OUTSIDE = "DELETE FROM publication_pair WHERE first = ? AND key = ?"

Changes = Sequence[tuple[int, Change]]


def split_publications(changes: Changes) -> tuple[list[tuple[int, Change]], list[tuple[int, Change]]]:
    """Split changes into changes for the tables of publications and changes for the other tables, in their order."""
    seen = [one for one in changes if isinstance(one[1], PublicationEntry | SubscriptionPut)]
    return seen, [one for one in changes if not isinstance(one[1], PublicationEntry)]


def apply_publications(connection: sqlite3.Connection, changes: Changes) -> None:
    """Apply entries to states, spaces and pairs."""
    for offset, change in changes:
        if isinstance(change, PublicationChange):
            _apply_change(connection, offset, change)
        elif isinstance(change, SpaceChange):
            _apply_space(connection, offset, change)
        elif isinstance(change, DwellExpiry):
            connection.executemany(_OUTSIDE, [(first, key) for first, key, _, _ in change.pairs])
        elif isinstance(change, SubscriptionPut) and change.on != "events":
            found = connection.execute("SELECT first FROM subscription WHERE id = ?", (change.id,)).fetchone()
            if found is not None:
                connection.execute("DELETE FROM publication_pair WHERE first = ?", found)
                connection.executemany(_INSIDE, [(*found, key, due) for key, due in change.inside])


def _apply_change(connection: sqlite3.Connection, offset: int, change: PublicationChange) -> None:
    content, name = change.content, (change.tenant, change.space, change.key)
    if content is None:
        connection.execute(_DELETE, (*name, offset))
    else:
        connection.execute(_PUT, (*name, offset, change.time, content))
    if change.inside:
        connection.executemany(_INSIDE, [(first, change.key, due) for first, due in change.inside])
    if change.outside:
        connection.executemany(_OUTSIDE, [(first, change.key) for first in change.outside])


def _apply_space(connection: sqlite3.Connection, offset: int, change: SpaceChange) -> None:
    name = change.tenant, change.name
    if change.dimensions is None:
        connection.execute("DELETE FROM publication WHERE tenant = ? AND space = ? AND offset < ?", (*name, offset))
        connection.execute("DELETE FROM space WHERE tenant = ? AND name = ? AND offset < ?", (*name, offset))
    else:
        dimensions = msgspec.json.encode(change.dimensions).decode()
        connection.execute("INSERT OR REPLACE INTO space VALUES (?, ?, ?, ?)", (*name, offset, dimensions))
