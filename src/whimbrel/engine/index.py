"""The public index: subscriptions in, events in, ids out.

A lock lets one thread at a time change the index; any number of threads match, each on its own snapshot, and never
wait. A change is visible to the next match. `engine/live/` holds the state, `engine/matching/` searches it.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from whimbrel.engine.access.warm_up import WARM_UP
from whimbrel.engine.intake.subscriptions import admit, read_subscriptions
from whimbrel.engine.live.subscription_set import SubscriptionSet
from whimbrel.engine.matching.blocks import Search, match_event, match_units
from whimbrel.engine.matching.event_sources import open_source, sample_of
from whimbrel.engine.matching.results import pairs_table
from whimbrel.engine.matching.units import FIRST_UNIT, Units
from whimbrel.engine.matching.workspace import Workspaces
from whimbrel.model import dialects
from whimbrel.model.errors import FilterWarning
from whimbrel.model.event import AnyEvent, Event, attribute_names
from whimbrel.model.filter import Filter
from whimbrel.model.matcher import Errors, Matcher
from whimbrel.model.options import check_callable, check_instance, whole_number
from whimbrel.model.subscription import Id, Subscription, plain_id

if TYPE_CHECKING:
    import pyarrow as pa

    from whimbrel.engine.cost import FilterCost
    from whimbrel.model.explain import Explanation
    from whimbrel.model.near_misses import NearMiss
    from whimbrel.model.schema import Schema
    from whimbrel.storage.facts import Facts

T = TypeVar("T")

SAMPLE_EVENTS = 10_000
"""Events of a sample that the planner looks at."""


class Index(Matcher):
    """A set of subscriptions that finds the ones that an event matches.

    `timestamps` names attributes whose strings are read as timestamps. With a `schema`, filters are typed against it
    when they are added, invalid events are refused, and values compare as their domains say.

    >>> index = Index()
    >>> index.add("toy-deals", "category = 'Toy' AND price < 5")
    >>> index.match({"category": "Toy", "price": 3})
    ['toy-deals']
    """

    def __init__(self, timestamps: Iterable[str] = (), schema: Schema | None = None) -> None:
        self._timestamps = attribute_names(timestamps, "timestamps")
        if schema is not None:
            from whimbrel.model.schema import Schema  # only for those who use it

            check_instance("schema", schema, Schema, "a Schema")
        self._subscriptions = SubscriptionSet(schema)
        self._facts: dict[str, object] = {}
        self._workspaces = Workspaces()
        self._saving = threading.Lock()  # so that an earlier save does not overwrite a later one
        self._events = 0  # matched so far
        self._unit = FIRST_UNIT  # events of the last unit: the next batch is probably like the last one

    @property
    def timestamps(self) -> frozenset[str]:
        """The attributes whose strings are read as timestamps."""
        return self._timestamps

    @property
    def schema(self) -> Schema | None:
        """The schema of events and filters."""
        return self._subscriptions.schema

    @property
    def facts(self) -> dict[str, object]:
        """The facts that were saved with the index, if it was opened; else empty."""
        return dict(self._facts)

    def add(self, id: Id, filter: object, dialect: str = "sql", warn: bool = False) -> None:
        """Add a subscription; DuplicateId if the id is there. Visible to the next match.

        With `warn`, a filter that looks like a mistake gives a Python warning, `FilterWarning`.
        """
        admitted = admit(filter, dialect, self._subscriptions.schema)
        self._subscriptions.add(id, admitted)
        if warn:
            for hint in dialects.hints(admitted.filter):
                warnings.warn(f"{id!r}: {hint.message}", FilterWarning, stacklevel=2)

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
        if progress is not None:
            check_callable("progress", progress)
        WARM_UP.begin()
        batch = read_subscriptions(subscriptions, dialect, self.schema)
        self._subscriptions.add_many(batch, batch.parse(progress))

    def subscriptions(self) -> pa.Table:
        """All subscriptions, in order of addition, as a table that `add_many` takes: id, filter, dialect."""
        return self._subscriptions.table()

    def remove(self, id: Id) -> None:
        """Remove a subscription; UnknownId if it is not there."""
        self._subscriptions.remove(id)

    def replace(self, id: Id, filter: object, dialect: str = "sql") -> None:
        """Give a subscription another filter, atomically; it keeps its place in the order of results."""
        self._subscriptions.replace(id, admit(filter, dialect, self.schema))

    def match(self, event: AnyEvent) -> list[Id]:
        """The ids of the subscriptions that the event matches, each once, in order of addition."""
        return self._match(event, self._subscriptions.ids.name_list)

    def match_rows(self, event: AnyEvent) -> np.ndarray:
        """The rows (int32) of the subscriptions that the event matches, in the order of `match`.

        For callers that need the ids later, or only some of them: `ids` returns them. The array belongs to the caller.
        """
        return self._match(event, np.ndarray.copy)

    def _match(self, event: AnyEvent, convert: Callable[[np.ndarray], T]) -> T:
        """Match an event and convert its rows, which are in a buffer that the next match uses again."""
        held, timestamps = self._subscriptions, self._timestamps
        if held.schema is not None:
            event, timestamps = held.schema.read_for_match(event)
        snapshot = held.segments.ready()
        workspace = self._workspaces.take()
        try:
            rows = match_event(snapshot, event, timestamps, held, workspace)
            self._events += 1
            return convert(rows)
        finally:
            self._workspaces.give_back(workspace)

    def match_batch(self, events: object, threads: int | None = None, errors: Errors | None = None) -> pa.Table:
        """Match many events: a table of `event` (row number) and `subscription` (id), in event order.

        Events are a list or any iterable of objects or of JSON texts, JSON lines as bytes or a memory map, an Arrow
        table, batch or column of JSON, or a pandas or polars frame. The first bad event is raised with its row; with
        `errors`, a list, each is put there as (row, error) and has no matches.
        """
        return pairs_table(self.match_blocks(events, threads, errors), self._subscriptions.ids)

    def match_blocks(
        self, events: object, threads: int | None = None, errors: Errors | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Match many events in the fastest way: yield (offsets, rows) for a run of events at a time, in event order.

        Event e of the run has rows[offsets[e]:offsets[e + 1]]; `ids(rows)` returns their ids. Both arrays are reused:
        copy what must outlive the next step. Memory stays bounded however many pairs match. Takes what `match_batch`
        takes.
        """
        workers = (os.cpu_count() or 1) if threads is None else whole_number("threads", threads, least=1)
        if errors is not None:
            check_instance("errors", errors, list, "a list")
        return self._match_blocks(events, workers, errors)

    def _match_blocks(
        self, events: object, workers: int, errors: Errors | None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        source = open_source(events, self.schema)
        segments = self._subscriptions.segments
        snapshot = segments.ready_for_batch()
        first = self._unit if workers == 1 else FIRST_UNIT  # small, so that threads share even a few events
        units = Units(source, first)
        search = Search(snapshot, self._timestamps, self._subscriptions, errors is not None)
        for offsets, rows, refused in match_units(search, units, self._workspaces, workers):
            self._events += len(offsets) - 1
            segments.searched(snapshot, len(offsets) - 1, source.segment_ns)
            self._unit = units.size
            if errors is not None:
                errors.extend(refused)
            yield offsets, rows

    def ids(self, rows: np.ndarray) -> np.ndarray | pa.Array:
        """The ids of rows from `match_blocks`: an int64 array, or an Arrow array of strings."""
        return self._subscriptions.ids.names(rows)

    def explain(self, id: Id, event: AnyEvent) -> Explanation:
        """Why a subscription matches an event or not: each constraint, held or not, and the values seen."""
        from whimbrel.model.explain import explain

        return explain(self[id].filter, self._read(event))

    def near_misses(self, event: AnyEvent, limit: int = 10) -> list[NearMiss]:
        """The subscriptions that almost match: fewest failed constraints first, then order of addition."""
        from whimbrel.engine.matching.near_misses import nearest

        held, most = self._subscriptions, whole_number("limit", limit)
        return nearest(held.segments.compiled(), self._read(event), most, held.filter, held.ids.name)

    def analyze(self, sample: object) -> None:
        """Plan anew for events like these (any shape that match_batch takes); the first 10,000 are looked at."""
        taken = sample_of(open_source(sample, self.schema), SAMPLE_EVENTS, self._timestamps)
        with self._subscriptions.segments.lock:
            self._subscriptions.segments.plan_anew(taken)

    def merge(self) -> None:
        """Merge everything into one segment now."""
        with self._subscriptions.segments.lock:
            self._subscriptions.segments.merge()

    def stats(self) -> dict[str, object]:
        """Count what the index holds, its keys, its memory, and the work done so far.

        The keys are the fields of `whimbrel.engine.stats.IndexStats`.
        """
        from whimbrel.engine.stats import index_stats

        return index_stats(self._subscriptions, self._events, self._workspaces.counts()).to_dict()

    def plan(self, id: Id) -> dict[str, object]:
        """How one subscription is indexed: per conjunction the kind of key and the share of events that reach it.

        `cost_ns` is about what the subscription costs an event. Shares come from the sample of `analyze`, or are
        guessed without one.
        """
        from whimbrel.engine.access.explanation import plan

        segments = self._subscriptions.segments
        return plan(segments.compiled().segments, self._subscriptions.row(id), segments.sample).to_dict(id)

    def cost(self, filter: object, dialect: str = "sql") -> FilterCost:
        """What a filter would cost per event if it were added; nothing changes. Takes some 20 ms.

        Reports the kind of key of each conjunction, and what must be verified event by event. As for `plan`, shares
        come from the sample of `analyze`, or are guessed without one.
        """
        return next(self.costs([admit(filter, dialect, self.schema).filter]))

    def costs(self, filters: Sequence[Filter]) -> Iterator[FilterCost]:
        """What each of many filters would cost, as `cost` reports it. The first takes 20 ms, each other 0.3 ms."""
        from whimbrel.engine.cost import filter_costs

        check_instance("filters", filters, Sequence, "a list of Filters")
        for filter in filters:
            check_instance("filters", filter, Filter, "a list of Filters")
        return filter_costs(self._subscriptions, filters)

    def save(self, path: str | os.PathLike[str], facts: Facts | None = None) -> None:
        """Save to a directory, atomically: whatever happens, it holds the old index or the new one.

        Saves the index as it is at the call; changes may go on while files are written. `facts`, a small JSON object of
        the caller, is saved in the same step; the opened index returns it.
        """
        from whimbrel.engine.live.saved import SavedState
        from whimbrel.storage.facts import checked_facts

        check_instance("path", path, (str, os.PathLike), "a path")
        checked = checked_facts(facts)
        with self._saving:
            SavedState.take(self._subscriptions, self._timestamps).write(path, checked)

    @classmethod
    def open(cls, path: str | os.PathLike[str], verify: bool = True, timestamps: Iterable[str] | None = None) -> Index:
        """Open a saved index, memory-mapped; a file that is torn, foreign or newer is refused.

        `verify=False` skips the checksums of the data, for files that were verified before. `timestamps` replaces the
        names that were saved.
        """
        from whimbrel.engine.live.saved import open_index

        check_instance("path", path, (str, os.PathLike), "a path")
        opened = open_index(path, verify)
        index = cls(opened.timestamps if timestamps is None else timestamps)
        index._subscriptions, index._facts = opened.subscriptions, opened.facts
        return index

    def attributes(self) -> frozenset[str]:
        """The attributes that some filter mentions."""
        return self._subscriptions.segments.snapshot.attributes()

    @property
    def segments(self) -> int:
        """How many segments a match searches."""
        return len(self._subscriptions.segments.snapshot.segments)

    def __len__(self) -> int:
        return len(self._subscriptions.ids)

    def __contains__(self, id: object) -> bool:
        return self._subscriptions.find(id) >= 0

    def __getitem__(self, id: Id) -> Subscription:
        return Subscription(plain_id(id), self._subscriptions.filter(self._subscriptions.row(id)))

    def __iter__(self) -> Iterator[Id]:
        return iter(self._subscriptions)

    def _read(self, event: AnyEvent) -> Event:
        return Event.of(event, self._timestamps) if self.schema is None else self.schema.read(event)

    def _check(self) -> None:
        """Assert every invariant; for tests."""
        self._subscriptions._check()
