"""The stateful operator: the rows of a bucket in, its transitions out, its state in Spark's state store.

The store has of each bucket

    meta    one value: `BucketMeta`
    base    one value: the first part, states as an Arrow stream
    delta   a list: the other parts, states that changed since, one for each micro-batch
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark import SparkFiles
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from whimbrel.pipeline.index.batches import hold_version
from whimbrel.pipeline.spark.transfer import ColumnTransfer
from whimbrel.pipeline.stages.transitions import worker_cache
from whimbrel.pipeline.stages.transitions.update_cells import read_cells
from whimbrel.pipeline.stages.transitions.worker_cache import CachedBucket
from whimbrel.publications.publications import Publications, table_from_bytes, table_to_bytes
from whimbrel.publications.transition_rules import TransitionRules
from whimbrel.publications.updates import KEY, UpdateFormat

CONTROL, CELL = "version", "content"
"""The columns of input rows beside the bucket: a new version of the index, or updates."""


@dataclass(frozen=True)
class TransitionsJob:
    """A call of `transitions`, as it is sent to workers. `name` is unique: workers cache buckets by it."""

    name: str
    index: Path
    id_kind: str
    format: UpdateFormat
    transfer: ColumnTransfer
    rules: TransitionRules
    has_time: bool
    """Whether dwell follows a column of times and not the clock."""
    timestamps: tuple[str, ...]

    @property
    def has_timers(self) -> bool:
        """Whether publications may leave without an update."""
        return bool(self.rules.dwell)


class BucketMeta(msgspec.Struct, frozen=True, array_like=True):
    """All that is stored of a bucket except states.

    Every write makes a new token. A cached bucket (`worker_cache`) with another token is out of date: its batch failed,
    or a later batch ran on another worker.
    """

    version: int
    token: str
    parts: list[str]
    """The tokens of the parts, the base first."""
    pairs: list[tuple[int | str, int | str, float | None]]
    """Remembered pairs: key, subscription, and when it leaves if it is out."""
    timer: int | None
    """When Spark's timer fires, in milliseconds."""
    now: float | None


