"""The durable log: events as exact bytes with their match lists, in one order, on one host.

One process writes (`LogWriter`), any number read (`LogReader`). An acknowledged entry survives kill -9 and, if the disk
keeps what it has synced, loss of power. Retention is by offset: `truncate` raises the floor for good.

writer, checkpointer             appends with group commit; copies what was committed into the database beside it
reader                           reads while the log is written
file, identity, copying          the SQLite file; the id of a log, and how it changes; a copy of its rows
match_list                       a list of numbers as bytes
match_commit                     the match lists of a range, brought later, and how far a log is matched
matched_numbers, version_ranges  match events of a log; keep the pairs that hold at their offsets
"""

from whimbrel.log.errors import (
    BelowFloor,
    BeyondEnd,
    CorruptLog,
    ForeignLog,
    LogClosed,
    LogError,
    LogFailed,
    LogLocked,
    MissingLog,
    NewerLog,
)
from whimbrel.log.file import EVENT
from whimbrel.log.identity import renew_id
from whimbrel.log.reader import Entry, FormerId, LogReader
from whimbrel.log.writer import LogWriter

__all__ = [
    "EVENT",
    "BelowFloor",
    "BeyondEnd",
    "CorruptLog",
    "Entry",
    "ForeignLog",
    "FormerId",
    "LogClosed",
    "LogError",
    "LogFailed",
    "LogLocked",
    "LogReader",
    "LogWriter",
    "MissingLog",
    "NewerLog",
    "renew_id",
]
