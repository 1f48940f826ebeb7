"""Send a backup of a broker that runs, from inside of it: no more is stored here than a copy of the store."""

from __future__ import annotations

import secrets
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from time import time_ns

from whimbrel.broker.backup.frames import FRAME_ROWS, PIECE_BYTES, frame
from whimbrel.broker.backup.making import gather_lost
from whimbrel.broker.backup.manifest import FORMAT_VERSION, STORE, Manifest
from whimbrel.broker.lists import lost_keys
from whimbrel.broker.service.opening import STAGED_BACKUP
from whimbrel.broker.service.stamps import FoldStamps, Lease
from whimbrel.broker.store.formats import connect, copy_database
from whimbrel.log import LogReader
from whimbrel.storage.atomic import remove


def send(directory: Path, log: LogReader, stamps: FoldStamps) -> Generator[bytes, None, None]:
    """The frames of a backup. A lease keeps entries until they are sent, while the receiver reads once a minute."""
    staged = directory / f"{STAGED_BACKUP}{secrets.token_hex(4)}"
    staged.mkdir()
    lease = stamps.lease(log.floor)
    try:
        stamp = _copy_store(directory / STORE, staged / STORE, lease)
        floor, end = log.bounds
        gather_lost(directory / "matches", staged, floor)
        facts = Manifest(FORMAT_VERSION, log.id, floor, end, stamp, time_ns() // 1000, {})
        yield frame("facts", {"manifest": facts, "former": log.former})
        for name, path in (("store", staged / STORE), ("lost", staged / lost_keys.FILE_NAME)):
            with path.open("rb") as file:
                while piece := file.read(PIECE_BYTES):
                    lease.move(floor)
                    yield frame(name, piece)
        for chunk in log.chunks(floor, end, FRAME_ROWS) if floor < end else ():
            lease.move(chunk[0][0])
            yield frame("log", chunk)
        yield frame("end", None)
    finally:
        lease.end()
        remove(staged)


def _copy_store(store: Path, target: Path, lease: Lease) -> int:
    """Copy the store as it is, and return its stamp. The lease is kept however long that takes."""
    with closing(connect(store, "ro")) as source:
        source.execute("BEGIN")
        (stamp,) = source.execute("SELECT stamp FROM fold").fetchone()
        copy_database(source, target, lambda *_: lease.renew())
    return int(stamp)
