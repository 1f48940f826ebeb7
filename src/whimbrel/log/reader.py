"""Read a log from any process of the same host, while it is written."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Self, TypeAlias

from whimbrel.log import file, match_list
from whimbrel.log.errors import BelowFloor, BeyondEnd, CorruptLog, LogClosed

_ROWS = "SELECT offset, time, kind, event, matches, checksum FROM entry"
_ONE, _RANGE = f"{_ROWS} WHERE offset = ?", f"{_ROWS} WHERE offset >= ? AND offset < ? ORDER BY offset"
_UNMATCHED = f"FROM entry WHERE kind = {file.EVENT} AND matches IS NULL AND offset >= ?"
CHUNK = 4_096
"""Entries fetched at once. It bounds how long a snapshot delays the checkpoints of SQLite."""
CHUNK_BYTES = 16 << 20
"""Bytes of events and match lists with which a chunk ends, which bounds memory."""

Row: TypeAlias = tuple[int, int, int, bytes, bytes | None]
"""An entry as stored: offset, time, kind, event, coded match list (see `match_list`)."""


class Entry(NamedTuple):
    """One entry. `time` is in microseconds since 1970 UTC; `matches` is None if it was not matched when appended."""

    offset: int
    time: int
    kind: int
    event: bytes
    matches: list[int] | None


class FormerId(NamedTuple):
    """An id that the log had: the entries below `until` were appended under it, or under one before it."""

    id: str
    until: int


class LogReader:
    """The entries of the log in `directory`, from `floor` up to but not including `end`.

    Readers and the writer never wait for each other. A reader sees only entries that are on disk: acknowledged, or
    about to be. It has its own read-only connection. Several threads may share it, which serialises them; a forked
    child must open its own.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self._connection: sqlite3.Connection | None = file.open_for_reading(self.directory)
        self._lock = threading.Lock()
        self.id: str = self._state()[2]
        self.former: list[FormerId] = former_ids(self._connection)

    @property
    def floor(self) -> int:
        """The lowest offset that can be read."""
        return self._state()[0]

    @property
    def end(self) -> int:
        """The offset that the next entry will get."""
        return self._state()[1]

    @property
    def bounds(self) -> tuple[int, int]:
        """`floor` and `end` at the same moment."""
        return self._state()[:2]

    def id_at(self, offset: int) -> str:
        """The id under which the entry at an offset was appended."""
        return next((former.id for former in self.former if offset < former.until), self.id)

    def read(self, start: int, end: int | None = None) -> Iterator[Entry]:
        """The entries with `start <= offset < end`. By default `end` is the present end of the log."""
        for offset, time, kind, event, coded in self.rows(start, end):
            try:
                matches = None if coded is None else match_list.decode(coded)
            except ValueError as error:
                raise CorruptLog(self._path, f"the match list at offset {offset} is damaged ({error})") from None
            yield Entry(offset, time, kind, event, matches)

    def rows(self, start: int, end: int | None = None) -> Iterator[Row]:
        """As `read`, with match lists as bytes."""
        for chunk in self.chunks(start, end):
            yield from chunk

    def chunks(self, start: int, end: int | None = None, size: int = CHUNK) -> Iterator[list[Row]]:
        """As `rows`, in lists of at most `size`, or fewer if their entries are long.

        Raises BelowFloor or BeyondEnd for offsets that the log does not have.
        Each chunk is read in its own snapshot, together with the floor. If the log is truncated meanwhile, the next
        chunk raises BelowFloor instead of skipping entries.
        """
        last = self.end if end is None else end
        while True:
            chunk = self._chunk(start, min(start + size, last), last)
            if chunk:
                yield chunk
            start += len(chunk)
            if start >= last:
                return

    def pick(self, offsets: Sequence[int], size: int | None = None) -> list[Row]:
        """The entries at these offsets, in their order. Costs some 5 us per entry, however long the log is.

        With `size` it stops after the entry with which the events have that many bytes.
        """
        rows: list[Row] = []
        left = size
        with self._locked() as connection:
            for offset in offsets:
                found = connection.execute(_ONE, (offset,)).fetchone()
                if found is None:
                    self._refuse(offset, *state(connection)[:2])
                rows += self._checked([found], offset, offset + 1)
                if left is not None:
                    left -= len(found[3])
                    if left <= 0:
                        break
        return rows

    @property
    def sizes(self) -> tuple[int, int]:
        """The bytes of the file that are in use, and the bytes that deleted entries have left for new ones."""
        with self._locked() as connection:
            (pages,), (free,), (size,) = (
                connection.execute(f"PRAGMA {name}").fetchone()
                for name in ("page_count", "freelist_count", "page_size")
            )
        return (pages - free) * size, free * size

    def first_since(self, time: int, end: int | None = None) -> int:
        """The first offset, up to `end`, whose entry was appended at `time` (microseconds since 1970 UTC) or later."""
        low, high = self.bounds
        high = high if end is None else min(end, high)
        while low < high:
            middle = (low + high) // 2
            try:
                is_older = self.pick([middle])[0][1] < time
            except BelowFloor as error:  # truncated meanwhile
                low = error.floor
                continue
            if is_older:
                low = middle + 1
            else:
                high = middle
        return low

    def last_of_kind(self, kind: int, start: int, end: int) -> tuple[int, bytes] | None:
        """The offset and the bytes of the last entry of a kind with `start <= offset < end`; None if there is none."""
        newest = (
            "SELECT offset, event FROM entry WHERE offset >= ? AND offset < ? AND kind = ? ORDER BY offset DESC LIMIT 1"
        )
        found = self._query(newest, (start, end, kind))
        return found[0] if found else None

    def unmatched(self, start: int, end: int) -> list[int]:
        """The offsets of events in [start, end) that were appended without a match list."""
        return [offset for (offset,) in self._query(f"SELECT offset {_UNMATCHED} AND offset < ?", (start, end))]

    def waiting(self, start: int) -> tuple[int, int] | None:
        """The first and the last event from `start` on that was appended without a match list; None if there is none.

        Costs the entries before the first and behind the last one.
        """
        first = self._query(f"SELECT offset {_UNMATCHED} ORDER BY offset LIMIT 1", (start,))
        if not first:
            return None
        last = self._query(f"SELECT offset {_UNMATCHED} ORDER BY offset DESC LIMIT 1", (start,))
        return first[0][0], last[0][0]

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _path(self) -> Path:
        return self.directory / file.FILE_NAME

    @contextmanager
    def _locked(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one thread at a time. Errors of SQLite become errors of a log."""
        with self._lock:
            if self._connection is None:
                raise LogClosed(self.directory)
            try:
                yield self._connection
            except sqlite3.Error as error:
                raise file.refusal(self._path, error) from error

    def _state(self) -> tuple[int, int, str]:
        with self._locked() as connection:
            return state(connection)

    def _query(self, statement: str, values: tuple[int, ...]) -> list[Any]:
        with self._locked() as connection:
            return connection.execute(statement, values).fetchall()

    def _chunk(self, start: int, stop: int, last: int) -> list[Row]:
        rows: list[tuple[int, int, int, bytes, bytes | None, int]] = []
        left = CHUNK_BYTES
        with self._locked() as connection:
            connection.execute("BEGIN")
            try:
                floor, end, _ = state(connection)
                for row in connection.execute(_RANGE, (start, stop)):
                    rows.append(row)
                    left -= sum(len(value) for value in row[3:5] if isinstance(value, bytes))
                    if left <= 0:
                        stop = start + len(rows)
                        break
            finally:
                connection.execute("COMMIT")
        if start < floor or last > end or start > end:
            self._refuse(start if start < floor else max(last, start), floor, end)
        return self._checked(rows, start, stop)

    def _refuse(self, offset: int, floor: int, end: int) -> NoReturn:
        """Raise the error for an offset without an entry."""
        if offset < floor:
            raise BelowFloor(self.directory, offset, floor)
        if offset >= end:
            raise BeyondEnd(self.directory, offset, end)
        raise CorruptLog(self._path, f"the entry at offset {offset} is gone")

    def _checked(self, rows: list[tuple[int, int, int, bytes, bytes | None, int]], start: int, stop: int) -> list[Row]:
        checked: list[Row] = []
        expected = start
        for offset, time, kind, event, matches, checksum in rows:
            if offset != expected:
                break
            try:
                is_intact = file.placed(offset, file.checksum(event, matches)) == checksum
            except TypeError:  # damage may change the type of a value
                is_intact = False
            if not is_intact:
                raise CorruptLog(self._path, f"the entry at offset {offset} is damaged")
            checked.append((offset, time, kind, event, matches))
            expected += 1
        if expected < stop:
            raise CorruptLog(self._path, f"the entry at offset {expected} is gone")
        return checked


def state(connection: sqlite3.Connection) -> tuple[int, int, str]:
    """Floor, end and id of a log."""
    floor, newest, id = connection.execute("SELECT floor, (SELECT max(offset) FROM entry), id FROM log").fetchone()
    return floor, floor if newest is None else max(floor, newest + 1), id


def former_ids(connection: sqlite3.Connection) -> list[FormerId]:
    """The ids that a log had, oldest first."""
    if connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'former'").fetchone() == (0,):
        return []
    return [FormerId(*row) for row in connection.execute("SELECT id, until FROM former ORDER BY until, rowid")]
