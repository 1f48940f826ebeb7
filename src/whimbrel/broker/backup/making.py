"""Back up a broker's data directory while the broker runs.

The log is the truth, but entries below its floor live on in the store alone. So both are copied, as they are at one
moment: a read transaction of SQLite holds that moment while pages are copied in steps, however much is written
meanwhile. The store is opened first: it never is ahead of the log then. Lists, ids and the index are derived, and made
anew after a restore; only what subscriptions have lost by truncation is not derived, and is gathered from the lists.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import time_ns
from typing import NamedTuple, TypeAlias

import msgspec

from whimbrel.broker.backup.manifest import FILE_NAME, FORMAT_VERSION, LOG, STORE, BackupError, Manifest
from whimbrel.broker.lists import lost_keys
from whimbrel.broker.lists.run_set import lost_below
from whimbrel.broker.store.formats import connect, copy_database
from whimbrel.log import LogReader
from whimbrel.log.file import open_for_reading
from whimbrel.log.reader import state
from whimbrel.storage.atomic import remove_staged, staged_directory
from whimbrel.storage.errors import MissingIndex

_ATTEMPTS = 20

Progress: TypeAlias = Callable[[str, int, int], None]
"""Told what is copied or checked, how much of it is done, and how much there is."""


class _Moment(NamedTuple):
    """Connections to store and log, each in a read transaction, and what they hold."""

    store: sqlite3.Connection
    log: sqlite3.Connection
    id: str
    floor: int
    end: int
    stamp: int


def back_up(directory: Path, target: Path, progress: Progress | None = None, verify: bool = True) -> Manifest:
    """Copy the data in `directory` to `target`, which must not exist. With `verify` every entry is read again."""
    with staging(target) as staged:
        (staged / "log").mkdir()
        with _moment(directory) as moment:
            _copy(moment.store, staged / STORE, "store", progress)
            _copy(moment.log, staged / LOG, "log", progress)
            gather_lost(directory / "matches", staged / "matches", moment.floor)
        made = finish(staged, Manifest(FORMAT_VERSION, moment.id, *moment[3:], time_ns() // 1000, {}))
        if verify:
            check(staged, made, progress)
    return made


@contextmanager
def staging(target: Path) -> Iterator[Path]:
    """A directory beside `target` that becomes it at the end, synced, or is deleted if something fails."""
    if target.exists():
        raise BackupError(target, "Expected a new directory for the backup, but there is one")
    remove_staged(target)
    with staged_directory(target) as staged:
        (staged / "matches").mkdir()
        yield staged


def finish(staged: Path, facts: Manifest) -> Manifest:
    """Write the manifest of a backup, with the sizes of its files."""
    found = sorted(path for path in staged.rglob("*") if path.is_file())
    sizes = {str(path.relative_to(staged)): path.stat().st_size for path in found}
    made = msgspec.structs.replace(facts, sizes=sizes)
    made.save(staged)
    return made


def check(backup: Path, manifest: Manifest, progress: Progress | None = None) -> None:
    """Read a backup whole: SQLite's own check of both files, and the checksum of every entry. BackupError if not."""
    for name in (STORE, LOG):
        with closing(sqlite3.connect(f"{(backup / name).absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as opened:
            (found,) = opened.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise BackupError(backup / name, f"Expected an intact database, but SQLite says: {found}")
    count = 0
    with LogReader(backup / "log") as reader:
        if (reader.id, *reader.bounds) != (manifest.log, manifest.floor, manifest.end):
            raise BackupError(backup / LOG, f"Expected entries {manifest.floor} to {manifest.end}: see {FILE_NAME}")
        for chunk in reader.chunks(manifest.floor, manifest.end) if manifest.floor < manifest.end else ():
            count += len(chunk)
            if progress is not None:
                progress("check", count, manifest.end - manifest.floor)


@contextmanager
def _moment(directory: Path) -> Iterator[_Moment]:
    """Store and log at one moment. The store must have seen all that the log has deleted, so it may take two looks."""
    if not (directory / STORE).exists():
        raise BackupError(directory, f"Expected the data of a broker with a file {STORE}, but there is none")
    with (
        closing(connect(directory / STORE, "ro")) as store,
        closing(open_for_reading(directory / "log")) as log,
    ):
        for _ in range(_ATTEMPTS):
            store.execute("BEGIN")
            of, stamp = store.execute("SELECT log, stamp FROM fold").fetchone()
            log.execute("BEGIN")
            floor, end, id = state(log)
            if of == id and floor <= stamp <= end:
                yield _Moment(store, log, id, floor, end, stamp)
                return
            store.execute("COMMIT")
            log.execute("COMMIT")
        raise BackupError(directory, f"Expected a store between {floor} and {end} of log {id}, but got {stamp} of {of}")


def _copy(source: sqlite3.Connection, target: Path, name: str, progress: Progress | None) -> None:
    def told(_: int, left: int, total: int) -> None:
        if progress is not None:
            progress(name, total - left, total)

    copy_database(source, target, told)


def gather_lost(matches: Path, target: Path, floor: int) -> None:
    """What subscriptions have lost below the floor. Runs may be merged meanwhile; then it is done again."""
    for _ in range(_ATTEMPTS):
        try:
            lost_below(matches, floor).save(target)
            return
        except (MissingIndex, FileNotFoundError):
            continue
    raise BackupError(matches / lost_keys.FILE_NAME, "Expected runs that stay for a moment, but they were merged")
