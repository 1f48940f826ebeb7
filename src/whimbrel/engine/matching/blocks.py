"""Matching many events: units of rows, encoded and matched by one thread each, handed out in event order.

A unit is a slice of the input; its result is `offsets` (where each event's rows end) and `rows`. One segment with
nothing to filter writes straight into the unit's buffer; otherwise each segment's rows are filtered (dead rows
dropped, doubtful ones verified by the filter itself) and then interleaved event by event. A unit with too many matches
gives those of its first events, and what is left of it is a unit again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from whimbrel.compiled.jit import kernel
from whimbrel.engine.access.segment import Segment
from whimbrel.engine.access.shared.packing import SLOT_MASK, VERIFY_BIT
from whimbrel.engine.live.snapshot import Snapshot
from whimbrel.engine.matching.workspace import PAIRS, Workspace
from whimbrel.model.errors import EventError, LimitExceeded
from whimbrel.model.event import Event
from whimbrel.model.event_tables import as_arrow, read_events, rows_of
from whimbrel.ranks.encoding.event_encoder import EncodedEvents

UNIT = 4_096
"""Events of a unit, at most."""
FIRST_UNIT = 16
"""Events of the first unit, when nobody knows yet how many match."""
GROWTH = 8
"""How many times as large a unit may be as the one before: each costs some microseconds per column."""

Events: TypeAlias = pa.Table | list[Event]
Judge: TypeAlias = Callable[[int, Event], bool]
Result: TypeAlias = tuple[np.ndarray, np.ndarray]


class Unit(NamedTuple):
    """Some events, and the row of the first one in the input."""

    first: int
    events: Events

    def front(self, size: int) -> Unit:
        """The first events."""
        return Unit(self.first, self.events[:size] if isinstance(self.events, list) else rows_of(self.events, 0, size))

    def rest(self, done: int) -> Unit | None:
        """What comes after the first events, if there is anything."""
        rest = self.events[done:] if isinstance(self.events, list) else rows_of(self.events, done, len(self.events))
        return Unit(self.first + done, rest) if len(rest) else None


class Units:
    """Cuts the input into units whose size follows the number of matches."""

    def __init__(
        self, events: object, attributes: Collection[str], timestamps: Collection[str], size: int = FIRST_UNIT
    ) -> None:
        self._table = as_arrow(events)
        self._events = None if self._table is not None else read_events(events, attributes, timestamps)
        self._next = 0
        self._cuts = np.empty(0, np.int64) if self._table is None else _dictionary_cuts(self._table)
        self.size = size

    def take(self) -> Unit | None:
        """The next unit, or None at the end."""
        first = self._next
        events: Events
        if self._events is not None:
            events = list(islice(self._events, self.size))
        else:
            assert self._table is not None
            cut = int(np.searchsorted(self._cuts, first, "right"))
            end = min(first + self.size, self._cuts[cut]) if cut < len(self._cuts) else first + self.size
            events = rows_of(self._table, first, end)
        self._next += len(events)
        return Unit(first, events) if len(events) else None

    def learn(self, result: Result) -> int:
        """Let the next units be larger or smaller; the number of events that the result has."""
        events, pairs = len(result[0]) - 1, len(result[1])
        ideal = PAIRS * max(1, events) // max(1, pairs)
        self.size = int(min(UNIT, max(1, ideal), GROWTH * self.size))
        return events


def sample_of(events: object, count: int, attributes: Collection[str], timestamps: Collection[str]) -> Events | None:
    """The first events of any input."""
    table = as_arrow(events)
    if table is not None and not len(_dictionary_cuts(first := rows_of(table, 0, count))):
        return first
    return list(islice(read_events(events if table is None else table, attributes, timestamps), count)) or None


def _dictionary_cuts(table: pa.Table) -> np.ndarray:
    """Where columns with dictionaries have another one: Arrow cannot always make one of two."""
    cuts = [np.empty(0, np.int64)]
    for column in table.columns:
        if column.num_chunks > 1 and _has_dictionary(column.type):
            cuts.append(np.cumsum([len(chunk) for chunk in column.chunks])[:-1])
    return np.unique(np.concatenate(cuts))


def _has_dictionary(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _has_dictionary(kind.storage_type)
    fields = [kind.field(number).type for number in range(kind.num_fields)]
    return pa.types.is_dictionary(kind) or any(map(_has_dictionary, fields))


def match_units(
    snapshot: Snapshot,
    units: Units,
    timestamps: Collection[str],
    judge: Judge,
    workspaces: Callable[[], Workspace],
    release: Callable[[Workspace], None],
    threads: int,
) -> Iterator[Result]:
    """The results of all units in order. A result's arrays are valid until the next one is asked for."""
    if threads <= 1:
        workspace = workspaces()
        try:
            while (unit := units.take()) is not None:
                while unit is not None:
                    result = match_unit(snapshot, unit.front(units.size), timestamps, judge, workspace)
                    unit = unit.rest(units.learn(result))
                    yield result
        finally:
            release(workspace)
        return
    free = [workspaces() for _ in range(threads + 1)]
    running: deque[tuple[Workspace, Unit, Future[Result]]] = deque()
    with ThreadPoolExecutor(threads, "whimbrel-match") as pool:
        try:
            while True:
                while free and (unit := units.take()) is not None:
                    workspace = free.pop()
                    future = pool.submit(match_unit, snapshot, unit, timestamps, judge, workspace)
                    running.append((workspace, unit, future))
                if not running:
                    return
                workspace, done, future = running.popleft()
                result = future.result()
                rest = done.rest(units.learn(result))
                yield result
                if rest is None:
                    free.append(workspace)
                else:
                    future = pool.submit(match_unit, snapshot, rest.front(units.size), timestamps, judge, workspace)
                    running.appendleft((workspace, rest, future))
        finally:
            for workspace, _, future in running:
                future.cancel()
                free.append(workspace)
            pool.shutdown(wait=True, cancel_futures=True)
            for workspace in free:
                release(workspace)


