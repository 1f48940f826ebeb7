"""The store in one SQLite file in WAL mode, `broker.sqlite`.

Subscriptions, tokens, publications, spaces, links and secrets are folds over the log, stamped with the offset that was
applied. Cursors, dead letters and the attempts of webhooks live here alone.

What comes from the log can be applied again, so transactions are not synced one by one: after a loss of power the stamp
is lower and the entries above it are applied again. Cursors may then be a little older, which repeats deliveries.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import msgspec

from whimbrel.broker.requests.entries import (
    Change,
    LinkChange,
    SchemaExtension,
    SinkSecrets,
    SubscriptionEnd,
    SubscriptionPut,
    TokenEnd,
    TokenPut,
)
from whimbrel.broker.store.formats import StoreError, connect, prepare
from whimbrel.broker.store.matching import END_VERSION, MatchingTables, apply_commit
from whimbrel.broker.store.peer_links import LINK_FIELDS, StoredLink, apply_link_change
from whimbrel.broker.store.publications import STATE, apply_publications, split_publications
from whimbrel.broker.store.rows import Cursor, DeadLetter, SchemaBase, StoredPublication, StoredSubscription, Token
from whimbrel.broker.store.webhooks import WebhookTables, end_webhook, is_live, move_cursor, put_secrets
from whimbrel.log.match_commit import MatchCommit

_CACHE_KIB = 32 << 10  # pages that the writing connection keeps: an import touches them all over the file
_FIELDS = 'id, number, first, owner, text, dialect, spec, protocol, created, start, expires, rules, "on", tenant'


_ON_EVENTS = "\"on\" = 'events'"


class Store:
    """The store of a broker. All methods may be called from any thread.

    One connection writes and one reads, each under its lock; reads do not wait for writes.
    """

    def __init__(self, path: Path, log_id: str) -> None:
        with ExitStack() as on_error:
            try:
                self._writer = on_error.enter_context(closing(_connect(path, "rwc")))
                prepare(self._writer, path, log_id)
                self._writer.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
                self._reader = on_error.enter_context(closing(_connect(path, "ro")))
                self._stamp = int(self._writer.execute("SELECT stamp FROM fold").fetchone()[0])
            except sqlite3.Error as error:
                raise StoreError(path, f"Expected a store of the broker, but SQLite says: {error}") from error
            on_error.pop_all()
        self._synced = 0
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self.webhooks = WebhookTables(self._transaction, self._rows)
        """The part of the store that is about webhooks."""
        self.matching = MatchingTables(self._rows, self._transaction)
        """Versions with their ranges, and how far events are matched."""
        self._owned: dict[str, int] = {}  # how many subscriptions an owner has; changed by whoever holds `_writing`

    @property
    def stamp(self) -> int:
        """Every entry below this offset has been applied."""
        return self._stamp

    def apply(self, changes: Sequence[tuple[int, Change]], stamp: int) -> None:
        """Apply entries and set the stamp, in one transaction. Applying them again changes nothing.

        They are sorted by id, because neighbours share a page. Entries of one id keep their order.
        """
        with self._transaction() as connection:
            kept, others = split_publications(changes)
            for offset, change in sorted(others, key=_name):
                for owner, more in _apply(connection, offset, change):
                    if owner in self._owned:
                        self._owned[owner] += more
            apply_publications(connection, kept)
            connection.execute("UPDATE fold SET stamp = max(stamp, ?)", (stamp,))
        self._stamp = max(self._stamp, stamp)

    @property
    def synced(self) -> int:
        """Every entry below this offset has been applied, and that survives a loss of power."""
        return self._synced

    def sync(self, stamp: int) -> None:
        """Set the stamp, and return when everything that was applied is on disk: a synced commit syncs all before."""
        with self._writing:
            self._writer.execute("PRAGMA synchronous = FULL")
            self._writer.execute("UPDATE fold SET stamp = max(stamp, ?)", (stamp,))
            self._writer.execute("PRAGMA synchronous = NORMAL")
        self._stamp = max(self._stamp, stamp)
        self._synced = max(self._synced, stamp)

    def prune(self, floor: int, time: int) -> None:
        """Delete versions and committed ranges that ended not above `floor`, and refused events of before `time`."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM version WHERE until <= ?", (floor,))
            connection.execute("DELETE FROM match_range WHERE until <= ?", (floor,))
            connection.execute("DELETE FROM dead_letter WHERE time < ?", (time,))

    def numbers(self) -> list[int]:
        """The numbers of all versions, ascending."""
        return [number for (number,) in self._rows("SELECT number FROM version ORDER BY number")]

    def ids_of(self, numbers: Sequence[int]) -> dict[int, str]:
        """The ids of the subscriptions that some versions belong to, by the numbers of the versions."""
        given = to_json(list(numbers))
        return dict(
            self._rows("SELECT number, id FROM version WHERE number IN (SELECT value FROM json_each(?))", (given,))
        )

    def schema_extensions(self) -> list[tuple[int, SchemaExtension]]:
        """The extensions of the schema with their offsets, in their order."""
        rows = self._rows('SELECT offset, definition, "by" FROM schema_extension ORDER BY offset')
        return [(offset, SchemaExtension(msgspec.Raw(definition), by)) for offset, definition, by in rows]

    def schema_base(self) -> SchemaBase | None:
        """The schema that extensions extend, when it was last used; None if there was none."""
        found = self._rows("SELECT digest, document FROM schema_base")
        return SchemaBase(*found[0]) if found else None

    def set_schema_base(self, base: SchemaBase) -> None:
        """Remember the schema that extensions extend."""
        with self._transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO schema_base VALUES (1, ?, ?)", base)

    def subscription(self, id: str) -> StoredSubscription | None:
        """The subscription of that id; None if there is none or it has ended."""
        found = self._rows(f"SELECT {_FIELDS} FROM subscription WHERE id = ?", (id,))
        return StoredSubscription(*found[0]) if found else None

    def subscriptions(self, after: str, limit: int, owner: str | None = None) -> list[StoredSubscription]:
        """A page of subscriptions with ids above `after`, in the order of their ids."""
        where, values = ("", (after, limit)) if owner is None else ("AND owner = ?", (after, owner, limit))
        rows = self._rows(f"SELECT {_FIELDS} FROM subscription WHERE id > ? {where} ORDER BY id LIMIT ?", values)
        return [StoredSubscription(*row) for row in rows]

    def count_subscriptions(self, owner: str) -> int:
        """How many subscriptions an owner has. They are counted when they are first asked for."""
        if owner not in self._owned:
            with self._writing:
                counted = self._writer.execute("SELECT count(*) FROM subscription WHERE owner = ?", (owner,))
                self._owned[owner] = int(counted.fetchone()[0])
        return self._owned[owner]

    def versions(self, id: str) -> list[tuple[int, int | None]]:
        """The (number, until) pairs of a subscription, oldest first; `until` is None for the newest."""
        return self._rows("SELECT number, until FROM version WHERE id = ? ORDER BY number", (id,))

    def live_filters(self) -> Iterable[tuple[int, str, str]]:
        """The (number, text, dialect) of every subscription, in the order of numbers."""
        return self._rows(f"SELECT number, text, dialect FROM subscription WHERE {_ON_EVENTS} ORDER BY number")

    def count_on_events(self) -> int:
        """How many subscriptions are on events."""
        others = "SELECT count(*) FROM subscription WHERE \"on\" != 'events'"  # they have an index of their own
        return int(self._rows(f"SELECT (SELECT count(*) FROM subscription) - ({others})")[0][0])

    def changed_since(self, offset: int) -> tuple[list[tuple[int, str, str]], list[int]]:
        """What an index saved at `offset` lacks: (number, text, dialect) of new versions, and numbers that ended."""
        new = self._rows(
            "SELECT s.number, s.text, s.dialect FROM version v JOIN subscription s USING (id, number)"
            f" WHERE v.number >= ? AND {_ON_EVENTS} ORDER BY v.number",
            (offset,),
        )
        ended = self._rows("SELECT number FROM version WHERE until >= ?", (offset,))
        return new, [number for (number,) in ended]

    def constrained(self) -> Iterable[tuple[int, str]]:
        """The (number, rules) of every subscription with rules."""
        return self._rows(f"SELECT number, rules FROM subscription WHERE rules != '{{}}' AND {_ON_EVENTS}")

    def subscriptions_on(self, on: str) -> list[StoredSubscription]:
        """All subscriptions on publications, or on spaces (their `on` starts with the text), by their first numbers."""
        where = f'"on" != \'events\' AND substr("on", 1, {len(on)}) = ?'
        rows = self._rows(f"SELECT {_FIELDS} FROM subscription WHERE {where} ORDER BY first", (on,))
        return [StoredSubscription(*row) for row in rows]

    def publication(self, tenant: str, key: str, space: str = "") -> StoredPublication | None:
        """A publication; None if there is none."""
        where = "tenant = ? AND space = ? AND key = ?"
        found = self._rows(f"SELECT {STATE} FROM publication WHERE {where}", (tenant, space, key))
        return StoredPublication(*found[0]) if found else None

    def publications(self, tenant: str, after: str, limit: int, space: str = "") -> list[StoredPublication]:
        """A page of publications with keys above `after`, in the order of their keys."""
        where = "tenant = ? AND space = ? AND key > ? ORDER BY key LIMIT ?"
        rows = self._rows(f"SELECT {STATE} FROM publication WHERE {where}", (tenant, space, after, limit))
        return [StoredPublication(*row) for row in rows]

    def publications_at(self, tenant: str, space: str, offsets: Sequence[int]) -> list[StoredPublication]:
        """The publications whose states are from the entries at some offsets."""
        where = "offset IN (SELECT value FROM json_each(?)) AND +tenant = ? AND +space = ?"  # by offsets, not by keys
        rows = self._rows(f"SELECT {STATE} FROM publication WHERE {where}", (to_json(list(offsets)), tenant, space))
        return [StoredPublication(*row) for row in rows]

    def all_publications(self) -> Iterable[tuple[str, str, str, int, bytes]]:
        """The (tenant, space, key, offset, state) of every publication."""
        return self._rows("SELECT tenant, space, key, offset, state FROM publication ORDER BY tenant, space")

    def spaces(self, tenant: str | None = None) -> list[tuple[str, str, int, str]]:
        """The (tenant, name, offset, dimensions as JSON) of the spaces of a tenant, or of all."""
        where, values = ("", ()) if tenant is None else ("WHERE tenant = ?", (tenant,))
        return self._rows(f"SELECT tenant, name, offset, dimensions FROM space {where} ORDER BY tenant, name", values)

    def pairs(self) -> Iterable[tuple[int, str, float | None]]:
        """The remembered pairs: the first number of the subscription, the key, and when it leaves."""
        return self._rows("SELECT first, key, due FROM publication_pair")

    def expired(self, time: int, limit: int) -> list[str]:
        """The ids of at most `limit` subscriptions that expire at `time` or before."""
        rows = self._rows("SELECT id FROM subscription WHERE expires <= ? ORDER BY expires LIMIT ?", (time, limit))
        return [id for (id,) in rows]

    def cursor(self, id: str) -> Cursor | None:
        """The acknowledged cursor of a subscription."""
        found = self._rows("SELECT offset, part FROM cursor WHERE id = ?", (id,))
        return Cursor(*found[0]) if found else None

    def acknowledge(self, id: str, cursor: Cursor) -> Cursor:
        """Move the cursor forward, never back, and return where it is. One that has ended gets none."""
        with self._transaction() as connection:
            return move_cursor(connection, id, cursor) if is_live(connection, id) else cursor

    def tokens(self) -> list[Token]:
        """All tokens."""
        return [
            Token(*row) for row in self._rows("SELECT name, digest, scopes, tenant, rules FROM token ORDER BY name")
        ]

    def origins(self) -> dict[str, int]:
        """The last offset that was received of every other log."""
        return dict(self._rows("SELECT id, offset FROM origin"))

    def links(self) -> list[StoredLink]:
        """The links that have not ended."""
        rows = self._rows(f"SELECT {LINK_FIELDS} FROM link ORDER BY since, peer")
        return [StoredLink(peer, name, bool(dialed), *rest) for peer, name, dialed, *rest in rows]

    def peer_filters(self, peer: str) -> list[tuple[str, str]]:
        """The filters of a peer, as tenant and text."""
        return self._rows("SELECT tenant, text FROM peer_filter WHERE peer = ? ORDER BY key", (peer,))

    def move_link(self, peer: str, cursor: int) -> None:
        """Note that a peer has our log up to the offset `cursor`."""
        with self._transaction() as connection:
            connection.execute("UPDATE link SET cursor = ? WHERE peer = ?", (cursor, peer))

    def set_region(self, peer: str, region: bytes) -> None:
        """Store the region behind a peer, encoded."""
        with self._transaction() as connection:
            connection.execute("UPDATE link SET region = ? WHERE peer = ?", (region, peer))

    def add_dead_letters(self, letters: Sequence[DeadLetter], keep: int) -> None:
        """Add refused events (their numbers are ignored). The oldest are deleted when there are more than `keep`."""
        with self._transaction() as connection:
            connection.executemany(
                "INSERT INTO dead_letter (time, owner, reason, event) VALUES (?, ?, ?, ?)",
                [letter[1:] for letter in letters],
            )
            connection.execute(
                "DELETE FROM dead_letter WHERE number <= (SELECT max(number) FROM dead_letter) - ?", (keep,)
            )

    def dead_letters(self, after: int, limit: int, owner: str | None = None) -> list[DeadLetter]:
        """A page of refused events with numbers above `after`."""
        where, values = ("", (after, limit)) if owner is None else ("AND owner = ?", (after, owner, limit))
        rows = self._rows(
            f"SELECT number, time, owner, reason, event FROM dead_letter WHERE number > ? {where}"
            " ORDER BY number LIMIT ?",
            values,
        )
        return [DeadLetter(*row) for row in rows]

    def close(self) -> None:
        """Close the store; no call may follow."""
        with self._reading:
            self._reader.close()
        with self._writing:
            self._writer.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._writing:
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:  # where the disk is full SQLite may have rolled back by itself
                    self._writer.execute("ROLLBACK")
                raise

    def _rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple]:  # type: ignore[type-arg]
        with self._reading:
            return self._reader.execute(statement, values).fetchall()


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    connection = connect(path, mode)
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def _name(entry: tuple[int, Change]) -> str:
    """The subscription, token or peer that a change is about."""
    change = entry[1]
    if isinstance(change, SubscriptionPut | SubscriptionEnd | SinkSecrets):
        return change.id
    if isinstance(change, TokenPut | TokenEnd):
        return change.name
    return change.peer if isinstance(change, LinkChange) else ""


