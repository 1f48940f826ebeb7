"""A copy of a log, made of its rows: the same id, floor, offsets, times and checksums."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from whimbrel.log import file
from whimbrel.log.reader import FormerId, Row


class LogCopy:
    """Writes a copy into a new directory, row by row. `finish` leaves one file, without a write-ahead log beside it."""

    def __init__(self, directory: Path, id: str, floor: int, former: Iterable[FormerId] = ()) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / file.FILE_NAME
        self._connection = file.open_for_writing(directory)
        self._connection.execute("PRAGMA synchronous = OFF")  # whoever copies syncs the file when it is whole
        self._connection.execute("UPDATE log SET id = ?, floor = ?", (id, floor))
        names = list(former)
        if names:
            self._connection.execute(file.FORMER_SCHEMA)
            self._connection.executemany("INSERT INTO former VALUES (?, ?)", names)

    def add(self, rows: Sequence[Row]) -> None:
        """Add rows as `LogReader.chunks` gives them."""
        self._connection.execute("BEGIN")
        self._connection.executemany(
            "INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?)",
            [(*row, file.placed(row[0], file.checksum(row[3], row[4]))) for row in rows],
        )
        self._connection.execute("COMMIT")

    def finish(self) -> None:
        """Close the copy, which is one file then."""
        self._connection.close()
        with closing(sqlite3.connect(self._path)) as whole:
            whole.execute("PRAGMA journal_mode = DELETE")