def match_unit(
    snapshot: Snapshot, unit: Unit, timestamps: Collection[str], judge: Judge, workspace: Workspace
) -> Result:
    """The rows that the first events of a unit match: all events, unless they match too many."""
    try:
        return _match_events(snapshot, unit.events, timestamps, judge, workspace)
    except (EventError, LimitExceeded) as error:
        if error.row is None:
            raise
        raise error.at_row(error.row + unit.first) from error


def _match_events(
    snapshot: Snapshot, unit: Events, timestamps: Collection[str], judge: Judge, workspace: Workspace
) -> Result:
    count = len(unit)
    offsets = np.zeros(count + 1, np.int64)
    if len(snapshot.segments) == 1 and snapshot.died is None and not snapshot.segments[0].meta["verified"]:
        encoded = _encode(snapshot.segments[0], unit, timestamps)
        if not encoded.coupled.any():
            return workspace.match_some(snapshot.segments[0], encoded, snapshot.rows, count)
    parts: list[Result] = []
    pairs = 0
    for segment in snapshot.segments:
        encoded = _encode(segment, unit, timestamps)
        found = workspace.match_some(segment, encoded, snapshot.rows, count, PAIRS - pairs)
        count = len(found[0]) - 1
        its_offsets, rows = found[0].copy(), found[1].copy()
        rows = snapshot.living(its_offsets, rows)
        if segment.meta["verified"] or encoded.coupled.any():
            rows = _verified(its_offsets, rows, encoded, unit, timestamps, snapshot, judge)
        parts.append((its_offsets, rows))
        offsets = sum((its[: count + 1] for its, _ in parts), np.zeros(count + 1, np.int64))
        if offsets[-1] > 2 * PAIRS and count > 1:  # fewer events, so that all segments together stay bounded
            count = max(1, int(np.searchsorted(offsets, 2 * PAIRS, "right")) - 1)
            offsets = offsets[: count + 1]
            parts = [(its[: count + 1], rows[: its[count]]) for its, rows in parts]
        pairs = int(offsets[-1])
    if len(parts) == 1:
        return parts[0]
    out = np.empty(int(offsets[-1]), np.int32)
    fill = offsets[:-1].copy()
    for its_offsets, rows in parts:
        _interleave(its_offsets, rows, fill, out)
    return offsets, out


def _encode(segment: Segment, unit: Events, timestamps: Collection[str]) -> EncodedEvents:
    if isinstance(unit, pa.Table):
        return segment.encoder.encode_table(unit, timestamps)
    return segment.encoder.encode_events(unit)


def _verified(
    offsets: np.ndarray,
    rows: np.ndarray,
    encoded: EncodedEvents,
    unit: Events,
    timestamps: Collection[str],
    snapshot: Snapshot,
    judge: Judge,
) -> np.ndarray:
    """Without those whose filter says no, and without flags; changes `offsets` in place."""
    keep = np.ones(len(rows), bool)
    doubtful = (rows & np.int32(VERIFY_BIT)) != 0
    if encoded.coupled.any():
        doubtful |= np.repeat(encoded.coupled[: len(offsets) - 1] != 0, np.diff(offsets))
    asked = np.flatnonzero(doubtful)
    if len(asked):
        event_rows = np.searchsorted(offsets, asked, "right") - 1
        events = _events_of(unit, np.unique(event_rows), snapshot, timestamps)
        keep[asked] = [
            judge(int(row) & SLOT_MASK, events[int(event)]) for row, event in zip(rows[asked], event_rows, strict=True)
        ]
    kept = np.concatenate([np.zeros(1, np.int64), np.cumsum(keep)])
    offsets[:] = kept[offsets]
    kept_rows: np.ndarray = rows[keep] & np.int32(SLOT_MASK)
    return kept_rows


def _events_of(
    unit: Events, event_rows: np.ndarray, snapshot: Snapshot, timestamps: Collection[str]
) -> dict[int, Event]:
    if not isinstance(unit, pa.Table):
        return {int(event): unit[int(event)] for event in event_rows}
    attributes = frozenset(name for segment in snapshot.segments for name in segment.attributes)
    try:
        taken = unit.take(event_rows)
    except pa.ArrowNotImplementedError:  # views and run-end-encoded columns cannot be taken from, but can be sliced
        taken = pa.concat_tables([unit.slice(event, 1) for event in event_rows.tolist()])
    return dict(zip(event_rows.tolist(), read_events(taken, attributes, timestamps), strict=True))


@kernel
def _interleave(offsets, rows, fill, out):  # type: ignore[no-untyped-def]
    for e in range(fill.size):
        at = fill[e]
        for i in range(offsets[e], offsets[e + 1]):
            out[at] = rows[i]
            at += 1
        fill[e] = at
