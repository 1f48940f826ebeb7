"""The format of the store's file: made, brought forward from an older one after a copy, or refused if it is newer."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from pathlib import Path

from whimbrel.broker.store.tables import FORMAT_VERSION, STEPS
from whimbrel.model.errors import WhimbrelError
from whimbrel.storage.atomic import sync

_APPLICATION_ID = 0x57484D42  # "WHMB"

logger = logging.getLogger("whimbrel.broker")


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
    staged = kept.with_name(f".{kept.name}.tmp")
    staged.unlink(missing_ok=True)
    with closing(sqlite3.connect(staged)) as copy:
        connection.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")
    sync(staged)
    staged.rename(kept)
    sync(kept.parent)
    logger.warning("%s is brought from format %d to %d; %s is a copy", path, version, FORMAT_VERSION, kept)


def follow_log(path: Path, log_id: str) -> None:
    """Write the new id of the log into a store that is not open."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE fold SET log = ?", (log_id,))
