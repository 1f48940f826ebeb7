"""The public index: subscriptions in, events in, ids out.

One thread at a time changes the index (a lock sees to it); any number of threads match, each on the snapshot that it
finds, and never wait. A change is visible to the next match. How it gets there is in `parts`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, cast

import numpy as np

from whimbrel.engine import stats as report
from whimbrel.engine.access.segment import Segment
from whimbrel.engine.access.shared.packing import SLOT_MASK, VERIFY_BIT
from whimbrel.engine.access.warm_up import WARM_UP
from whimbrel.engine.ids.id_table import IdTable
from whimbrel.engine.intake.subscriptions import Batch, admit, read_subscriptions
from whimbrel.engine.live import saved, segment_builder
from whimbrel.engine.live.segment_set import SegmentSet
from whimbrel.engine.live.snapshot import Snapshot
from whimbrel.engine.live.texts import TextStore
from whimbrel.engine.matching.blocks import FIRST_UNIT, Units, match_units, sample_of
from whimbrel.engine.matching.results import pairs_of
from whimbrel.engine.matching.workspace import Workspace
from whimbrel.model.errors import UnknownId, WhimbrelError
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter
from whimbrel.model.matcher import Matcher
from whimbrel.model.subscription import Id, Subscription

if TYPE_CHECKING:
    import pyarrow as pa

    from whimbrel.model.explain import Explanation
    from whimbrel.model.near_misses import NearMiss
    from whimbrel.model.schema import Schema

FILTERS_KEPT = 16_384
"""Parsed filters kept for verifying and explaining."""
SAMPLE_EVENTS = 10_000
"""Events of a sample that the planner looks at."""

_NOTHING = np.empty(0, np.int32)


class Index(Matcher):
    """A set of subscriptions that finds those an event matches.

    `timestamps` names attributes whose strings are read as timestamps. With a `schema`, filters are typed against it
    when they are added, invalid events are refused, and values compare as their domains say.

    >>> index = Index()
    >>> index.add("toy-deals", "category = 'Toy' AND price < 5")
    >>> index.match({"category": "Toy", "price": 3})
    ['toy-deals']
    """

    def __init__(self, timestamps: Iterable[str] = (), schema: Schema | None = None) -> None:
        self.timestamps = frozenset(timestamps)
        self.schema = schema
        self._ids = IdTable()
        self._texts = TextStore()
        self._segment_set = SegmentSet(Snapshot())
        self._filters: dict[int, Filter] = {}
        self._naming = threading.Lock()  # held while ids and texts disagree, for microseconds
        self._workspaces: list[Workspace] = []  # those that nobody uses
        self._counting: list[Workspace] = []  # all of them
        self._events = 0
        self._unit = FIRST_UNIT  # events that the last matching took at once: those of a stream are alike

    def add(self, id: Id, filter: object, dialect: str = "sql") -> None:
        """Add a subscription; DuplicateId if the id is there. Visible to the next match."""
        admitted = admit(filter, dialect, self.schema)
        with self._segment_set.lock:
            with self._naming:
                row = self._ids.add(id)
                self._texts.append(row, admitted.text, admitted.dialect)
            self._segment_set.append(row, admitted.filter)

    def add_many(
        self,
        subscriptions: Iterable[tuple[Id, object]] | pa.Table,
        dialect: str = "sql",
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Add many: pairs of id and filter, or an Arrow table with columns id, filter and optionally dialect.

        All or nothing: the first bad filter, duplicate id or id of another kind is raised and nothing is added.
        Large loads are parsed on all cores; `progress` is told how many are parsed.
        """
        WARM_UP.begin()
        batch = read_subscriptions(subscriptions, dialect, self.schema)
        parsed = batch.parse(progress)
        with self._segment_set.lock:
            first = self._ids.rows
            rows = np.arange(first, first + len(batch.texts), dtype=np.int32)
            segment = segment_builder.build_from_parsed(parsed, rows, self._segment_set.sample)
            self._install(batch, segment)

    def add_good(self, subscriptions: pa.Table, dialect: str = "sql") -> list[tuple[int, WhimbrelError]]:
        """Add those of many whose filter is good, and return the (row, error) pairs of the others.

        Takes what `add_many` takes, and raises on ids as it does. Parses in this process alone, for callers that use
        all cores already.
        """
        batch = read_subscriptions(subscriptions, dialect, self.schema)
        parsed, errors = batch.parse_good()
        good = np.ones(len(batch.texts), bool)
        good[[row for row, _ in errors]] = False
        if not good.any():
            return errors
        with self._segment_set.lock:
            rows = (self._ids.rows + np.cumsum(good) - 1).astype(np.int32)
            segment = segment_builder.build_from_parsed(parsed, rows, self._segment_set.sample)
            self._install(batch.only(good) if errors else batch, segment)
        return errors

    def subscriptions(self) -> pa.Table:
        """All subscriptions as a table that `add_many` takes: id, filter, dialect."""
        import pyarrow as pa

        with self._segment_set.lock:
            live = self._ids.live()
            texts, dialects = self._texts.columns(live)
            return pa.table({"id": pa.array(self._ids.names(live)), "filter": texts, "dialect": dialects})

    def remove(self, id: Id) -> None:
        """Remove a subscription; UnknownId if it is not there."""
        with self._segment_set.lock:
            row = self._ids.remove(id)
            self._segment_set.kill(row, self._ids.rows)
            self._filters.pop(row, None)

    def replace(self, id: Id, filter: object, dialect: str = "sql") -> None:
        """Give a subscription another filter, atomically; it keeps its place in the order of results."""
        admitted = admit(filter, dialect, self.schema)
        with self._segment_set.lock:
            with self._naming:
                old_row = self._ids.remove(id)
                row = self._ids.add(id)
                self._texts.append(row, admitted.text, admitted.dialect)
            self._segment_set.append(row, admitted.filter, died=old_row)
            self._filters.pop(old_row, None)

    def match(self, event: Event | Mapping[str, object]) -> list[Id]:
        """The ids of the subscriptions that the event matches, each once, in order of addition."""
        if self.schema is not None:
            event = self.schema.read(event)
        snapshot = self._segment_set.ready()
        workspace = self._take_workspace()
        try:
            parts = [self._match_segment(snapshot, segment, event, workspace) for segment in snapshot.segments]
            if snapshot.head_size:
                whole = Event.of(event, self.timestamps)
                in_head = [entry.row for entry in snapshot.head_entries() if entry.filter.matches(whole)]
                parts.append(np.array(in_head, np.int32))
            self._events += 1
            found = parts[0] if len(parts) == 1 else np.concatenate([_NOTHING, *parts])
            return cast("list[Id]", self._ids.name_list(snapshot.in_order(found)))
        finally:
            self._workspaces.append(workspace)

    def match_batch(self, events: object, threads: int | None = None) -> pa.Table:
        """Match many events: a table of `event` (row number) and `subscription` (id), in event order."""
        return pairs_of(self.match_blocks(events, threads), self._ids)

    def match_blocks(self, events: object, threads: int | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The fast lane: yields (offsets, rows) for a run of events at a time, in event order.

        Event e of the run has rows[offsets[e]:offsets[e + 1]]; `ids(rows)` names them. Both arrays are reused: copy
        what must outlive the next step. Memory stays bounded however many pairs match.
        """
        if self.schema is not None:
            from whimbrel.engine.matching.typed_events import typed_events

            events = typed_events(self.schema, events)
        snapshot = self._segment_set.compiled()
        workers = threads if threads is not None else os.cpu_count() or 1
        first = self._unit if workers == 1 else FIRST_UNIT  # several threads are to share even a few events
        units = Units(events, snapshot.attributes(), self.timestamps, first)
        for result in match_units(
            snapshot, units, self.timestamps, self._judge, self._take_workspace, self._workspaces.append, workers
        ):
            self._events += len(result[0]) - 1
            self._unit = units.size
            yield result

    def ids(self, rows: np.ndarray) -> np.ndarray | pa.Array:
        """The ids of rows that `match_blocks` gave: int64, or an Arrow array of strings."""
        return self._ids.names(rows)

    def row(self, id: object) -> int:
        """The row by which `match_blocks` names a subscription; -1 if it is not there."""
        row = self._ids.find(id)
        if not 0 <= row < len(self._texts):
            with self._naming:  # not there, or in the middle of a change
                row = self._ids.find(id)
        return row

    def explain(self, id: Id, event: Event | Mapping[str, object]) -> Explanation:
        """Why a subscription matches an event or not: each constraint, held or not, and the values seen."""
        from whimbrel.model.explain import explain

        return explain(self[id].filter, self._read(event))

    def near_misses(self, event: Event | Mapping[str, object], limit: int = 10) -> list[NearMiss]:
        """The subscriptions that almost match: fewest failed constraints first, then order of addition."""
        from whimbrel.engine.matching.near_misses import nearest

        snapshot = self._segment_set.compiled()
        return nearest(snapshot, self._read(event), limit, self._filter_of, self._ids.name)

    def analyze(self, sample: object) -> None:
        """Plan anew for events like these (any shape that match_batch takes); the first 10,000 are looked at."""
        if self.schema is not None:
            from whimbrel.engine.matching.typed_events import typed_events

            sample = typed_events(self.schema, sample)
        taken = sample_of(sample, SAMPLE_EVENTS, self.attributes(), self.timestamps)
        with self._segment_set.lock:
            self._segment_set.plan_anew(taken)

    def merge(self) -> None:
        """Merge everything into one segment now."""
        with self._segment_set.lock:
            self._segment_set.merge()

    def stats(self) -> dict[str, object]:
        """What the index holds, how it is indexed, what it costs in memory, and the work counted so far."""
        work = sum((workspace.counts for workspace in self._counting.copy()), np.zeros(4, np.int64))
        return report.stats(self._segment_set.snapshot, self._ids, self._texts, self._events, work)

    def plan(self, id: Id) -> dict[str, object]:
        """How one subscription is indexed: per conjunction the kind of key and the share of events that reach it.

        `cost_ns` is about what the subscription costs an event. The shares are those of the sample of `analyze`, or
        guessed without one.
        """
        from whimbrel.engine.access.explanation import plan

        row = self._row(id)
        return plan(self._segment_set.compiled().segments, row, id, self._segment_set.sample)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save to a directory, atomically: whatever happens, it holds the old index or the new one."""
        with self._segment_set.lock:
            self._segment_set.flush()
            schema = None if self.schema is None else self.schema.to_document()
            saved.save(path, self._segment_set.snapshot, self._ids, self._texts, self.timestamps, schema)

    @classmethod
    def open(cls, path: str | os.PathLike[str], verify: bool = True) -> Index:
        """Open a saved index, memory-mapped; a file that is torn, foreign or newer is refused.

        `verify=False` skips the checksums of the data, for files that were verified before.
        """
        from whimbrel.model.schema import Schema

        found = saved.open(path, verify)
        index = cls(found.timestamps, None if found.schema is None else Schema.from_document(found.schema))
        index._ids, index._texts, index._segment_set = found.ids, found.texts, SegmentSet(found.snapshot)
        return index

    def attributes(self) -> frozenset[str]:
        """The attributes that some filter mentions."""
        return self._segment_set.snapshot.attributes()

    @property
    def rows(self) -> int:
        """How many subscriptions were ever added: those that are there and the gaps that others have left."""
        return self._ids.rows

    @property
    def segments(self) -> int:
        """How many segments a match searches."""
        return len(self._segment_set.snapshot.segments)

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, id: object) -> bool:
        return self.row(id) >= 0

    def __getitem__(self, id: Id) -> Subscription:
        return Subscription(id, self._filter_of(self._row(id)))

    def __iter__(self) -> Iterator[Id]:
        if self._segment_set.snapshot.moved is None:
            return iter(self._ids)
        with self._segment_set.lock:  # so that no row is newer than the snapshot
            live = self._segment_set.snapshot.in_order(self._ids.live())
        return iter(cast("list[Id]", self._ids.name_list(live)))

    def _install(self, batch: Batch, segment: Segment) -> None:
        """Name the subscriptions of a bulk load, and make their segment visible. The lock is held."""
        first = self._ids.rows
        with self._naming:
            self._ids.add_many(batch.ids)
            self._texts.append_many(first, batch.texts, batch.dialects)
        self._segment_set.install(segment, self._ids.rows)

    def _row(self, id: Id) -> int:
        row = self.row(id)
        if row < 0:
            raise UnknownId(id)
        return row

    def _match_segment(
        self, snapshot: Snapshot, segment: Segment, event: Event | Mapping[str, object], workspace: Workspace
    ) -> np.ndarray:
        """The rows of one segment that the event matches, in no order; of a single segment, in the reused buffer."""
        rows, coupled = workspace.match_one(segment, event, self.timestamps, snapshot.rows)
        if snapshot.died is not None:
            rows = snapshot.living(np.array([0, len(rows)]), rows)
        if not (coupled or segment.meta["verified"]):
            return rows if len(snapshot.segments) == 1 else rows.copy()  # the buffer is the next segment's
        doubtful = np.full(len(rows), True) if coupled else (rows & np.int32(VERIFY_BIT)) != 0
        rows = rows & np.int32(SLOT_MASK)
        if not doubtful.any():
            return rows
        whole = Event.of(event, self.timestamps)
        judged = [row for row in rows[doubtful].tolist() if self._judge(row, whole)]
        return np.concatenate([rows[~doubtful], np.array(judged, np.int32)])

    def _read(self, event: Event | Mapping[str, object]) -> Event:
        return Event.of(event, self.timestamps) if self.schema is None else self.schema.read(event)

    def _judge(self, row: int, event: Event) -> bool:
        """Whether a filter matches an event that is in codes already, if there is a schema."""
        return any(conjunction.matches(event) for conjunction in self._filter_of(row).conjunctions)

    def _filter_of(self, row: int) -> Filter:
        found = self._filters.get(row)
        if found is None:
            text, dialect = self._texts.get(row)
            found = Filter.parse(text, dialect, self.schema)
            if len(self._filters) >= FILTERS_KEPT:
                self._filters.clear()
            self._filters[row] = found
        return found

    def _take_workspace(self) -> Workspace:
        try:
            return self._workspaces.pop()
        except IndexError:
            workspace = Workspace()
            self._counting.append(workspace)
            return workspace

    def _check(self) -> None:
        """Assert every invariant; for tests."""
        snapshot = self._segment_set.snapshot
        held: list[int] = [entry.row for entry in snapshot.head_entries()]
        for segment in snapshot.segments:
            dead = snapshot.dead(segment.slots)
            held += segment.slots[~dead].tolist() if dead is not None else segment.slots.tolist()
        satisfiable = {row for row in self._ids.live().tolist() if self._filter_of(row).is_satisfiable()}
        assert satisfiable <= set(held), "a live subscription is in no segment"
        assert len(held) == len(set(held)), "a row is in two segments"
        assert set(held) <= set(self._ids.live().tolist()), "a dead row is alive in a segment"
        assert snapshot.rows == self._ids.rows == len(self._texts), "ids, texts and rows disagree"
        assert snapshot.died is None or len(snapshot.died) >= snapshot.rows, "a row has no room to die"
        if snapshot.moved is not None:
            assert len(snapshot.moved) >= snapshot.rows, "a row has no room to be moved"
            assert (snapshot.moved <= 0).all(), "a place is not older"
            assert len(set(snapshot.places(self._ids.live()).tolist())) == len(self), "two have one place"
        self._ids._check()
        self._texts._check()
