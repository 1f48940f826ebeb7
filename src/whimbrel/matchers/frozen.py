"""What the compiled matchers share: arrays that kernels search, and the conjunctions that came since they were built.

`add` and `remove` are cheap. A new conjunction waits in `_fresh` and is checked one by one; a removed one loses its
holders. A match counts the conjunctions that it checks one by one. When these checks are as many as the conjunctions
to compile, the next match compiles everything, so that the total cost is at most twice that of the best choice.
`freeze()` compiles at once. A matcher says how rows are laid out (`_build`) and searched (`_run`). Batches take no
Python work per event or per match.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.compiled.jit import kernel
from whimbrel.matchers.base import Stats
from whimbrel.matchers.bulk import BulkMatcher
from whimbrel.matchers.conjunction_rows import ConjunctionRows, compile_rows
from whimbrel.matchers.constant_ranks import event_ranks
from whimbrel.matchers.event_grid import MISSING, EventGrid, event_grid
from whimbrel.matchers.runs import offsets, take_runs
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.event import AnyEvent, Event
from whimbrel.model.event_tables import as_arrow, rows_of
from whimbrel.ranks.encoding.event_encoder import EventEncoder

if TYPE_CHECKING:
    import pyarrow as pa

_TABLE_EVENTS = 1 << 16
_LISTED_EVENTS = 1 << 10
_SPARE = 1 << 16
_NOBODY: frozenset[int] = frozenset()


class FrozenMatcher(BulkMatcher):
    """A matcher whose search runs on arrays that are compiled from all conjunctions."""

    def __init__(self, timestamps: Iterable[str] = (), count: bool = False) -> None:
        super().__init__(timestamps, count)
        self._events = 0
        self._fresh: dict[int, Conjunction] = {}
        self._spent = 0
        self.freeze()

    def freeze(self) -> None:
        """Compile everything that is stored."""
        rows = compile_rows(list(self._conjunctions.items()), self._bulk.loads, self._bulk.owners(len(self._ids)))
        order = self._build(rows)
        self._dictionary, self._encoder = rows.dictionary, EventEncoder(rows.dictionary)
        self._owner_start, self._owners = rows.owner_start, rows.owner
        if order is not None:
            self._owner_start, self._owners = take_runs(rows.owner_start, rows.owner, order)
        self._out = np.empty(2 * len(rows) + _SPARE, dtype=np.int32)
        self._fresh = {}
        self._spent = 0
        self._loaded = False
        self._links: tuple[int, RowHolders] | None = None  # as they were after so many changes

    def match_blocks(self, events: object) -> Iterator[tuple[Int64s, Int32s]]:
        """Match many events block by block: yields (offsets, places) for each block; `ids(places)` names the places."""
        for links, rows, ends in self._runs(events):
            yield links.expand(rows, ends)

    def _match_all(self, events: object) -> pa.Table:
        rows, places, seen = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int32)], 0
        for starts, found in self.match_blocks(events):
            rows.append(np.repeat(np.arange(seen, seen + len(starts) - 1), np.diff(starts)))
            places.append(found)
            seen += len(starts) - 1
        return self._pairs(np.concatenate(rows), np.concatenate(places))

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

    def _match_places(self, event: AnyEvent) -> set[int]:
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
        """The numbers of the conjunctions that are not compiled yet and that the event satisfies."""
        return [number for number, conjunction in self._fresh.items() if conjunction.matches(event)]

    def _frozen_owners(self, event: Event) -> list[int]:
        self._events += 1
        if len(self._owner_start) == 1:
            return []
        ends = np.zeros(1, dtype=np.int64)
        self._run(self._grid(event), 0, self._out, ends)
        rows = self._out[: ends[0]].astype(np.int64)
        owners: list[int] = take_runs(self._owner_start, self._owners, rows)[1].tolist()
        return owners

    def _grid(self, event: Event) -> EventGrid:
        """One event as ranks; without the encoder, which takes 20 us more for an event that is read already."""
        first = np.full((1, len(self._dictionary.names)), MISSING, dtype=np.int32)
        found = [] if self._dictionary.meta.links else event_ranks(self._dictionary, event)
        if self._dictionary.meta.links or any(len(ranks) > 1 for _, ranks in found):
            return event_grid(self._encoder.encode_event(event), len(self._dictionary.names))
        for attr, ranks in found:
            first[0, attr] = ranks[0]
        return EventGrid(first)

    def _runs(self, events: object) -> Iterator[tuple[RowHolders, Int32s, Int64s]]:
        """The rows that events match, in the reused buffer, and where the rows of each event end."""
        if self._loaded or self._fresh:
            self.freeze()
        links = self._linked()
        for block in self._blocks(events):
            count = len(block.first)
            self._events += count
            ends = np.zeros(count, dtype=np.int64)
            done = 0
            while done < count:
                stop = self._run(block, done, self._out, ends) if len(self._owner_start) > 1 else count
                yield links, self._out[: ends[stop - 1]], ends[done:stop]
                done = stop

    def _blocks(self, events: object) -> Iterator[EventGrid]:
        table = as_arrow(events) if self.schema is None else None
        if table is not None:
            for start in range(0, table.num_rows, _TABLE_EVENTS):
                part = rows_of(table, start, start + _TABLE_EVENTS)
                encoded = self._encoder.encode_table(part, self.timestamps)
                block = event_grid(encoded, len(self._dictionary.names))
                # Events with arrays of objects, or with lists that are not supported, are looked at one by one.
                is_plain = not encoded.coupled.any() and (self.capabilities.lists or not block.starts.size)
                yield from [block] if is_plain else self._listed(part)
        else:
            yield from self._listed(events)

    def _listed(self, events: object) -> Iterator[EventGrid]:
        """Events one by one, for all that is not a table of plain columns."""
        read = self._read_all(events)
        while waiting := list(islice(read, _LISTED_EVENTS)):
            for event in waiting:
                self.capabilities.check_event(self.name, event, self._mentioned)
            yield event_grid(self._encoder.encode_events(waiting), len(self._dictionary.names))

    def _linked(self) -> RowHolders:
        """The places that hold each row now, as arrays."""
        if self._links is None or self._links[0] != self._changes:
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
            size = len(self._ids)
            links = RowHolders(start, places.astype(np.int32), always.astype(np.int32), size, several)
            self._links = self._changes, links
        return self._links[1]

    def _member_stats(self) -> Stats:
        return {
            "conjunctions": self._stored(),
            "rows": len(self._owner_start) - 1,
            "waiting": len(self._fresh),
            "events": self._events,
            **self._sizes(),
        }

    def _check(self) -> None:
        super()._check()
        live = set(self._holders)
        frozen = {owner for owner in self._owners.tolist() if owner >= 0}
        assert self._fresh.keys() <= live and not self._fresh.keys() & frozen
        assert live <= frozen | self._fresh.keys()
        assert self._owner_start[-1] == len(self._owners)
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
        """The sizes of the compiled structure, for `stats()`."""

    @abstractmethod
    def _check_structure(self) -> None:
        """Assert the invariants of the arrays."""


@dataclass(slots=True)
class RowHolders:
    """The places of each row, and the places that every event matches."""

    start: Int64s  # [rows + 1]
    places: Int32s
    always: Int32s
    size: int  # places there are
    several: bool  # whether one event may reach a place twice
    _stamps: Int32s = field(init=False)
    _epoch: int = 0

    def __post_init__(self) -> None:
        self._stamps = np.zeros(self.size if self.several else 0, dtype=np.int32)

    def expand(self, rows: Int32s, ends: Int64s) -> tuple[Int64s, Int32s]:
        """The places of the rows of some events: where each event's places start and end, and the places."""
        if self._epoch > np.iinfo(np.int32).max - len(ends):
            self._stamps[:] = 0
            self._epoch = 0
        total = _total(rows, self.start) + len(ends) * len(self.always)
        out = np.empty(total, dtype=np.int32)
        starts = np.zeros(len(ends) + 1, dtype=np.int64)
        found = _expand(rows, ends, self.start, self.places, self.always, self._stamps, self._epoch, starts, out)
        self._epoch += len(ends)
        return starts, out[:found]


@kernel
def _total(rows: Int32s, start: Int64s) -> int:
    total = 0
    for row in rows:
        total += start[row + 1] - start[row]
    return total


@kernel
def _expand(
    rows: Int32s,
    ends: Int64s,
    start: Int64s,
    places: Int32s,
    always: Int32s,
    stamps: Int32s,
    epoch: int,
    starts: Int64s,
    out: Int32s,
) -> int:
    found = 0
    begin = 0
    for event in range(ends.size):
        epoch += 1
        for place in always:
            out[found] = place
            found += 1
            if stamps.size:
                stamps[place] = epoch
        for i in range(begin, ends[event]):
            for j in range(start[rows[i]], start[rows[i] + 1]):
                place = places[j]
                if stamps.size:
                    if stamps[place] == epoch:
                        continue
                    stamps[place] = epoch
                out[found] = place
                found += 1
        begin = ends[event]
        starts[event + 1] = found
    return found
