"""Matching one event, and matching many: each thread encodes and matches units of the input, yielded in event order.

One segment with nothing to leave out writes straight into the buffer of the workspace. Otherwise the rows of each
segment are copied and settled, then merged event by event. A unit with too many matches gives those of its first
events, and the rest of it becomes a unit again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from whimbrel.engine.access.segment import Segment
from whimbrel.engine.live.snapshot import Snapshot
from whimbrel.engine.matching.results import Result, Verify, merged, settled
from whimbrel.engine.matching.units import Events, Unit, Units
from whimbrel.engine.matching.workspace import PAIRS, Workspace, Workspaces
from whimbrel.model.errors import EventError, LimitExceeded
from whimbrel.model.event import Event
from whimbrel.model.event_tables import read_events
from whimbrel.ranks.encoding.event_encoder import EncodedEvents


class Search(NamedTuple):
    """What events are matched against: a snapshot, how strings are read as timestamps, and how rows are verified."""

    snapshot: Snapshot
    timestamps: frozenset[str]
    verify: Verify


def match_event(
    snapshot: Snapshot,
    event: Event | Mapping[str, object],
    timestamps: frozenset[str],
    verify: Verify,
    workspace: Workspace,
) -> np.ndarray:
    """Match one event; its rows in order of addition, valid until the workspace is used again."""
    found: list[np.ndarray] = []
    is_only = len(snapshot.segments) == 1
    for segment in snapshot.segments:
        rows, coupled = workspace.match_one(segment, event, timestamps, snapshot.rows)
        if not is_only:
            rows = rows.copy()  # the buffer is the next segment's
        if snapshot.died is not None or coupled or segment.meta.verified:
            one = np.array([0, len(rows)]), rows
            mask = np.ones(1, bool) if coupled else None
            rows = settled(snapshot, segment, one, mask, lambda _: [Event.of(event, timestamps)], verify)
        found.append(rows)
    if snapshot.head_size:
        whole = Event.of(event, timestamps)
        in_head = [entry.row for entry in snapshot.head_entries() if entry.filter.matches(whole)]
        found.append(np.array(in_head, np.int32))
    return snapshot.in_order(found[0] if len(found) == 1 else np.concatenate([np.empty(0, np.int32), *found]))


def match_units(search: Search, units: Units, workspaces: Workspaces, threads: int) -> Iterator[Result]:
    """The results of all units in order. A result's arrays are valid until the next one is asked for."""
    if threads <= 1:
        workspace = workspaces.take()
        try:
            while (unit := units.take()) is not None:
                while unit is not None:
                    result = match_unit(search, unit.front(units.size), workspace)
                    unit = unit.rest(units.learn(result))
                    yield result
        finally:
            workspaces.give_back(workspace)
        return
    free = [workspaces.take() for _ in range(threads + 1)]
    running: deque[tuple[Workspace, Unit, Future[Result]]] = deque()
    with ThreadPoolExecutor(threads, "whimbrel-match") as pool:
        try:
            while True:
                while free and (unit := units.take()) is not None:
                    workspace = free.pop()
                    running.append((workspace, unit, pool.submit(match_unit, search, unit, workspace)))
                if not running:
                    return
                workspace, done, future = running.popleft()
                result = future.result()
                rest = done.rest(units.learn(result))
                yield result
                if rest is None:
                    free.append(workspace)
                else:
                    future = pool.submit(match_unit, search, rest.front(units.size), workspace)
                    running.appendleft((workspace, rest, future))
        finally:
            for workspace, _, future in running:
                future.cancel()
                free.append(workspace)
            pool.shutdown(wait=True, cancel_futures=True)
            for workspace in free:
                workspaces.give_back(workspace)


def match_unit(search: Search, unit: Unit, workspace: Workspace) -> Result:
    """The rows that the events of a unit match; those of its first events only, if they match too many."""
    try:
        return _match_events(search, unit.events, workspace)
    except (EventError, LimitExceeded) as error:
        if error.row is None:
            raise
        raise error.at_row(error.row + unit.first) from error


def _match_events(search: Search, unit: Events, workspace: Workspace) -> Result:
    snapshot, timestamps = search.snapshot, search.timestamps
    count = len(unit)
    offsets = np.zeros(count + 1, np.int64)
    if len(snapshot.segments) == 1 and snapshot.died is None and not snapshot.segments[0].meta.verified:
        encoded = _encode(snapshot.segments[0], unit, timestamps)
        if not encoded.coupled.any():
            return workspace.match_some(snapshot.segments[0], encoded, snapshot.rows, count)

    def events(numbers: np.ndarray) -> Sequence[Event]:
        return _events_of(search, unit, numbers)

    parts: list[Result] = []
    pairs = 0
    for segment in snapshot.segments:
        encoded = _encode(segment, unit, timestamps)
        found = workspace.match_some(segment, encoded, snapshot.rows, count, PAIRS - pairs)
        count = len(found[0]) - 1
        found = found[0].copy(), found[1].copy()
        parts.append((found[0], settled(snapshot, segment, found, encoded.coupled, events, search.verify)))
        offsets = sum((its[: count + 1] for its, _ in parts), np.zeros(count + 1, np.int64))
        if offsets[-1] > 2 * PAIRS and count > 1:  # fewer events, so that all segments together stay bounded
            count = max(1, int(np.searchsorted(offsets, 2 * PAIRS, "right")) - 1)
            offsets = offsets[: count + 1]
            parts = [(its[: count + 1], rows[: its[count]]) for its, rows in parts]
        pairs = int(offsets[-1])
    return merged(parts, offsets) if parts else (offsets, np.empty(0, np.int32))


def _encode(segment: Segment, unit: Events, timestamps: frozenset[str]) -> EncodedEvents:
    if isinstance(unit, pa.Table):
        return segment.encoder.encode_table(unit, timestamps)
    return segment.encoder.encode_events(unit)


def _events_of(search: Search, unit: Events, numbers: np.ndarray) -> Sequence[Event]:
    """The events of a unit of some numbers."""
    if not isinstance(unit, pa.Table):
        return [unit[number] for number in numbers.tolist()]
    attributes = frozenset(name for segment in search.snapshot.segments for name in segment.attributes)
    try:
        taken = unit.take(numbers)
    except pa.ArrowNotImplementedError:  # views and run-end-encoded columns cannot be taken from, but can be sliced
        taken = pa.concat_tables([unit.slice(number, 1) for number in numbers.tolist()])
    return list(read_events(taken, attributes, search.timestamps))
