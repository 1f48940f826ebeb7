"""Matching one event, and matching many: each thread encodes and matches units of the input, yielded in event order.

One segment with nothing to leave out writes straight into the buffer of the workspace. Otherwise the rows of each
segment are copied, dead rows and those that fail verification are dropped (`kept_rows`), and the others are merged
event by event. A unit with too many matches gives those of its first events, and the rest of it becomes a unit again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import NamedTuple

import numpy as np

from whimbrel.engine.access.kernel import SORTED
from whimbrel.engine.access.segment import Segment
from whimbrel.engine.live.head import EVALUATE_IN_BATCH_NS
from whimbrel.engine.live.segment_set import is_evaluated
from whimbrel.engine.live.snapshot import Snapshot
from whimbrel.engine.matching.event_forms import EventBatch
from whimbrel.engine.matching.results import (
    FiltersByRow,
    Result,
    are_coupled,
    kept_head_rows,
    kept_head_rows_of_one,
    kept_rows,
    kept_rows_of_one,
    merged,
    without_refused,
)
from whimbrel.engine.matching.units import Unit, Units
from whimbrel.engine.matching.workspace import PAIRS, Workspace, Workspaces
from whimbrel.model.errors import RowError
from whimbrel.model.event import AnyEvent, Event
from whimbrel.model.matcher import Errors
from whimbrel.ranks.encoding.encoded_events import EncodedEvents
from whimbrel.ranks.encoding.object_batches import Refused


class Search(NamedTuple):
    """What events are matched against: a snapshot, how strings are read as timestamps, and the filters of rows."""

    snapshot: Snapshot
    timestamps: frozenset[str]
    filters: FiltersByRow
    collects: bool = False
    """Whether a bad event is collected and has no matches; else the first one is raised."""


class Matched(NamedTuple):
    """The rows of the events of a unit, and the events that were refused."""

    offsets: np.ndarray
    rows: np.ndarray
    refused: Errors
    """The number of each in the input, and its error."""


def match_event(
    snapshot: Snapshot,
    event: AnyEvent,
    timestamps: frozenset[str],
    filters: FiltersByRow,
    workspace: Workspace,
) -> np.ndarray:
    """Match one event; its rows in order of addition, valid until the workspace is used again."""
    segments = snapshot.segments
    if not segments:
        return snapshot.in_order(snapshot.search_head(event, timestamps))
    tables = snapshot.tables() if snapshot.head_size else None
    is_plain = len(segments) == 1 and tables is None and snapshot.died is None and snapshot.moved is None
    found: list[np.ndarray] = []
    for segment in segments:
        rows, coupled, arrays = workspace.match_one(segment, event, timestamps, snapshot.rows)
        if is_plain and not coupled and not segment.meta.verified and len(rows) <= SORTED:
            return rows  # the kernel has sorted them
        table = tables.get(id(segment)) if tables else None
        in_head = None if table is None else workspace.search_one(table, segment, snapshot)
        if coupled or segment.meta.verified or snapshot.died is not None:
            entries = workspace.coupled_entries
            rows = kept_rows_of_one(snapshot, segment, rows, coupled, arrays, event, timestamps, filters, entries)
        if in_head is not None and len(in_head):
            found.append(kept_head_rows_of_one(snapshot, in_head, coupled, event, timestamps, filters))
        if len(segments) == 1 and not found:
            return snapshot.in_order(rows)
        found.append(rows.copy())  # the buffer is the next segment's
    return snapshot.in_order(np.concatenate(found))


def match_units(search: Search, units: Units, workspaces: Workspaces, threads: int) -> Iterator[Matched]:
    """The results of all units in order. A result's arrays are valid until the next one is asked for."""
    if threads <= 1:
        workspace = workspaces.take()
        try:
            while (unit := units.take()) is not None:
                while unit is not None:
                    result = match_unit(search, unit.front(units.size), workspace)
                    unit = unit.rest(_learnt(units, result))
                    yield result
        finally:
            workspaces.give_back(workspace)
        return
    free = [workspaces.take() for _ in range(threads + 1)]
    running: deque[tuple[Workspace, Unit, Future[Matched]]] = deque()
    with ThreadPoolExecutor(threads, "whimbrel-match") as pool:
        try:
            while True:
                while free and (unit := units.take()) is not None:
                    workspace = free.pop()
                    running.append((workspace, unit, pool.submit(match_unit, search, unit, workspace)))
                if not running:
                    return
                workspace, done, future = running[0]  # still there if this fails, or if nobody asks for the next result
                result = future.result()
                rest = done.rest(_learnt(units, result))
                yield result
                running.popleft()
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


def _learnt(units: Units, result: Matched) -> int:
    """Tell the units of a result; return the number of its events."""
    events = len(result.offsets) - 1
    units.learn(events, len(result.rows))
    return events


