"""Matches as Arrow lists of ids, in bounded memory however many pairs match.

Each shard gives its matches in runs of events. The next events that all shards have finished are joined and given out,
so that only the current run of each shard is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from whimbrel.engine.index import Index
from whimbrel.engine.matching.results import interleave
from whimbrel.pipeline.index.store import ID_TYPES

BATCH_BYTES = 1 << 26
"""Bytes of ids in one list array, roughly; a single event may have more."""


def match_lists(shards: Sequence[Index], events: object, count: int, kind: str) -> Iterator[tuple[int, pa.ListArray]]:
    """Match events against all shards. Yields, for runs of events in order, their number and a list of ids for each."""
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
