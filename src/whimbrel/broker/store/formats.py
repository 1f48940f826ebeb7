"""The format of the store's file: made, brought forward from an older one after a copy, or refused if it is newer.

The tables are steps from one format to the next; a store of format n takes the steps from n on. A step that has been
released never changes; new tables and columns are a new step, or part of one that is not released.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from whimbrel.model.errors import WhimbrelError
from whimbrel.storage.atomic import remove_staged, staged_file

_APPLICATION_ID = 0x57484D42  # "WHMB"
_STEP_PAGES = 2_048

logger = logging.getLogger("whimbrel.broker")

_SUBSCRIPTIONS_AND_TOKENS = """
CREATE TABLE fold (one INTEGER PRIMARY KEY CHECK (one = 1), log TEXT NOT NULL, stamp INTEGER NOT NULL);
CREATE TABLE subscription (id TEXT PRIMARY KEY, number INTEGER NOT NULL, first INTEGER NOT NULL, owner TEXT NOT NULL,
  text TEXT NOT NULL, dialect TEXT NOT NULL, spec BLOB NOT NULL, protocol TEXT NOT NULL, created INTEGER NOT NULL,
  start INTEGER, expires INTEGER, rules TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX subscription_owner ON subscription (owner, id);
CREATE INDEX subscription_rules ON subscription (number) WHERE rules != '{}';
CREATE INDEX subscription_expires ON subscription (expires) WHERE expires IS NOT NULL;
CREATE TABLE version (number INTEGER PRIMARY KEY, id TEXT NOT NULL, until INTEGER);
CREATE INDEX version_id ON version (id, number);
CREATE INDEX version_until ON version (until) WHERE until IS NOT NULL;
CREATE TABLE cursor (id TEXT PRIMARY KEY, offset INTEGER NOT NULL, part INTEGER) WITHOUT ROWID;
CREATE TABLE token (name TEXT PRIMARY KEY, digest TEXT NOT NULL, scopes TEXT NOT NULL, tenant TEXT NOT NULL,
  rules TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE dead_letter (number INTEGER PRIMARY KEY AUTOINCREMENT, time INTEGER NOT NULL, owner TEXT NOT NULL,
  reason TEXT NOT NULL, event BLOB NOT NULL);
"""

_LINKS = """
CREATE TABLE origin (id TEXT PRIMARY KEY, offset INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE link (peer TEXT PRIMARY KEY, name TEXT NOT NULL, dialed INTEGER NOT NULL, since INTEGER NOT NULL,
  received INTEGER, cursor INTEGER, region BLOB) WITHOUT ROWID;
CREATE TABLE peer_filter (peer TEXT NOT NULL, key BLOB NOT NULL, tenant TEXT NOT NULL, text TEXT NOT NULL,
  PRIMARY KEY (peer, key)) WITHOUT ROWID;
"""

_PUBLICATIONS = """
ALTER TABLE subscription ADD COLUMN "on" TEXT NOT NULL DEFAULT 'events';
ALTER TABLE subscription ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
CREATE INDEX subscription_on ON subscription ("on", first) WHERE "on" != 'events';
CREATE TABLE publication (tenant TEXT NOT NULL, space TEXT NOT NULL, key TEXT NOT NULL, offset INTEGER NOT NULL,
  time INTEGER NOT NULL, state BLOB NOT NULL, PRIMARY KEY (tenant, space, key)) WITHOUT ROWID;
CREATE INDEX publication_offset ON publication (offset);
CREATE TABLE space (tenant TEXT NOT NULL, name TEXT NOT NULL, offset INTEGER NOT NULL, dimensions TEXT NOT NULL,
  PRIMARY KEY (tenant, name)) WITHOUT ROWID;
CREATE TABLE publication_pair (first INTEGER NOT NULL, key TEXT NOT NULL, due REAL, PRIMARY KEY (first, key))
  WITHOUT ROWID;
"""

_WEBHOOKS = """
CREATE INDEX subscription_sink ON subscription (id) WHERE protocol = 'HTTP';
CREATE TABLE sink_secrets (id TEXT PRIMARY KEY, offset INTEGER NOT NULL, signing TEXT NOT NULL, credential TEXT)
  WITHOUT ROWID;
CREATE TABLE webhook (id TEXT PRIMARY KEY, sink TEXT NOT NULL, consent TEXT NOT NULL, rate INTEGER, callback TEXT,
  disabled TEXT, attempts INTEGER NOT NULL, failing INTEGER, due INTEGER, until_offset INTEGER, until_part INTEGER,
  problem TEXT) WITHOUT ROWID;
CREATE UNIQUE INDEX webhook_callback ON webhook (callback) WHERE callback IS NOT NULL;
CREATE INDEX webhook_due ON webhook (due) WHERE due IS NOT NULL;
CREATE TABLE attempt (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, time INTEGER NOT NULL,
  message TEXT NOT NULL, cursor TEXT NOT NULL, events INTEGER NOT NULL, attempt INTEGER NOT NULL, status INTEGER,
  seconds REAL NOT NULL, problem TEXT);
CREATE INDEX attempt_id ON attempt (id, number);
CREATE TABLE undelivered (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, time INTEGER NOT NULL,
  message TEXT NOT NULL, after TEXT NOT NULL, until TEXT NOT NULL, events INTEGER NOT NULL, attempts INTEGER NOT NULL,
  problem TEXT NOT NULL);
CREATE INDEX undelivered_id ON undelivered (id, number);
"""

_SCHEMA = """
CREATE TABLE schema_extension (offset INTEGER PRIMARY KEY, definition BLOB NOT NULL, "by" TEXT NOT NULL);
CREATE TABLE schema_base (one INTEGER PRIMARY KEY CHECK (one = 1), digest TEXT NOT NULL, document BLOB NOT NULL);
"""

# An ended version keeps its text, dialect, rules and topic: events below its end may have to be matched yet. Versions
# that ended in a store of format 1 have none; the log has them. All events below the watermark in `matching` are
# matched; `match_range` has the committed ranges.
_MATCHING = """
ALTER TABLE version ADD COLUMN text TEXT;
ALTER TABLE version ADD COLUMN dialect TEXT;
ALTER TABLE version ADD COLUMN rules TEXT;
ALTER TABLE version ADD COLUMN topic TEXT;
CREATE TABLE matching (one INTEGER PRIMARY KEY CHECK (one = 1), watermark INTEGER NOT NULL);
INSERT INTO matching VALUES (1, 0);
CREATE TABLE match_range (first INTEGER PRIMARY KEY, until INTEGER NOT NULL);
"""

_MONOTONIC_ATTEMPTS = """
ALTER TABLE webhook ADD COLUMN moment REAL;
ALTER TABLE webhook ADD COLUMN boot TEXT;
"""

STEPS: tuple[str, ...] = (
    _SUBSCRIPTIONS_AND_TOKENS,
    _LINKS + _PUBLICATIONS + _WEBHOOKS + _SCHEMA + _MATCHING,
    _MONOTONIC_ATTEMPTS,
)
"""Step n makes format n + 1 of format n; format 0 is an empty file. Format 3 is not released: it may still grow."""
FORMAT_VERSION = len(STEPS)


class StoreError(WhimbrelError):
    """The store cannot be used; `path` is its file."""

    def __init__(self, path: Path, sentence: str) -> None:
        self.path = str(path)
        super().__init__(f"{sentence} - at {path}")


def prepare(connection: sqlite3.Connection, path: Path, log_id: str) -> None:
    """Create the tables in an empty file. A store of another log is refused: its stamp means nothing here."""
    connection.execute("PRAGMA journal_mode = WAL")
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if (application, version) == (0, 0):
        connection.executescript(
            f"BEGIN; PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {FORMAT_VERSION};"
            f" {''.join(STEPS)} INSERT INTO fold VALUES (1, '{log_id}', 0); COMMIT;"
        )
    elif application != _APPLICATION_ID:
        raise StoreError(path, "Expected a store of the broker, but got a database of another application")
    elif version > FORMAT_VERSION:
        raise StoreError(
            path, f"Expected a store of format {FORMAT_VERSION} or older, but got {version}: a newer Whimbrel wrote it"
        )
    elif version < FORMAT_VERSION:
        _keep_former(connection, path, version)
        connection.executescript(f"BEGIN; PRAGMA user_version = {FORMAT_VERSION}; {''.join(STEPS[version:])} COMMIT;")
    (found,) = connection.execute("SELECT log FROM fold").fetchone()
    if found != log_id:
        raise StoreError(path, f"Expected the store of log {log_id}, but it belongs to log {found}")


def _keep_former(connection: sqlite3.Connection, path: Path, version: int) -> None:
    """Copy a store of an older format beside it, before it is brought forward."""
    kept = path.with_name(f"{path.name}.format-{version}")
    remove_staged(kept)
    with staged_file(kept) as staged:
        copy_database(connection, staged)
    logger.warning("%s is brought from format %d to %d; %s is a copy", path, version, FORMAT_VERSION, kept)


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """A connection to the store's file, without transactions of its own: `ro` reads, `rwc` writes and creates."""
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=30, isolation_level=None, check_same_thread=False)


def copy_database(
    source: sqlite3.Connection, target: Path, progress: Callable[[int, int, int], None] | None = None
) -> None:
    """Copy a database as `source` sees it to a new file, without a write-ahead log beside it.

    Pages are copied in steps of 8 MiB. After each of them `progress` gets a status of SQLite, the number of pages that
    are left, and the number of all.
    """
    with closing(sqlite3.connect(target)) as copy:
        source.backup(copy, pages=_STEP_PAGES, progress=progress)
        copy.execute("PRAGMA journal_mode = DELETE")


def follow_log(path: Path, log_id: str) -> None:
    """Write the new id of the log into a store that is not open."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE fold SET log = ?", (log_id,))
