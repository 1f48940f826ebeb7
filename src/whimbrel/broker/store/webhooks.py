"""Webhooks in the SQLite store: secrets, consent, cursors, attempts, and deliveries that were given up."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import msgspec

from whimbrel.broker.requests.entries import SigningSecret, SinkSecrets
from whimbrel.broker.store.rows import Attempt, Cursor, UndeliveredMessage, WebhookChanges, WebhookState

ATTEMPTS = 1_000_000
"""Attempts of all subscriptions that are kept, at most."""

Rows: TypeAlias = Callable[[str, Sequence[object]], list[Any]]
_signing = msgspec.json.Decoder(list[SigningSecret])


class WebhookTables:
    """The part of a store that is about webhooks; it uses the store's connections. Any thread may call its methods."""

    def __init__(self, transaction: Callable[[], AbstractContextManager[sqlite3.Connection]], rows: Rows) -> None:
        self._transaction = transaction
        self._rows = rows

    def numbers(self) -> list[int]:
        """The numbers of all subscriptions with a sink, ascending."""
        return [
            number for (number,) in self._rows("SELECT number FROM subscription WHERE protocol = 'HTTP' ORDER BY 1", ())
        ]

    def positions(self) -> list[tuple[str, int, int, int | None, int]]:
        """For each version of subscriptions with a sink: id, number, first, start, and the last offset it is done with.

        An entry of which a part is acknowledged may have more. A new subscription may have messages of its own entry.
        """
        return self._rows(
            "SELECT s.id, v.number, s.first, s.start, coalesce(c.offset - (c.part IS NOT NULL), s.first - 1)"
            " FROM subscription s JOIN version v ON v.id = s.id LEFT JOIN cursor c ON c.id = s.id"
            " WHERE s.protocol = 'HTTP' AND v.number >= s.first",
            (),
        )

    def secrets(self, id: str) -> SinkSecrets | None:
        """The secrets of a subscription."""
        found = self._rows("SELECT signing, credential FROM sink_secrets WHERE id = ?", (id,))
        if not found:
            return None
        signing, credential = found[0]
        return SinkSecrets(
            id, _signing.decode(signing), None if credential is None else msgspec.json.decode(credential)
        )

    def state(self, id: str) -> WebhookState | None:
        """How the deliveries of a subscription stand; None if nothing was sent yet."""
        found = self._rows(f"SELECT {', '.join(WebhookState._fields)} FROM webhook WHERE id = ?", (id,))
        return WebhookState(*found[0]) if found else None

    def due(self) -> list[tuple[str, int]]:
        """The subscriptions with a delivery to try again, and when."""
        return self._rows("SELECT id, due FROM webhook WHERE due IS NOT NULL AND disabled IS NULL", ())

    def by_callback(self, digest: str) -> str | None:
        """The id of the subscription whose callback has this digest."""
        found = self._rows("SELECT id FROM webhook WHERE callback = ?", (digest,))
        return found[0][0] if found else None

    def save(self, changes: WebhookChanges, keep: int) -> None:
        """Store changes in one transaction; of attempts and dead letters each subscription keeps the newest.

        What has ended meanwhile is left out: its records are gone.
        """
        with self._transaction() as connection:
            named = {*changes.cursors, *changes.states, *(one.id for one in changes.attempts)}
            named |= {one.id for one in changes.undelivered}
            live = {id for id in named if is_live(connection, id)}
            for id, cursor in changes.cursors.items():
                if id in live:
                    move_cursor(connection, id, cursor)
            for id, state in changes.states.items():
                if id in live:
                    marks = ", ".join("?" * (1 + len(state)))
                    connection.execute(f"INSERT OR REPLACE INTO webhook VALUES ({marks})", (id, *state))
            _append(connection, "attempt", [one for one in changes.attempts if one.id in live], keep)
            _append(connection, "undelivered", [one for one in changes.undelivered if one.id in live], keep)
            if changes.attempts:
                connection.execute(
                    "DELETE FROM attempt WHERE number <= (SELECT max(number) FROM attempt) - ?", (ATTEMPTS,)
                )

    def attempts(self, id: str, before: int, limit: int) -> list[Attempt]:
        """Attempts with numbers below `before`, newest first."""
        rows = self._rows(
            "SELECT * FROM attempt WHERE id = ? AND number < ? ORDER BY number DESC LIMIT ?", (id, before, limit)
        )
        return [Attempt(*row) for row in rows]

    def undelivered(self, id: str, after: int, limit: int) -> list[UndeliveredMessage]:
        """Deliveries that were given up, with numbers above `after`."""
        rows = self._rows(
            "SELECT * FROM undelivered WHERE id = ? AND number > ? ORDER BY number LIMIT ?", (id, after, limit)
        )
        return [UndeliveredMessage(*row) for row in rows]

    def redelivered(self, number: int) -> None:
        """Delete a dead letter that was delivered after all."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM undelivered WHERE number = ?", (number,))


def _append(
    connection: sqlite3.Connection, table: str, records: Sequence[Attempt | UndeliveredMessage], keep: int
) -> None:
    """Append records with new numbers. Each subscription keeps its newest `keep` records."""
    if not records:
        return
    names, marks = ", ".join(records[0]._fields[1:]), ", ".join("?" * (len(records[0]) - 1))
    connection.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", [one[1:] for one in records])
    for id in {one.id for one in records}:
        connection.execute(
            f"DELETE FROM {table} WHERE id = ? AND number <="
            f" (SELECT number FROM {table} WHERE id = ? ORDER BY number DESC LIMIT 1 OFFSET ?)",
            (id, id, keep),
        )


def is_live(connection: sqlite3.Connection, id: str) -> bool:
    """Whether there is a subscription of that id."""
    return connection.execute("SELECT 1 FROM subscription WHERE id = ?", (id,)).fetchone() is not None


def move_cursor(connection: sqlite3.Connection, id: str, cursor: Cursor) -> Cursor:
    """Move a cursor forward, never back, and return where it is."""
    found = connection.execute("SELECT offset, part FROM cursor WHERE id = ?", (id,)).fetchone()
    held = None if found is None else Cursor(*found)
    if held is not None and held.place >= cursor.place:
        return held
    connection.execute("INSERT OR REPLACE INTO cursor VALUES (?, ?, ?)", (id, *cursor))
    return cursor


def put_secrets(connection: sqlite3.Connection, offset: int, change: SinkSecrets) -> None:
    """Apply an entry; an older one changes nothing."""
    held = connection.execute("SELECT offset FROM sink_secrets WHERE id = ?", (change.id,)).fetchone()
    if held is not None and held[0] >= offset:
        return
    signing = msgspec.json.encode(change.signing).decode()
    credential = None if change.credential is None else msgspec.json.encode(change.credential).decode()
    connection.execute(
        "INSERT OR REPLACE INTO sink_secrets VALUES (?, ?, ?, ?)", (change.id, offset, signing, credential)
    )


def end_webhook(connection: sqlite3.Connection, offset: int, id: str) -> None:
    """Forget the secrets and attempts of a subscription that ended at an offset, unless it was created again since."""
    deleted = connection.execute("DELETE FROM sink_secrets WHERE id = ? AND offset < ?", (id, offset)).rowcount
    if deleted and not is_live(connection, id):
        for table in ("webhook", "attempt", "undelivered"):
            connection.execute(f"DELETE FROM {table} WHERE id = ?", (id,))
