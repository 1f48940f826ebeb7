"""The id of a log, and how it changes.

Whoever takes entries from a log remembers its id and the last offset. A log that goes back to an older state, because
it was restored from a backup, will give the same offsets to other entries: it must get another id first.
"""

from __future__ import annotations

import uuid
from contextlib import closing
from pathlib import Path

from whimbrel.log import file
from whimbrel.log.reader import state
from whimbrel.log.writer import lock_for_writing


def renew_id(directory: str | Path) -> str:
    """Give a log that nobody writes a new id, which is returned. The former one is kept for the entries below the end.

    What names the log elsewhere must follow: `whimbrel.broker.backup.restoring` does that for a broker's directory.
    """
    path = Path(directory)
    file.open_for_reading(path).close()  # MissingLog if there is none
    lock = lock_for_writing(path)
    try:
        with closing(file.open_for_writing(path)) as connection:
            made = uuid.uuid4().hex
            connection.execute("BEGIN IMMEDIATE")
            _, end, former = state(connection)
            connection.execute(file.FORMER_SCHEMA)
            connection.execute("INSERT INTO former VALUES (?, ?)", (former, end))
            connection.execute("UPDATE log SET id = ?", (made,))
            connection.execute("COMMIT")
    finally:
        lock.release()
    return made
