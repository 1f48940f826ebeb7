"""Compiling one bucket on an executor: from rows of text to a shard in the store.

The new shard holds the rows and nothing else, whatever the old one held. The old one only saves work: a bucket that has
not changed keeps it, and one that has changed a little gets the difference, as dead rows and a small new segment,
beside segments that are hard links to the old files.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from whimbrel.engine.index import Index
from whimbrel.engine.live.directory import MANIFEST
from whimbrel.engine.loader import RowNumbers, load
from whimbrel.pipeline.index.store import ID_TYPES, IndexStore, Shard
from whimbrel.pipeline.index.workers import open_shard
from whimbrel.storage.errors import SavedIndexError

MOST_CHANGED = 0.25
"""The share of an index's rows that may be dead or new before it is compiled as a whole."""
MOST_SEGMENTS = 4
"""Segments of a shard, at most: each event searches all of them."""


class BucketOutcome(msgspec.Struct, frozen=True):
    """What the compile of a bucket did; `shard` is None if no subscription is left."""

    bucket: int
    shard: Shard | None
    attributes: list[str]
    added: int
    removed: int
    replaced: int
    unchanged: int
    rejected: int
    rejects: str | None


@dataclass(slots=True)
class RejectedRows:
    """Rows that were rejected, with the reasons."""

    schema: pa.Schema
    tables: list[pa.Table] = field(default_factory=list)

    def add(self, rows: pa.Table, messages: Sequence[str]) -> None:
        """Reject rows, each for its reason."""
        columns = [rows["id"], rows["filter"], pa.array(messages, pa.string())]
        self.tables.append(pa.Table.from_arrays(columns, self.schema.names).cast(self.schema))

    def write(self, store: IndexStore) -> tuple[int, str | None]:
        """Write them to a file of the store and return their number and its name; None if there are none."""
        table = pa.concat_tables([self.schema.empty_table(), *self.tables])
        if not len(table):
            return 0, None
        name = f"{secrets.token_hex(16)}.parquet"
        path = store.rejects_path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
        return len(table), name


def compile_bucket(
    store: IndexStore, bucket: int, rows: pa.Table, old: Shard | None, kind: str, sample: pa.Table | None
) -> BucketOutcome:
    """Make the shard of a bucket from its rows: id, filter, dialect, each of which may be null."""
    rejects = RejectedRows(pa.schema({"id": ID_TYPES[kind][0], "text": pa.string(), "message": pa.string()}))
    rows = _distinct(_complete(_in_utf8(rows, rejects), rejects), rejects)
    held = _held(store, old)
    changed, gone = (rows, set()) if held is None else _difference(held.subscriptions(), rows)
    if held is None or _is_large_change(held, len(gone), changed.num_rows):
        index, origin = Index(), None
        if sample is not None:
            index.analyze(sample)
        bad = _add(index, rows, rejects)
    else:
        assert old is not None
        origin = store.shard_path(old.name)
        index = Index.open(origin, verify=False)  # the one in the cache is for reading
        for id in gone:
            index.remove(id)
        bad = _add(index, changed, rejects)
    new = set(changed["id"].to_pylist()) - bad
    if held is not None and not gone and not new:
        shard = old
    else:
        shard = _saved(store, bucket, index, origin) if len(index) else None
    rejected, file = rejects.write(store)
    return BucketOutcome(
        bucket=bucket,
        shard=shard,
        attributes=sorted(index.attributes()),
        added=len(new - gone),
        removed=len(gone - new),
        replaced=len(gone & new),
        unchanged=rows.num_rows - changed.num_rows,
        rejected=rejected,
        rejects=file,
    )


def _in_utf8(rows: pa.Table, rejects: RejectedRows) -> pa.Table:
    """The rows whose texts are UTF-8, which Arrow requires and Spark does not ensure."""
    try:
        rows.validate(full=True)
        return rows
    except pa.ArrowInvalid:
        pass
    bad, columns = np.zeros(rows.num_rows, bool), []
    for column in rows.columns:
        if pa.types.is_integer(column.type):
            columns.append(column)
            continue
        cells = column.cast(pa.large_binary()).to_pylist()
        texts = [None if cell is None else cell.decode(errors="replace") for cell in cells]
        bad |= [text is not None and text.encode() != cell for text, cell in zip(texts, cells, strict=True)]
        columns.append(pa.chunked_array([texts], pa.string()))
    shown = pa.table(columns, rows.schema.names).filter(pa.array(bad))
    rejects.add(shown, ["Expected text in UTF-8, but got other bytes"] * shown.num_rows)
    return rows.filter(pa.array(~bad))