def match_unit(search: Search, unit: Unit, workspace: Workspace) -> Matched:
    """The rows that the events of a unit match; those of its first events only, if they match too many."""
    refused: Refused = {}
    try:
        offsets, rows = _match_events(search, unit.events, workspace, refused)
        refused = {number: refused[number] for number in sorted(refused) if number < len(offsets) - 1}
        errors = [(unit.first + number, error.at_row(unit.first + number)) for number, error in refused.items()]
    except RowError as error:
        if error.row is None:
            raise
        before = unit.front(error.row) if error.row else None
        while before is not None:  # events that can be read may be refused when filters are evaluated
            before = before.rest(len(match_unit(search, before, workspace).offsets) - 1)
        raise error.at_row(unit.first + error.row) from error
    if errors and not search.collects:
        raise errors[0][1]
    return Matched(*(without_refused(refused, (offsets, rows)) if refused else (offsets, rows)), errors)


def _match_events(search: Search, unit: EventBatch, workspace: Workspace, refused: Refused) -> Result:
    """Match a unit against every segment and the head; return rows for as many of its events as fit in the buffers."""
    snapshot, timestamps = search.snapshot, search.timestamps
    if is_evaluated(snapshot):
        return _evaluate(search, unit, refused)
    in_reading = refused if search.collects else None
    count = len(unit)
    offsets = np.zeros(count + 1, np.int64)
    encoded: EncodedEvents | None = None
    is_simple = len(snapshot.segments) == 1 and snapshot.died is None and not snapshot.head_size
    if is_simple and not snapshot.segments[0].meta.verified:
        encoded = unit.encode(snapshot.segments[0].encoder, timestamps, in_reading)
        if not are_coupled(snapshot.segments[0], encoded):
            return workspace.match_some(snapshot.segments[0], encoded, snapshot.rows, count)

    def events(numbers: Sequence[int]) -> Sequence[Event]:
        return unit.read(numbers, snapshot.attributes(), timestamps)

    parts: list[Result] = []
    in_head: list[Result] = []
    tables, segments, pairs = snapshot.tables(), [*snapshot.segments], 0
    if snapshot.head_size and not segments:
        segments.append(snapshot.head_segment())  # it was evaluated at first
    for segment in segments:
        if encoded is None or len(segments) > 1:
            encoded = unit.encode(segment.encoder, timestamps, in_reading)
        found = workspace.match_some(segment, encoded, snapshot.rows, count, PAIRS - pairs)
        count = len(found[0]) - 1
        found = found[0].copy(), found[1].copy()
        rows = kept_rows(snapshot, segment, found, encoded, events, search.filters, refused)
        parts.append((found[0], rows))
        table = tables.get(id(segment))
        if table is not None:
            found = workspace.search_some(table, segment, encoded, snapshot, count)
            held = kept_head_rows(snapshot, found, events, search.filters, refused)
            if held is None:
                snapshot.head.must_become_segment()
                tables, in_head = {}, []
                segments.append(snapshot.head_segment())
            else:
                in_head.append((found[0], held))
        offsets = sum((its[: count + 1] for its, _ in (*parts, *in_head)), np.zeros(count + 1, np.int64))
        if offsets[-1] > 2 * PAIRS and count > 1:  # fewer events, so that all segments together stay bounded
            count = max(1, int(np.searchsorted(offsets, 2 * PAIRS, "right")) - 1)
            offsets = offsets[: count + 1]
            parts, in_head = (
                [(its[: count + 1], rows[: its[count]]) for its, rows in some] for some in (parts, in_head)
            )
        pairs = int(offsets[-1])
    if not parts:  # there is no segment: encode all the same, so that bad events are refused as in any index
        unit.encode(_no_filters().encoder, timestamps, in_reading)
        return offsets, np.empty(0, np.int32)
    return merged([*parts, *in_head], offsets)


def _evaluate(search: Search, unit: EventBatch, refused: Refused) -> Result:
    """Match events by evaluating all filters of the head."""
    snapshot, attributes = search.snapshot, search.snapshot.attributes()
    found: list[np.ndarray] = []
    unit.read([], attributes, search.timestamps)  # raises what is wrong with all events
    snapshot.head.spent += len(unit) * EVALUATE_IN_BATCH_NS
    for number in range(len(unit)):
        rows = np.empty(0, np.int32)
        try:
            (event,) = unit.read([number], attributes, search.timestamps)
            rows = snapshot.search_head(event, search.timestamps)
        except RowError as error:
            if not search.collects:
                raise error.at_row(number) from error
            refused[number] = error
        found.append(rows)
    return np.cumsum([0, *map(len, found)]), np.concatenate([np.empty(0, np.int32), *found])


@cache
def _no_filters() -> Segment:
    return Segment.of_filters([], [])
