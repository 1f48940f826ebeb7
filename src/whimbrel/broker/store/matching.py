"""Matching in the store: versions of subscriptions with their ranges, and how far events are matched."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import msgspec

from whimbrel.log.match_commit import MatchCommit

END_VERSION = (
    'UPDATE version SET until = ?, (text, dialect, rules, topic) = (SELECT text, dialect, rules, "on"'
    " FROM subscription s WHERE s.id = version.id AND s.number = version.number)"
    " WHERE id = ? AND number < ? AND until IS NULL"
)
"""Ends the versions of a subscription below a number. Each keeps its filter: events below its end may wait for it."""

_HELD = (
    "FROM version v LEFT JOIN subscription s USING (id, number) WHERE coalesce(v.topic, s.\"on\", 'events') = 'events'"
)


class StoredVersion(NamedTuple):
    """A version of a subscription on events, ended or not: its filter holds for offsets from `number` to below `until`.

    `text`, `dialect` and `rules` are None of one that ended in a store of format 1; the log has them.
    """

    number: int
    until: int | None
    text: str | None
    dialect: str | None
    rules: str | None  # a JSON object


class MatchingTables:
    """The part of a store that is about matching; it uses the store's connections. Any thread may call its methods."""

    def __init__(
        self,
        rows: Callable[[str, Sequence[object]], list[Any]],
        transaction: Callable[[], AbstractContextManager[sqlite3.Connection]],
    ) -> None:
        self._rows = rows
        self._transaction = transaction

    def overlapping(self, first: int, until: int, since: int, after: int, limit: int) -> list[StoredVersion]:
        """A page of versions with numbers above `after` that overlap [first, until), in the order of their numbers.

        It has only versions that began or ended at `since` or later.
        """
        rows = self._rows(
            "SELECT v.number, v.until, coalesce(v.text, s.text), coalesce(v.dialect, s.dialect),"
            f" coalesce(v.rules, s.rules) {_HELD} AND v.number > ? AND v.number < ?"
            " AND (v.until IS NULL OR v.until > ?) AND (v.number >= ? OR v.until >= ?) ORDER BY v.number LIMIT ?",
            (after, until, first, since, since, limit),
        )
        return [StoredVersion(*row) for row in rows]

    def ends(self, numbers: Sequence[int]) -> list[tuple[int, int | None]]:
        """The (number, until) pairs of the versions among these numbers."""
        given = msgspec.json.encode(numbers).decode()
        return self._rows(
            f"SELECT v.number, v.until {_HELD} AND v.number IN (SELECT value FROM json_each(?))", (given,)
        )

    @property
    def watermark(self) -> int:
        """Every event below this offset is matched; there may be more."""
        return int(self._rows("SELECT watermark FROM matching", ())[0][0])

    def move_watermark(self, offset: int) -> None:
        """Note that every event below this offset is matched."""
        with self._transaction() as connection:
            connection.execute("UPDATE matching SET watermark = max(watermark, ?)", (offset,))

    def range_from(self, first: int) -> int | None:
        """Where the committed range that begins at `first` ends; None if there is none."""
        found = self._rows("SELECT until FROM match_range WHERE first = ?", (first,))
        return int(found[0][0]) if found else None


def apply_commit(connection: sqlite3.Connection, commit: MatchCommit) -> None:
    """Apply a commit of match lists."""
    connection.execute("INSERT OR IGNORE INTO match_range VALUES (?, ?)", (commit.first, commit.until))
    connection.execute("UPDATE matching SET watermark = max(watermark, ?)", (commit.until,))
