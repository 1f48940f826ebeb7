"""The format of the store's file: made, brought forward from an older one after a copy, or refused if it is newer."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from whimbrel.broker.store.tables import FORMAT_VERSION, STEPS
from whimbrel.model.errors import WhimbrelError
from whimbrel.storage.atomic import remove_staged, staged_file

_APPLICATION_ID = 0x57484D42  # "WHMB"
_STEP_PAGES = 2_048

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