class TransitionsProcessor(StatefulProcessor):
    """Called by Spark for the buckets of a task, one after the other."""

    def __init__(self, job: TransitionsJob) -> None:
        self._job = job

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._meta = handle.getValueState("meta", "content binary")
        self._base = handle.getValueState("base", "content binary")
        self._delta = handle.getListState("delta", "content binary")
        job = self._job
        self._open_version = worker_cache.version_opener(job.name, job.index, job.id_kind, job.transfer, job.timestamps)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Take the rows of a micro-batch in: first a new version of the index, then updates."""
        number = int(key[0])
        bucket, timer = self._open(number)
        publications = bucket.publications
        control, cells, found = 0, [], []
        for frame in rows:
            control = max(control, int(frame[CONTROL].max()))
            cells += [cell for cell in frame[CELL] if cell is not None]
        by_clock = self._job.has_timers and not self._job.has_time
        now = timerValues.getCurrentProcessingTimeInMs() / 1_000 if by_clock else 0.0
        if control:
            hold_version(self._job.index, control)
            found.append(publications.change_version(control, now))
        if cells:
            updates = read_cells(cells, self._job.format.updates)
            found.append(publications.apply(updates, now))
        self._write(number, bucket, timer)
        if found:
            yield _frame(pa.concat_tables(found), publications.version)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Make the publications leave whose dwell is over."""
        number = int(key[0])
        bucket, timer = self._open(number)
        fired = expiredTimerInfo.getExpiryTimeInMs()
        found = bucket.publications.advance(fired / 1_000)
        self._write(number, bucket, None if timer is not None and timer <= fired else timer)
        yield _frame(found, bucket.publications.version)

    def handleInitialState(self, key: Any, initialState: pd.DataFrame, timerValues: TimerValues) -> None:  # noqa: N802, N803
        """Begin with publications that another query has left."""
        number = int(key[0])
        bucket, timer = self._open(number)
        publications = bucket.publications
        states = [table_from_bytes(content) for content in initialState["content"]]
        publications.take_over(int(initialState["version"].max()), pa.concat_tables(states))
        remembered = publications.remembered
        for state, content in zip(states, initialState["pairs"], strict=True):
            own = state[KEY][0].as_py()
            now, pairs = msgspec.msgpack.decode(content)
            remembered.pairs.restore((id, own, due) for id, due in pairs)
            remembered.now = remembered.now if now is None else max(remembered.now, now)
        self._write(number, bucket, timer)

    def _open(self, number: int) -> tuple[CachedBucket, int | None]:
        """The bucket as the state store has it, and its timer."""
        bucket = worker_cache.take_bucket(self._job.name, number)
        stored = self._meta.get()
        if stored is None:
            return self._new(), None
        meta = msgspec.msgpack.decode(stored[0], type=BucketMeta)
        if bucket is None or bucket.token != meta.token:
            bucket = self._refreshed(bucket, meta)
        return bucket, meta.timer

    def _refreshed(self, cached: CachedBucket | None, meta: BucketMeta) -> CachedBucket:
        """Return the stored bucket: parts in the cache, then on the disk. If one is missing, read the state store."""
        bucket, parts = cached, meta.parts
        if bucket is None or bucket.publications.version != meta.version or bucket.parts != parts[: len(bucket.parts)]:
            bucket = self._new()
        bound = len(self._open_version(meta.version))
        found = [worker_cache.read_part(self._folder, token, bound) for token in meta.parts[len(bucket.parts) :]]
        if None in found:
            bucket = self._new()
            base = self._base.get()
            contents = [] if base is None else [base[0]]
            contents += [content[0] for content in self._delta.get()]
            bucket.publications.load(meta.version, ((table_from_bytes(content), None) for content in contents))
        else:
            bucket.publications.load(meta.version, (part for part in found if part is not None))
        bucket.parts = meta.parts
        bucket.publications.remembered.reset(
            ((id, key, due) for key, id, due in meta.pairs), -float("inf") if meta.now is None else meta.now
        )
        return bucket

    def _write(self, number: int, bucket: CachedBucket, timer: int | None) -> None:
        publications = bucket.publications
        part = publications.save()
        if part is not None:
            token = secrets.token_hex(8)
            content = (table_to_bytes(part.states),)
            if part.is_base:
                self._base.update(content)
                self._delta.clear()
                worker_cache.drop_parts(self._folder, bucket.parts)
                bucket.parts = []
            else:
                self._delta.appendValue(content)
            worker_cache.write_part(self._folder, token, part.states, part.matches)
            bucket.parts.append(token)
        bucket.token = secrets.token_hex(8)
        now = publications.remembered.now
        meta = BucketMeta(
            version=publications.version,
            token=bucket.token,
            parts=bucket.parts,
            pairs=[(key, id, due) for id, key, due in publications.remembered.pairs],
            timer=self._set_timer(publications.next_due, timer),
            now=now if np.isfinite(now) else None,
        )
        self._meta.update((msgspec.msgpack.encode(meta),))
        worker_cache.keep_bucket(self._job.name, number, bucket)

    @property
    def _folder(self) -> Path:
        """The folder of this query in the directory of the executor, which Spark removes."""
        return Path(SparkFiles.getRootDirectory()) / "whimbrel-transitions" / self._job.name

    def _set_timer(self, due: float | None, timer: int | None) -> int | None:
        """Set the one timer of the bucket to the next time that a publication leaves, and return it."""
        if not self._job.has_timers:
            return None
        wanted = None if due is None else first_millisecond(due)
        if wanted != timer:
            if timer is not None:
                self._handle.deleteTimer(timer)
            if wanted is not None:
                self._handle.registerTimer(wanted)
        return wanted

    def _new(self) -> CachedBucket:
        return CachedBucket(Publications(self._job.format, self._job.rules, self._open_version), "", [])


def first_millisecond(seconds: float) -> int:
    """The first whole millisecond at which a time in seconds has come: a timer for less would never find it over."""
    found = int(np.ceil(seconds * 1_000))
    return found if found / 1_000 >= seconds else found + 1  # the product was rounded down


def _frame(transitions: pa.Table, version: int) -> pd.DataFrame:
    """Transitions as Spark takes them, without a copy."""
    columns = [column.combine_chunks() for column in transitions.columns]
    columns.append(pa.array(np.full(len(transitions), version, np.int64)))
    names = "k", "subscription", "kind", "sequence", "index_version"
    arrays = [pd.arrays.ArrowExtensionArray(column) for column in columns]
    return pd.DataFrame(dict(zip(names, arrays, strict=True)), copy=False)


def to_publications(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Rows of meta, base and deltas in, publications out. Keys are text, so that one schema serves both types."""
    for frame in frames:
        for meta, base, deltas in zip(frame["meta"], frame["base"], frame["deltas"], strict=True):
            yield _publications(meta, base, [] if deltas is None else list(deltas))


def _publications(meta: bytes, base: bytes | None, deltas: list[bytes]) -> pd.DataFrame:
    stored = msgspec.msgpack.decode(meta, type=BucketMeta)
    tables = [table_from_bytes(content) for content in [*([] if base is None else [base]), *deltas]]
    inside: dict[int | str, list[tuple[int | str, float | None]]] = {}
    for key, id, due in stored.pairs:
        inside.setdefault(key, []).append((id, due))
    newest: dict[int | str, tuple[pa.Table, int]] = {}
    for table in tables:
        for row, key in enumerate(table.column(KEY).to_pylist()):
            newest[key] = table, row
    return pd.DataFrame(
        {
            "k": [str(key) for key in newest],
            "version": [stored.version] * len(newest),
            "content": [table_to_bytes(table.slice(row, 1)) for table, row in newest.values()],
            "pairs": [msgspec.msgpack.encode((stored.now, inside.get(key, []))) for key in newest],
        }
    )
