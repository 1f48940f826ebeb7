"""The stateful processor: a bucket's rows in, its notifications out, its state in Spark's state store.

    meta    one value: version, token, pairs that are kept, the timer
    base    one value: the states as an Arrow file
    delta   a list: the states that have changed since, one Arrow file for each micro-batch

A worker keeps the buckets that it has worked on. The token says whether what it keeps is what the store has: it is new
with every write, so a batch that failed or ran elsewhere makes the worker read the store.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from whimbrel.pipeline.attributes import HandOver
from whimbrel.pipeline.transitions_bucket import KEY, Bucket
from whimbrel.pipeline.transitions_export import read_table, write_table
from whimbrel.pipeline.transitions_matching import code_table, exists, matcher
from whimbrel.pipeline.transitions_news import News
from whimbrel.pipeline.transitions_sticky import Rules, Sticky
from whimbrel.pipeline.transitions_updates import read_cells, updates_schema

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

CONTROL, CELL = "version", "content"
BUCKETS_KEPT = 4_096

_kept: dict[tuple[str, int], tuple[str, Bucket]] = {}


@dataclass(frozen=True)
class Job:
    """What the processor has to know; `name` tells the buckets of queries in one worker apart."""

    name: str
    path: Path
    kind: str
    key: pa.DataType
    attributes: pa.Schema
    handed: HandOver
    rules: Rules
    ordered: bool
    partial: bool
    timed: bool
    clock: bool
    """Whether there are timers."""
    timestamps: tuple[str, ...]


class TransitionsProcessor(StatefulProcessor):
    """Calls the buckets of a task one after the other."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state variables."""
        self._handle = handle
        self._meta = handle.getValueState("meta", "content binary")
        self._base = handle.getValueState("base", "content binary")
        self._delta = handle.getListState("delta", "content binary")
        job = self._job
        self._codes = code_table(job.kind)
        self._match = matcher(job.path, job.kind, job.handed, job.timestamps)
        self._schema = updates_schema(job.key, job.attributes)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Take the rows of a micro-batch in."""
        number = int(key[0])
        job = self._job
        bucket, timer = self._open(number)
        news = News(job.key)
        control, cells = 0, []
        for frame in rows:
            control = max(control, int(frame[CONTROL].max()))
            cells += [cell for cell in frame[CELL] if cell is not None]
        if control:
            held = exists(job.path, job.kind, control, job.timestamps)
            bucket.change_version(control, self._match, held, news)
        if cells:
            bucket.apply(read_cells(cells, self._schema), self._match, self._now(timerValues), news)
        self._write(number, bucket, timer)
        yield self._told(news, bucket.version)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Let those leave whose dwell is over."""
        number = int(key[0])
        bucket, timer = self._open(number)
        news = News(self._job.key)
        bucket.sticky.advance(expiredTimerInfo.getExpiryTimeInMs() / 1_000, news)
        fired = expiredTimerInfo.getExpiryTimeInMs()
        self._write(number, bucket, None if timer is not None and timer <= fired else timer)
        yield self._told(news, bucket.version)

    def handleInitialState(self, key: Any, initialState: pd.DataFrame, timerValues: TimerValues) -> None:  # noqa: N802, N803
        """Begin with what another query has left."""
        number = int(key[0])
        bucket, timer = self._open(number)
        states = [read_table(content) for content in initialState["content"]]
        bucket.take_over(int(initialState["version"].max()), pa.concat_tables(states))
        for state, pairs in zip(states, initialState["pairs"], strict=True):
            for id, due in msgspec.msgpack.decode(pairs):
                bucket.sticky.pairs[state[KEY][0].as_py(), self._codes.code_of(id)] = due
        self._write(number, bucket, timer)

    def close(self) -> None:
        """Nothing is to be let go of."""

    def _open(self, number: int) -> tuple[Bucket, int | None]:
        """The bucket as the store has it, and its timer."""
        kept = _kept.pop((self._job.name, number), None)
        meta = self._meta.get()
        if meta is None:
            return self._new(), None
        version, token, pairs, timer, now = msgspec.msgpack.decode(meta[0])
        if kept is not None and kept[0] == token:
            return kept[1], timer
        bucket = self._new()
        base = self._base.get()
        tables = [] if base is None else [read_table(base[0])]
        tables += [read_table(content[0]) for content in self._delta.get()]
        bucket.load(version, tables)
        bucket.sticky.pairs = {(key, self._codes.code_of(id)): due for key, id, due in pairs}
        bucket.sticky.now = -float("inf") if now is None else now
        return bucket, timer

    def _write(self, number: int, bucket: Bucket, timer: int | None) -> None:
        base, changes = bucket.dump()
        if base is not None:
            self._base.update((write_table(base),))
            self._delta.clear()
        elif changes:
            self._delta.appendValue((write_table(pa.concat_tables(changes)),))
        timer = self._set_timer(bucket, timer)
        token = secrets.token_hex(8)
        pairs = [(key, self._codes.id_of(code), due) for (key, code), due in bucket.sticky.pairs.items()]
        now = bucket.sticky.now
        meta = [bucket.version, token, pairs, timer, now if np.isfinite(now) else None]
        self._meta.update((msgspec.msgpack.encode(meta),))
        while len(_kept) >= BUCKETS_KEPT:
            _kept.pop(next(iter(_kept)))
        _kept[self._job.name, number] = token, bucket

    def _set_timer(self, bucket: Bucket, timer: int | None) -> int | None:
        """One timer for the bucket, at the next time that somebody leaves."""
        if not self._job.clock:
            return None
        due = bucket.sticky.next_due
        wanted = None if due is None else int(np.ceil(due * 1_000))
        if wanted != timer:
            if timer is not None:
                self._handle.deleteTimer(timer)
            if wanted is not None:
                self._handle.registerTimer(wanted)
        return wanted

    def _now(self, timers: TimerValues) -> float:
        return timers.getCurrentProcessingTimeInMs() / 1_000 if self._job.clock and not self._job.timed else 0.0

    def _new(self) -> Bucket:
        job = self._job
        return Bucket(job.attributes, job.key, Sticky(job.rules, self._codes.code_of), job.ordered, job.partial)

    def _told(self, news: News, version: int) -> pd.DataFrame:
        keys, codes, kinds, sequences = news.columns()
        columns = {
            "k": keys,
            "subscription": self._codes.ids(codes),
            "kind": kinds,
            "sequence": sequences,
            "index_version": pa.array(np.full(len(codes), version, np.int64)),
        }
        return pd.DataFrame({name: pd.arrays.ArrowExtensionArray(column) for name, column in columns.items()})
