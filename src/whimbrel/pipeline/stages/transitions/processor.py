"""The stateful processor: a bucket's rows in, its notifications out, its state in Spark's state store.

    meta    one value: version, token, tokens of the parts, pairs that are kept, the timer and its clock
    base    one value: the first part, states as an Arrow file
    delta   a list: the other parts, what has changed since, one for each micro-batch

The token is new with every write, so that what an executor keeps (`transitions_kept`) of a batch that failed, or that
ran elsewhere since, is not taken for what the store has.
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
from pyspark import SparkFiles
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from whimbrel.pipeline.spark.transfer import HandOver
from whimbrel.pipeline.stages.transitions.cells import read_cells, updates_schema
from whimbrel.pipeline.stages.transitions.export import read_table, write_table
from whimbrel.pipeline.stages.transitions.worker_cache import (
    Kept,
    drop_parts,
    keep,
    read_part,
    take,
    versions,
    write_part,
)
from whimbrel.publications.notifications import News
from whimbrel.publications.rules import Rules
from whimbrel.publications.state import KEY, Bucket

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

CONTROL, CELL = "version", "content"


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
        self._open_version = versions(job.name, job.path, job.kind, job.handed, job.rules, job.timestamps)
        self._schema = updates_schema(job.key, job.attributes)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Take the rows of a micro-batch in."""
        number = int(key[0])
        kept, timer = self._open(number)
        news = self._news()
        control, cells = 0, []
        for frame in rows:
            control = max(control, int(frame[CONTROL].max()))
            cells += [cell for cell in frame[CELL] if cell is not None]
        if control:
            kept.bucket.change_version(control, news)
        if cells:
            kept.bucket.apply(read_cells(cells, self._schema), self._now(timerValues), news)
        self._write(number, kept, timer)
        yield self._told(news, kept.bucket.version)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Let those leave whose dwell is over."""
        number = int(key[0])
        kept, timer = self._open(number)
        news = self._news()
        fired = expiredTimerInfo.getExpiryTimeInMs()
        kept.bucket.sticky.advance(fired / 1_000, news)
        self._write(number, kept, None if timer is not None and timer <= fired else timer)
        yield self._told(news, kept.bucket.version)

    def handleInitialState(self, key: Any, initialState: pd.DataFrame, timerValues: TimerValues) -> None:  # noqa: N802, N803
        """Begin with what another query has left."""
        number = int(key[0])
        kept, timer = self._open(number)
        states = [read_table(content) for content in initialState["content"]]
        kept.bucket.take_over(int(initialState["version"].max()), pa.concat_tables(states))
        for state, pairs in zip(states, initialState["pairs"], strict=True):
            for id, due in msgspec.msgpack.decode(pairs):
                kept.bucket.sticky.pairs[state[KEY][0].as_py(), id] = due
        self._write(number, kept, timer)

    def close(self) -> None:
        """Nothing is to be let go of."""

    def _open(self, number: int) -> tuple[Kept, int | None]:
        """The bucket as the store has it, and its timer."""
        kept = take(self._job.name, number)
        meta = self._meta.get()
        if meta is None:
            return Kept(self._new(), "", []), None
        version, token, parts, pairs, timer, now = msgspec.msgpack.decode(meta[0])
        if kept is None or kept.token != token:
            kept = self._caught_up(kept, version, parts)
            kept.bucket.sticky.pairs = {(key, id): due for key, id, due in pairs}
            kept.bucket.sticky.now = -float("inf") if now is None else now
        return kept, timer

    def _caught_up(self, kept: Kept | None, version: int, parts: list[str]) -> Kept:
        """The bucket of these parts: what is kept already, then what is on the disk, else all from the store."""
        is_older = kept is not None and kept.bucket.version == version and kept.parts == parts[: len(kept.parts)]
        if kept is None or not is_older:
            kept = Kept(self._new(), "", [])
        bound = len(self._open_version(version))
        found = [read_part(self._folder, token, bound) for token in parts[len(kept.parts) :]]
        if None in found:
            kept = Kept(self._new(), "", [])
            base = self._base.get()
            contents = [] if base is None else [base[0]]
            contents += [content[0] for content in self._delta.get()]
            kept.bucket.load(version, ((read_table(content), None) for content in contents))
        else:
            kept.bucket.load(version, (part for part in found if part is not None))
        kept.bucket.version, kept.parts = version, parts
        return kept

    def _write(self, number: int, kept: Kept, timer: int | None) -> None:
        bucket = kept.bucket
        written = bucket.dump()
        if written is not None:
            token = secrets.token_hex(8)
            content = (write_table(written.states),)
            if written.is_base:
                self._base.update(content)
                self._delta.clear()
                drop_parts(self._folder, kept.parts)
                kept.parts = []
            else:
                self._delta.appendValue(content)
            write_part(self._folder, token, written.states, written.matches)
            kept.parts.append(token)
        timer = self._set_timer(bucket, timer)
        kept.token = secrets.token_hex(8)
        pairs = [(key, id, due) for (key, id), due in bucket.sticky.pairs.items()]
        now = bucket.sticky.now
        meta = [bucket.version, kept.token, kept.parts, pairs, timer, now if np.isfinite(now) else None]
        self._meta.update((msgspec.msgpack.encode(meta),))
        keep(self._job.name, number, kept)

    @property
    def _folder(self) -> Path:
        """Of this query, in the directory of the executor, which Spark removes."""
        return Path(SparkFiles.getRootDirectory()) / "whimbrel-transitions" / self._job.name

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
        return Bucket(job.attributes, job.key, job.rules, self._open_version, job.ordered, job.partial)

    def _news(self) -> News:
        return News(self._job.key, pa.string() if self._job.kind == "string" else pa.int64())

    def _told(self, news: News, version: int) -> pd.DataFrame:
        columns = news.columns()
        columns.append(pa.array(np.full(len(columns[0]), version, np.int64)))
        names = "k", "subscription", "kind", "sequence", "index_version"
        arrays = [pd.arrays.ArrowExtensionArray(column) for column in columns]
        return pd.DataFrame(dict(zip(names, arrays, strict=True)), copy=False)