def _apply(connection: sqlite3.Connection, offset: int, change: Change) -> list[tuple[str, int]]:
    """Apply a change, and return how many subscriptions more or less an owner has now."""
    if isinstance(change, SubscriptionPut):
        return _put(connection, offset, change)
    if isinstance(change, SubscriptionEnd):
        return _end(connection, offset, change)
    if isinstance(change, MatchCommit):
        apply_commit(connection, change)
    elif isinstance(change, TokenPut):
        values = (change.name, change.digest, " ".join(change.scopes), change.tenant, to_json(change.rules))
        connection.execute("INSERT OR REPLACE INTO token VALUES (?, ?, ?, ?, ?)", values)
    elif isinstance(change, SinkSecrets):
        put_secrets(connection, offset, change)
    elif isinstance(change, TokenEnd):
        connection.execute("DELETE FROM token WHERE name = ?", (change.name,))
    elif isinstance(change, LinkChange):
        apply_link_change(connection, change)
    elif isinstance(change, SchemaExtension):
        extension = (offset, bytes(change.definition), change.by)
        connection.execute("INSERT OR IGNORE INTO schema_extension VALUES (?, ?, ?)", extension)
    return []


def _put(connection: sqlite3.Connection, number: int, put: SubscriptionPut) -> list[tuple[str, int]]:
    held = connection.execute("SELECT number, first FROM subscription WHERE id = ?", (put.id,)).fetchone()
    if held is not None and held[0] >= number:
        return []
    if held is not None:
        connection.execute(END_VERSION, (number, put.id, held[0] + 1))
    first = number if held is None else held[1]
    values = (put.id, number, first, put.owner, put.text, put.dialect, bytes(put.spec), put.protocol, put.created)
    connection.execute(
        f"INSERT OR REPLACE INTO subscription ({_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*values, put.start, put.expires, to_json(put.rules), put.on, put.tenant),
    )
    connection.execute("INSERT OR IGNORE INTO version (number, id) VALUES (?, ?)", (number, put.id))
    return [(put.owner, 1)] if held is None else []


def _end(connection: sqlite3.Connection, offset: int, end: SubscriptionEnd) -> list[tuple[str, int]]:
    connection.execute(END_VERSION, (offset, end.id, offset))
    gone = connection.execute("SELECT owner FROM subscription WHERE id = ? AND number < ?", (end.id, offset)).fetchall()
    connection.execute(
        "DELETE FROM publication_pair WHERE first IN (SELECT first FROM subscription WHERE id = ? AND number < ?)",
        (end.id, offset),
    )
    connection.execute("DELETE FROM subscription WHERE id = ? AND number < ?", (end.id, offset))
    connection.execute(
        "DELETE FROM cursor WHERE id = ? AND id NOT IN (SELECT id FROM subscription WHERE id = ?)", (end.id, end.id)
    )
    end_webhook(connection, offset, end.id)
    return [(owner, -1) for (owner,) in gone]


def to_json(value: object) -> str:
    """A value as JSON text."""
    return msgspec.json.encode(value).decode()
