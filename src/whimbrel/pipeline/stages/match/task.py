"""What a task of `match` does: batches of events in, their keys with lists of subscriptions out.

Memory is bounded however many pairs match.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from whimbrel.engine.index import Index
from whimbrel.engine.matching.results import interleave
from whimbrel.model.errors import EventError, LimitExceeded
from whimbrel.pipeline.errors import ColumnError
from whimbrel.pipeline.index.store import ID_TYPES
from whimbrel.pipeline.index.workers import open_version, settle
from whimbrel.pipeline.stages.match.match_options import SUBSCRIPTIONS, MatchJob

BATCH_BYTES = 1 << 26
"""Bytes of ids in one list array, roughly; a single event may have more."""


@dataclass(frozen=True, slots=True)
class MatchTask:
    """Sent to the workers. The first `carried` columns of a batch come out again, the others hold the attributes.

    With `groups`, the last carried column is the number of the group of shards to match the row against; without, rows
    are matched against all shards.
    """

    job: MatchJob
    carried: int
    groups: tuple[tuple[int, ...], ...] | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        job = self.job
        version = job.version if isinstance(job.version, int) else job.version()
        manifest, shards = open_version(job.index, version, job.options.timestamps)
        job.transfer.check(manifest.attributes)
        if manifest.kind != job.id_kind:
            raise ColumnError(SUBSCRIPTIONS, f"ids of kind {job.id_kind}", f"{manifest.kind} in version {version}")
        for batch in batches:
            if self.groups is None:
                yield from self._match(batch, shards)
            else:
                for group in batch.column(self.carried - 1).unique().to_pylist():
                    own = batch.filter(pa.compute.equal(batch.column(self.carried - 1), group))
                    its_shards = [shards[number] for number in self.groups[group]]
                    yield from self._match(own, its_shards)
        settle()

    def _match(self, batch: pa.RecordBatch, shards: Sequence[Index]) -> Iterator[pa.RecordBatch]:
        keys = batch.select(range(self.carried))
        if self.job.options.json is None:
            table = self.job.transfer.table(batch.columns[self.carried :], batch.num_rows)
            yield from self._matched(keys, shards, table)
            return
        try:
            yield from self._matched(keys, shards, batch.column(self.carried))
        except LimitExceeded as error:
            place = self._place(batch, error.row, error.where)
            raise LimitExceeded(error.limit, error.size, error.maximum, error.unit, place) from None
        except EventError as error:
            raise EventError(error.expected, error.found, self._place(batch, error.row, error.path)) from None

    def _matched(self, keyed: pa.RecordBatch, shards: Sequence[Index], events: object) -> Iterator[pa.RecordBatch]:
        first = 0
        names = [*keyed.schema.names, SUBSCRIPTIONS]
        keys = keyed.columns
        for count, lists in match_lists(shards, events, keyed.num_rows, self.job.id_kind):
            columns = [key.slice(first, count) for key in keys]
            yield pa.RecordBatch.from_arrays([*columns, lists], names)
            first += count

    def _place(self, batch: pa.RecordBatch, row: int | None, path: str) -> str:
        """The place of a path in the JSON of a row, by the keys of the event."""
        keys = [str(column[row or 0].as_py()) for column in batch.columns[: self.carried]]
        event = f"column {self.job.options.json} of event {', '.join(keys)}"
        return event if path in ("", "$") else f"{event}: {path}"


def match_lists(shards: Sequence[Index], events: object, count: int, kind: str) -> Iterator[tuple[int, pa.ListArray]]:
    """Match events against all shards. Yield, for runs of events in order, their number and a list of ids for each.

    Each shard gives its matches in runs of events. Only the current run of each shard is in memory.
    """
    if not shards:
        if count:
            yield count, pa.ListArray.from_arrays(np.zeros(count + 1, np.int32), pa.array([], ID_TYPES[kind][0]))
        return
    if len(shards) == 1:
        for offsets, rows in shards[0].match_blocks(events, threads=1):
            yield from _cut(offsets, pa.array(shards[0].ids(rows)), kind)
        return
    for offsets, ids in _together(shards, events):
        yield from _cut(offsets, ids, kind)


def _together(shards: Sequence[Index], events: object) -> Iterator[tuple[np.ndarray, pa.Array]]:
    """Runs of events with the ids of all shards. The arrays of a shard are valid until its next run."""
    streams = [shard.match_blocks(events, threads=1) for shard in shards]
    runs = [next(stream, None) for stream in streams]
    done = [0] * len(shards)
    while (count := min(0 if run is None else len(run[0]) - 1 - at for run, at in zip(runs, done, strict=True))) > 0:
        offsets = np.zeros(count + 1, np.int64)
        parts = []
        for shard, run, at in zip(shards, runs, done, strict=True):
            assert run is not None
            its = run[0][at : at + count + 1]
            parts.append((its - its[0], shard.ids(run[1][its[0] : its[-1]])))
            offsets += parts[-1][0]
        yield offsets, _interleaved(offsets, parts)
        for number, stream in enumerate(streams):
            done[number] += count
            run = runs[number]
            if run is not None and done[number] == len(run[0]) - 1:
                runs[number], done[number] = next(stream, None), 0


def _interleaved(offsets: np.ndarray, parts: list[tuple[np.ndarray, np.ndarray | pa.Array]]) -> pa.Array:
    """The ids of all shards, event by event."""
    fill = offsets[:-1].copy()
    if isinstance(parts[0][1], np.ndarray):
        ids = np.empty(int(offsets[-1]), np.int64)
        for its_offsets, its_ids in parts:
            interleave(its_offsets, its_ids, fill, ids)
        return pa.array(ids)
    places = np.empty(int(offsets[-1]), np.int64)
    first = 0
    for its_offsets, its_ids in parts:
        interleave(its_offsets, np.arange(first, first + len(its_ids)), fill, places)
        first += len(its_ids)
    return pa.concat_arrays([ids for _, ids in parts]).take(pa.array(places))


def _cut(offsets: np.ndarray, ids: pa.Array, kind: str) -> Iterator[tuple[int, pa.ListArray]]:
    """Cut a run into list arrays of bounded size."""
    pieces = max(1, -(-ids.nbytes // BATCH_BYTES))
    step = max(1, (len(offsets) - 1) // pieces)
    for first in range(0, len(offsets) - 1, step):
        cuts = offsets[first : first + step + 1]
        values = ids.slice(cuts[0], cuts[-1] - cuts[0]).cast(ID_TYPES[kind][0])
        yield len(cuts) - 1, pa.ListArray.from_arrays((cuts - cuts[0]).astype(np.int32), values)
