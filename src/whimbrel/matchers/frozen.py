"""What the compiled matchers share: arrays that kernels search, and the conjunctions that came since they were built.

`add` and `remove` are cheap. A new conjunction waits in `_fresh` and is checked one by one; a removed one loses its
holders. A match counts the conjunctions that it checks one by one. When these checks are as many as the conjunctions
to compile, the next match compiles everything, so that the total cost is at most twice that of the best choice.
`freeze()` compiles at once. A matcher says how rows are laid out (`_build`) and searched (`_run`). Batches take no
Python work per event or per match.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from whimbrel.matchers.base import Stats
from whimbrel.matchers.bulk import BulkMatcher
from whimbrel.matchers.conjunction_rows import ConjunctionRows, compile_rows
from whimbrel.matchers.constant_ranks import event_ranks
from whimbrel.matchers.row_holders import RowHolders
from whimbrel.matchers.runs import Int32s, Int64s, offsets, take_runs
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.event import Event
from whimbrel.model.event_tables import as_arrow, rows_of
from whimbrel.model.matcher import Errors
from whimbrel.ranks.encoding.event_encoder import EventEncoder
from whimbrel.ranks.encoding.event_grid import MISSING, EventGrid, event_grid

if TYPE_CHECKING:
    import pyarrow as pa

_TABLE_EVENTS = 1 << 16
_LISTED_EVENTS = 1 << 10
_SPARE = 1 << 16
_NOBODY: frozenset[int] = frozenset()


class FrozenMatcher(BulkMatcher):
    """A matcher whose search runs on arrays that are compiled from all conjunctions."""

    counted: ClassVar[tuple[str, ...]]
    """The names of the work that the kernel counts, in its order."""

    def __init__(self, timestamps: Iterable[str] = (), count: bool = False) -> None:
        super().__init__(timestamps)
        self._counters = np.zeros(len(self.counted), dtype=np.int64) if count else None
        self._events = 0
        self._fresh: dict[int, Conjunction] = {}
        self._spent = 0
        self._links: RowHolders | None = None
        self.freeze()

    def freeze(self) -> None:
        """Compile everything that is stored."""
        rows = compile_rows(list(self._conjunctions.items()), self._bulk.groups, self._bulk.owners(self._next_place))
        order = self._build(rows)
        self._names, self._dictionary, self._encoder = (
            rows.dictionary.names,
            rows.dictionary,
            EventEncoder(rows.dictionary),
        )
        self._row_count = len(rows)
        self._owner_start, self._owners = rows.owner_start, rows.owner
        if order is not None:
            self._owner_start, self._owners = take_runs(rows.owner_start, rows.owner, order)
        self._out = np.empty(2 * len(rows) + _SPARE, dtype=np.int32)
        self._fresh = {}
        self._spent = 0
        self._loaded = False
        self._links = None

    def match_blocks(self, events: object) -> Iterator[tuple[Int64s, Int32s]]:
        """Match many events block by block: yields (offsets, places) for each block; `ids(places)` names the places."""
        for links, rows, ends in self._runs(events):
            yield links.expand(rows, ends)

    def count_batch(self, events: object) -> tuple[int, int]:
        """How many events there are, and how many pairs of event and matching subscription."""
        seen = matches = 0
        for links, rows, ends in self._runs(events):
            seen += len(ends)
            matches += links.count(rows, ends)
        return seen, matches

    def match_batch(self, events: object, *, errors: Errors | None = None) -> pa.Table:
        """Match many events (dicts, Arrow, pandas or polars): a table of event row and subscription.

        The first bad event is raised with its row; with `errors`, each is put there as (row, error).
        """
        if errors is not None:
            return self._match_good(events, errors)
        import pyarrow as pa

        rows, places, seen = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int32)], 0
        for starts, found in self.match_blocks(events):
            rows.append(np.repeat(np.arange(seen, seen + len(starts) - 1), np.diff(starts)))
            places.append(found)
            seen += len(starts) - 1
        index = pa.array(np.concatenate(places))
        is_text = self._kind == "string"
        names = pa.array(self._ids, pa.string() if is_text else pa.int64())
        column = pa.DictionaryArray.from_arrays(index, names) if is_text else names.take(index)
        return pa.table({"event": np.concatenate(rows), "subscription": column})

    def _holders_changed(self) -> None:
        self._links = None

    def _insert(self, number: int, conjunction: Conjunction) -> None:
        self._fresh[number] = conjunction

    def _delete(self, number: int, conjunction: Conjunction) -> None:
        self._fresh.pop(number, None)

    def _settle(self) -> None:
        """Compile if enough was checked one by one (see the top of the file)."""
        self._spent += len(self._fresh)
        stored = self._stored()
        if self._loaded or self._spent > stored // 2 or len(self._owners) > 2 * stored + _LISTED_EVENTS:
            self.freeze()

    def _stored(self) -> int:
        return len(self._numbers) + self._bulk.conjunctions - len(self._bulk.removed)

    def _match_places(self, event: Event | Mapping[str, object]) -> set[int]:
        event = self._read(event)
        self.capabilities.check_event(self.name, event, self._mentioned)
        self._settle()
        places = set(self._always)
        for owner in self._frozen_owners(event):
            if owner >= 0:
                places |= self._holders.get(owner, _NOBODY)
            elif ~owner not in self._bulk.removed:
                places.add(~owner)
        for number in self._search(event):
            places |= self._holders[number]
        return places

    def _search(self, event: Event) -> Iterable[int]:
        """The numbers, among those that are not compiled yet, of the conjunctions that the event satisfies."""
        return [number for number, conjunction in self._fresh.items() if conjunction.matches(event)]

    def _frozen_owners(self, event: Event) -> list[int]:
        self._events += 1
        if not self._row_count:
            return []
        ends = np.zeros(1, dtype=np.int64)
        self._run(self._grid(event), 0, self._out, ends)
        rows = self._out[: ends[0]].astype(np.int64)
        owners: list[int] = take_runs(self._owner_start, self._owners, rows)[1].tolist()
        return owners

    def _grid(self, event: Event) -> EventGrid:
        """One event as ranks; without the encoder, which takes 20 us more for an event that is read already."""
        first = np.full((1, len(self._names)), MISSING, dtype=np.int32)
        for attr, ranks in event_ranks(self._dictionary, event):
            if len(ranks) > 1:
                return event_grid(self._encoder.encode_event(event), len(self._names))
            first[0, attr] = ranks[0]
        return EventGrid(first)

    def _runs(self, events: object) -> Iterator[tuple[RowHolders, Int32s, Int64s]]:
        """The rows that events match, in the reused buffer, and where those of each event end."""
        if self._loaded or self._fresh:
            self.freeze()
        links = self._linked()
        for block in self._blocks(events):
            self._events += len(block)
            ends = np.zeros(len(block), dtype=np.int64)
            done = 0
            while done < len(block):
                stop = self._run(block, done, self._out, ends) if self._row_count else len(block)
                yield links, self._out[: ends[stop - 1]], ends[done:stop]
                done = stop

    def _blocks(self, events: object) -> Iterator[EventGrid]:
        table = as_arrow(events) if self.schema is None else None
        if table is not None:
            for start in range(0, table.num_rows, _TABLE_EVENTS):
                part = rows_of(table, start, start + _TABLE_EVENTS)
                encoded = self._encoder.encode_table(part, self.timestamps)
                block = event_grid(encoded, len(self._names))
                # Events with arrays of objects, or with lists that are not supported, are looked at one by one.
                is_plain = not encoded.coupled.any() and (self.capabilities.lists or not block.starts.size)
                yield from [block] if is_plain else self._listed(part)
        else:
            yield from self._listed(events)

    def _listed(self, events: object) -> Iterator[EventGrid]:
        """Events one by one, for all that is not a table of plain columns."""
        waiting: list[Event] = []
        for event in self._read_all(events):
            self.capabilities.check_event(self.name, event, self._mentioned)
            waiting.append(event)
            if len(waiting) == _LISTED_EVENTS:
                yield event_grid(self._encoder.encode_events(waiting), len(self._names))
                waiting = []
        if waiting:
            yield event_grid(self._encoder.encode_events(waiting), len(self._names))

    def _linked(self) -> RowHolders:
        """The places of each row as they are now."""
        if self._links is None:
            owners = self._owners
            loose = owners >= 0
            held = [sorted(self._holders.get(owner, _NOBODY)) for owner in owners[loose].tolist()]
            lengths = np.ones(len(owners), dtype=np.int64)
            lengths[np.isin(~owners, np.array(sorted(self._bulk.removed), dtype=np.int64))] = 0
            lengths[loose] = [len(places) for places in held]
            places = np.repeat(~owners, lengths)
            places[np.repeat(loose, lengths)] = [place for found in held for place in found]
            always = np.array(sorted(self._always), dtype=np.int64)
            uses = np.bincount(np.concatenate([places, always]))
            several = bool(len(uses)) and bool(uses.max() > 1)
            start = offsets(lengths)[self._owner_start]
            size = self._next_place
            self._links = RowHolders(start, places.astype(np.int32), always.astype(np.int32), size, several)
        return self._links

    def _member_stats(self) -> Stats:
        stats: Stats = {
            "conjunctions": self._stored(),
            "rows": self._row_count,
            "waiting": len(self._fresh),
            "events": self._events,
            **self._sizes(),
        }
        if self._counters is not None:
            stats.update(zip(self.counted, self._counters.tolist(), strict=True))
        return stats

    def _check(self) -> None:
        super()._check()
        live = set(self._holders)
        frozen = {owner for owner in self._owners.tolist() if owner >= 0}
        assert self._fresh.keys() <= live and not self._fresh.keys() & frozen
        assert live <= frozen | self._fresh.keys()
        assert len(self._owner_start) == self._row_count + 1 and self._owner_start[-1] == len(self._owners)
        if not self._loaded:
            loaded = {place for place in self._places.values() if place not in self._subscriptions}
            dropped = loaded - {~owner for owner in self._owners.tolist() if owner < 0}
            assert not any(self._bulk.filter(place).is_satisfiable() for place in dropped)
        self._check_structure()

    @abstractmethod
    def _build(self, rows: ConjunctionRows) -> Int64s | None:
        """Lay the rows out; the order in which they are numbered from now on, or None if it stays."""

    @abstractmethod
    def _run(self, block: EventGrid, event: int, out: Int32s, ends: Int64s) -> int:
        """Search the events of a block from `event` on until `out` may not hold the rows of the next one.

        Writes the rows into `out` and where those of each event end into `ends`; the event at which it stopped.
        """

    @abstractmethod
    def _sizes(self) -> Stats:
        """How large the structure is."""

    @abstractmethod
    def _check_structure(self) -> None:
        """Assert the invariants of the arrays."""
