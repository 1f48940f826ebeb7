"""The index version of each micro-batch: recorded before it is used, so that a replay uses the same one.

    <index>/batches/<query id>/<batch id>.json    one per micro-batch, created if absent, never changed; of a query of
                                                  `transitions`, one per micro-batch that takes up a version
    <index>/batches/lock                          shared by tasks that record, exclusive while versions are deleted

The first task of a batch records the newest version. All other tasks of the batch, on other hosts, in retries and in
replays after a restart, read that record. Thus new subscriptions count from the next micro-batch on, and no batch mixes
versions. A record is on disk before its version is used.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from whimbrel.pipeline.errors import BadOption, BadRecord, NoBatch, OtherIndex, check_integer
from whimbrel.pipeline.index.store import IndexStore
from whimbrel.storage.atomic import create_file, make_directory
from whimbrel.storage.lock import locked

RECORDS_KEPT = 100
"""Records that are kept of a query: as many batches as Spark keeps in a checkpoint, so that it can be rolled back."""

_FORMAT = "whimbrel batch"


class _Record(msgspec.Struct, frozen=True):
    format: str
    index_version: int


@dataclass(frozen=True, slots=True)
class BatchVersion:
    """Called in a task: gives the index version of the task's micro-batch.

    A query that is past its first batch must have a record at this index. If it has none, its checkpoint was made with
    another index: an error, unless `adopt` says that this is intended.
    """

    path: Path
    adopt: bool = False

    def __call__(self) -> int:
        """The version; NoBatch outside of a micro-batch."""
        query, batch = _batch_of_task()
        return version_of_batch(IndexStore(self.path), query, batch, self.adopt)


def version_of_batch(store: IndexStore, query: str, batch: int, adopt: bool = False) -> int:
    """The index version recorded for a batch; if there is none yet, the newest version is recorded first."""
    record = _record(store, query, batch)
    try:
        return _read(record)
    except FileNotFoundError:
        _publish(store, record, query, batch, adopt)
        return _read(record)


def hold_version(path: Path, version: int) -> None:
    """Record, in a task, that its query uses this version from its micro-batch on: `gc` keeps it until the next one."""
    store = IndexStore(path)
    record = _record(store, *_batch_of_task())
    if record.exists():
        return
    with _lock(store, shared=True):
        store.manifest(version)  # MissingVersion if it was deleted meanwhile
        _write(record, version)


def recorded(store: IndexStore) -> dict[str, list[tuple[int, int]]]:
    """For each query the (batch, index version) pairs on record, ascending."""
    found: dict[str, list[tuple[int, int]]] = {}
    folder = _folder(store)
    queries = sorted(entry.name for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []
    for query in queries:
        pairs = [(int(record.stem), _read(record)) for record in (folder / query).glob("[0-9]*.json")]
        found[query] = sorted(pairs)
    return found


@dataclass(frozen=True, slots=True)
class GarbageReport:
    """What `gc` did: the versions `deleted` and `kept`, and by query the versions that its batches `named`."""

    deleted: tuple[int, ...]
    kept: tuple[int, ...]
    named: dict[str, tuple[int, ...]]


def gc(path: str | os.PathLike[str], *, keep: int = 1, batches: int = 2, forget: Collection[str] = ()) -> GarbageReport:
    """Delete index versions that nobody needs any more, with the shards that only they name.

    The newest `keep` versions are kept, and those that the newest `batches` batches of each query name. Spark commits
    a batch before it starts the next one, so only the newest batch of a query can be uncommitted, and the one before
    it is kept so that a committed batch can be replayed by hand. (Asynchronous progress tracking may leave more
    uncommitted: raise `batches`. Queries of `transitions` need 2: the version that they leave, and the one that they
    take up.) A query that is gone for good holds on to its versions until it is named in
    `forget`, which deletes its records; replaying it afterwards is an error.

    Streams can run meanwhile: a batch records its version before or after the collection, not during it. Jobs that
    read a version by number are not known here: keep enough versions for the longest of them.
    """
    check_integer("keep", keep, 1)
    check_integer("batches", batches, 1)
    if isinstance(forget, str) or not all(isinstance(query, str) for query in forget):
        raise BadOption("forget", forget, "ids of queries")
    store = IndexStore(path)
    store.newest()  # an error before any file is made, if there is no version
    with store.lock(), _lock(store):
        for query in forget:
            folder = _folder(store) / query
            if not folder.is_dir() or folder.parent != _folder(store):
                raise BadOption("forget", query, f"a query of {', '.join(recorded(store)) or 'none'}")
            shutil.rmtree(folder)
        for query, pairs in recorded(store).items():
            for batch, _ in pairs[:-RECORDS_KEPT]:
                _record(store, query, batch).unlink()
        named = {
            query: tuple(sorted({version for _, version in pairs[-batches:]}))
            for query, pairs in recorded(store).items()
        }
        held = {version for versions in named.values() for version in versions}
        deleted = store.collect(held | set(store.versions()[-keep:]))
        return GarbageReport(tuple(deleted), tuple(store.versions()), named)


def _batch_of_task() -> tuple[str, int]:
    """The query and the number of the micro-batch of this task; NoBatch outside of one."""
    from pyspark import TaskContext

    context = TaskContext.get()
    query = context.getLocalProperty("sql.streaming.queryId") if context else None
    batch = context.getLocalProperty("streaming.sql.batchId") if context else None
    if query is None or batch is None:
        raise NoBatch
    return query, int(batch)


def _folder(store: IndexStore) -> Path:
    return store.path / "batches"


def _record(store: IndexStore, query: str, batch: int) -> Path:
    return _folder(store) / query / f"{batch:010}.json"


def _write(record: Path, version: int) -> None:
    """Record a version, unless another task has done it."""
    make_directory(record.parent)
    create_file(record, msgspec.json.encode(_Record(_FORMAT, version)))


def _publish(store: IndexStore, record: Path, query: str, batch: int, adopt: bool) -> None:
    """Record the newest version for a batch, unless another task has done it."""
    store.newest()  # an error before any file is made, if there is no version
    with _lock(store, shared=True):
        folder = record.parent
        if batch > 0 and not adopt and not folder.is_dir():
            raise OtherIndex(store.path, query, batch)
        _write(record, store.newest())
        _record(store, query, batch - RECORDS_KEPT).unlink(missing_ok=True)


def _read(record: Path) -> int:
    text = record.read_bytes()
    try:
        found = msgspec.json.decode(text, type=_Record)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise BadRecord(record, f"it cannot be read ({error})") from None
    if found.format != _FORMAT:
        raise BadRecord(record, f"it is a {found.format!r}")
    return found.index_version


def _lock(store: IndexStore, *, shared: bool = False) -> AbstractContextManager[None]:
    """Shared by tasks that record, exclusive while versions are deleted."""
    make_directory(_folder(store))
    return locked(_folder(store) / "lock", shared=shared)
