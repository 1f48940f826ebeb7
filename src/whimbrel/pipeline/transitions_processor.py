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

from whimbrel.pipeline.transitions_bucket import DELETED, KEY, KINDS, SEQUENCE, TIME, UNSET, Bucket, News
from whimbrel.pipeline.transitions_export import read_table, write_table
from whimbrel.pipeline.transitions_matching import code_of, exists, id_of, matcher
from whimbrel.pipeline.transitions_sticky import Rules, Sticky

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

CONTROL = "version"
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
        self._match = matcher(self._job.path, self._job.timestamps)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Take the rows of a micro-batch in."""
        number = int(key[0])
        bucket, timer = self._open(number)
        news = News()
        frames = list(rows)
        frame = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
        control = int(frame[CONTROL].max())
        if control:
            held = exists(self._job.path, control, self._job.timestamps)
            bucket.change_version(control, self._match, held, news)
        updates = self._updates(frame[frame[CONTROL] == 0])
        if len(updates):
            bucket.apply(updates, self._match, self._now(timerValues), news)
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
        news = News()
        bucket.sticky.advance(expiredTimerInfo.getExpiryTimeInMs() / 1_000, news)
        fired = expiredTimerInfo.getExpiryTimeInMs()
        self._write(number, bucket, None if timer is not None and timer <= fired else timer)
        yield self._told(news, bucket.version)

    def handleInitialState(self, key: Any, initialState: pd.DataFrame, timerValues: TimerValues) -> None:  # noqa: N802, N803
        """Begin with what another query has left."""
        number = int(key[0])
        bucket, timer = self._open(number)
        states = [read_table(content) for content in initialState["content"]]
        bucket.load(int(initialState["version"].max()), [pa.concat_tables([bucket.table, *states])])
        for state, pairs in zip(states, initialState["pairs"], strict=True):
            for id, due in msgspec.msgpack.decode(pairs):
                bucket.sticky.pairs[state[KEY][0].as_py(), code_of(id)] = due
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
        bucket.sticky.pairs = {(key, code_of(id)): due for key, id, due in pairs}
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
        pairs = [(key, id_of(code), due) for (key, code), due in bucket.sticky.pairs.items()]
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
        return Bucket(job.attributes, job.key, Sticky(job.rules, code_of), job.ordered, job.partial)

    def _updates(self, frame: pd.DataFrame) -> pa.Table:
        """The updates as Arrow: what was null in Spark is null again."""
        job = self._job
        columns: dict[str, Any] = {KEY: pa.array(frame["k"].to_numpy(), job.key)}
        sequence = frame["s"].to_numpy()
        columns[SEQUENCE] = pa.array(sequence, pa.int64()) if job.ordered else pa.nulls(len(frame), pa.int64())
        columns[DELETED] = pa.array(frame["d"].to_numpy(), pa.bool_())
        if job.timed:
            columns[TIME] = pa.array(frame["t"].to_numpy().astype("datetime64[us]").astype(np.int64) / 1e6)
        if job.partial and "u" in frame.columns:
            names = [None if each is None else list(each) for each in frame["u"]]
            columns[UNSET] = pa.array(names, pa.list_(pa.string()))
        for number, attribute in enumerate(job.attributes):
            missing = (frame[f"m{number // 62}"].to_numpy() >> (number % 62)) & 1 == 1
            columns[attribute.name] = _column(frame[f"a{number}"], attribute, missing)
        return pa.table(columns)

    def _told(self, news: News, version: int) -> pd.DataFrame:
        ids = [id_of(code) for code in news.codes]
        return pd.DataFrame(
            {
                "k": pd.Series(news.keys, dtype=object if pa.types.is_string(self._job.key) else "int64"),
                "subscription": pd.Series(ids, dtype=object if self._job.kind == "string" else "int64"),
                "kind": pd.Series([KINDS[kind] for kind in news.kinds], dtype=object),
                "sequence": pd.Series(news.sequences, dtype="Int64"),
                "index_version": pd.Series([version] * len(ids), dtype="int64"),
            }
        )


def _column(series: pd.Series[Any], attribute: pa.Field, missing: np.ndarray) -> pa.Array:
    kind = attribute.type
    if pa.types.is_nested(kind):
        values = [None if gone else value for value, gone in zip(series, missing, strict=True)]
        return pa.array([list(v) if isinstance(v, np.ndarray) else v for v in values], kind)
    return pa.array(series.to_numpy(), kind, mask=missing)
