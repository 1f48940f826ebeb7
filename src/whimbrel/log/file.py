"""The file of a log: one SQLite database in WAL mode, `log.sqlite` in the log's directory.

    log     one row: a random `id`, the time of creation, and the `floor`, the lowest offset that can be read
    entry   offset (from 0, no gaps above the floor), time of the append in microseconds since 1970 UTC, kind,
            the event's exact bytes, its match list (NULL: not matched when it was appended), and a checksum

`kind` 0 is an event. Other kinds belong to the owner of the log, for other changes that must be ordered with events.
SQLite guards pages until they are in the file; the checksum guards the bytes from then on.
"""

from __future__ import annotations

import sqlite3
import uuid
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import time_ns
from urllib.parse import quote

from whimbrel.log.errors import CorruptLog, ForeignLog, LogError, MissingLog, NewerLog

FORMAT_VERSION = 1
FILE_NAME = "log.sqlite"
EVENT = 0

_APPLICATION_ID = 0x57484D4C  # "WHML", in the field in which SQLite files name their application
_SCHEMA = (
    "CREATE TABLE log (one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL, created INTEGER NOT NULL,"
    " floor INTEGER NOT NULL)",
    "CREATE TABLE entry (offset INTEGER PRIMARY KEY, time INTEGER NOT NULL, kind INTEGER NOT NULL,"
    " event BLOB NOT NULL, matches BLOB, checksum INTEGER NOT NULL)",
)
FORMER_SCHEMA = "CREATE TABLE IF NOT EXISTS former (id TEXT PRIMARY KEY, until INTEGER NOT NULL)"
"""Made with the first change of a log's id: the entries below `until` were appended under that id."""
_BUSY_SECONDS = 30.0  # a reader waits only while another process recovers the file after a crash


def open_for_writing(directory: Path) -> sqlite3.Connection:
    """A read-write connection; creates the log if it is missing. The caller must hold the writer's lock."""
    path = directory / FILE_NAME
    with _connection(path, "rwc") as connection:
        connection.execute("PRAGMA synchronous = FULL")
        if not _is_log(path, connection):
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.execute("INSERT INTO log VALUES (1, ?, ?, 0)", (uuid.uuid4().hex, time_ns() // 1000))
            connection.execute("COMMIT")
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise LogError(path, f"Expected SQLite to keep a write-ahead log here, but it chose {mode!r}")
    return connection


def open_for_reading(directory: Path) -> sqlite3.Connection:
    """A read-only connection to an existing log; MissingLog if there is none."""
    path = directory / FILE_NAME
    if not path.exists():
        raise MissingLog(directory)
    with _connection(path, "ro") as connection:
        if not _is_log(path, connection):
            raise MissingLog(directory)
    return connection


def checksum(event: bytes, matches: bytes | None) -> int:
    """The part of an entry's checksum that does not depend on its offset."""
    return zlib.crc32(event) if matches is None else zlib.crc32(matches, zlib.crc32(event) ^ 1)


def placed(offset: int, unplaced: int) -> int:
    """The checksum of an entry at its offset, so that an entry at another place is noticed."""
    return (unplaced + offset) & 0xFFFFFFFF


def refusal(path: Path, error: sqlite3.Error) -> LogError:
    """Translate an error of SQLite while opening or reading."""
    code = getattr(error, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_NOTADB:
        return ForeignLog(path, "a file that is not an SQLite database")
    if code is not None and code & 0xFF == sqlite3.SQLITE_CORRUPT:
        return CorruptLog(path, f"SQLite says: {error}")
    return LogError(path, f"Expected to use the log, but SQLite says: {error}")


@contextmanager
def _connection(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """A connection that stays open, unless the block fails. Errors of SQLite become errors of a log."""
    uri = f"file:{quote(str(path.absolute()))}?mode={mode}"
    with ExitStack() as on_error:
        try:
            connection = sqlite3.connect(
                uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            on_error.callback(connection.close)
            yield connection
        except sqlite3.Error as error:
            raise refusal(path, error) from error
        on_error.pop_all()


def _is_log(path: Path, connection: sqlite3.Connection) -> bool:
    """Whether the file is a log; False for an empty database, which a crash during creation leaves behind."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if application == 0 and version == 0 and not tables:
        return False
    if application != _APPLICATION_ID:
        raise ForeignLog(path, "an SQLite database of another application")
    if version > FORMAT_VERSION:
        raise NewerLog(path, version, FORMAT_VERSION)
    if not {"log", "entry"} <= tables or connection.execute("SELECT count(*) FROM log").fetchone() != (1,):
        raise CorruptLog(path, "its tables are not those of a log")
    return True