def _complete(rows: pa.Table, rejects: RejectedRows) -> pa.Table:
    """The rows that have an id and a filter; a missing dialect is SQL."""
    for column, what in (("id", "an id"), ("filter", "a filter")):
        missing = rows[column].is_null()
        if pc.any(missing).as_py():
            bad = rows.filter(missing)
            rejects.add(bad, [f"Expected {what}, but got null"] * bad.num_rows)
            rows = rows.filter(pc.invert(missing))
    return rows.set_column(2, "dialect", pc.fill_null(rows["dialect"], "sql"))


def _distinct(rows: pa.Table, rejects: RejectedRows) -> pa.Table:
    """One row for each id, in order of ids.

    Of equal rows one stays. If rows of one id differ, all of them are rejected, because none can be preferred.
    """
    rows = rows.sort_by([("id", "ascending"), ("filter", "ascending"), ("dialect", "ascending")]).combine_chunks()
    if rows.num_rows < 2:
        return rows
    same = np.concatenate([[False], _equal(rows["id"].slice(1), rows["id"].slice(0, rows.num_rows - 1))])
    if not same.any():
        return rows
    equal = same.copy()
    for name in ("filter", "dialect"):
        equal[1:] &= _equal(rows[name].slice(1), rows[name].slice(0, rows.num_rows - 1))
    group = np.cumsum(~same) - 1
    clashing = np.zeros(group[-1] + 1, bool)
    clashing[group[same & ~equal]] = True
    sizes = np.bincount(group)
    clashes = clashing[group]
    for chosen, message in (
        (clashes, "Expected one subscription of this id, but got {} different ones: none is taken"),
        (equal & ~clashes, "Expected one subscription of this id, but got {} equal ones: one is taken"),
    ):
        counts = sizes[group[chosen]].tolist()
        rejects.add(rows.filter(pa.array(chosen)), [message.format(f"{count:,}") for count in counts])
    return rows.filter(pa.array(~(clashes | equal)))


def _held(store: IndexStore, old: Shard | None) -> Index | None:
    """The old shard; None if there is none, or if it is damaged: then everything is compiled."""
    if old is None:
        return None
    try:
        return open_shard(store, old.name)
    except SavedIndexError:
        return None


def _difference(held: pa.Table, rows: pa.Table) -> tuple[pa.Table, set[int | str]]:
    """The rows that are new or changed, and the ids of the index whose rows are gone or changed."""
    at = pc.index_in(rows["id"].combine_chunks(), held["id"].combine_chunks())
    there = np.asarray(at.is_valid())
    places = np.asarray(at.fill_null(0))[there]
    kept = there.copy()
    found = rows.filter(pa.array(there))
    old = held.take(places)
    kept[there] = _equal(old["filter"], found["filter"].cast(pa.large_string())) & _equal(
        old["dialect"].cast(pa.string()), found["dialect"]
    )
    gone = np.ones(held.num_rows, bool)
    gone[places[kept[there]]] = False
    return rows.filter(pa.array(~kept)), set(held["id"].filter(pa.array(gone)).to_pylist())


def _equal(left: pa.ChunkedArray, right: pa.ChunkedArray) -> np.ndarray:
    return np.asarray(pc.equal(left, right).combine_chunks(), bool)


def _is_large_change(held: Index, removed: int, added: int) -> bool:
    """Whether dead and new rows together would be more than `MOST_CHANGED` of all rows."""
    rows = len(RowNumbers(held)) + added
    dead = rows - (len(held) + added - removed)
    return dead + added > MOST_CHANGED * rows


def _add(index: Index, rows: pa.Table, rejects: RejectedRows) -> set[int | str]:
    """Add the rows whose filters are valid, and return the ids of the others."""
    refused = load(index, rows)
    bad = rows.take(pa.array([reject.row for reject in refused], pa.int64()))
    rejects.add(bad, [str(reject.error) for reject in refused])
    return set(bad["id"].to_pylist())


def _saved(store: IndexStore, bucket: int, index: Index, origin: Path | None) -> Shard:
    """Save an index under its content's name; files that it shares with `origin` are links."""
    if index.segments > MOST_SEGMENTS:
        index.merge()
    folder = store.scratch()
    try:
        if origin is not None:
            for file in origin.iterdir():
                if file.name != MANIFEST:
                    os.link(file, folder / file.name)
        index.save(folder)
        name, size = store.adopt(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Shard(bucket, name, len(index), size)
