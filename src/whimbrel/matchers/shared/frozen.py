"""What the compiled matchers share: arrays that kernels search, and the conjunctions that came since they were built.

`add` and `remove` are cheap. A new conjunction waits in `_fresh` and is checked one by one; a removed one loses its
holders. A match counts the conjunctions that it checks one by one. When these checks are as many as the conjunctions
to compile, the next match compiles everything, so that the total cost is at most twice that of the best choice.
`freeze()` compiles at once. A matcher says how rows are laid out (`_build`) and searched (`_run`). Batches take no
Python work per event or per match.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Protocol

import numpy as np

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.language.columnar.terms import Conjunctions, ParsedMany, parse_many
from whimbrel.matchers.shared.base import BaseMatcher, Stats
from whimbrel.matchers.shared.bulk import BulkLoads, RowHolders, other_rows
from whimbrel.matchers.shared.conjunction_rows import ConjunctionRows, compile_rows
from whimbrel.matchers.shared.event_ranks import MISSING, EventGrid, event_grid, event_ranks
from whimbrel.matchers.shared.runs import offsets, take_runs
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.event import Event
from whimbrel.model.event_tables import as_arrow, rows_of
from whimbrel.model.filter import Filter
from whimbrel.model.subscription import Id, Subscription, ids_and_filters
from whimbrel.ranks.encoding.event_encoder import EventEncoder

if TYPE_CHECKING:
    import pyarrow as pa

_TABLE_EVENTS = 1 << 16  # of a table that are encoded at once
_LISTED_EVENTS = 1 << 10  # of all other forms
_SPARE = 1 << 16  # results that the buffer holds beside two of each row
_NOBODY: frozenset[int] = frozenset()


class FrozenMatcher(BaseMatcher):
    """A matcher whose search runs on arrays that are compiled from all conjunctions.

    `add_many` keeps texts as columns: a place and an id for each, but no filter object.
    """

    def __init__(self, timestamps: Iterable[str] = (), count: bool = False) -> None:
        super().__init__(timestamps, count)
        self._bulk = BulkLoads()
        self._events = 0
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
        self._fresh: dict[int, Conjunction] = {}  # what came since, by number
        self._spent = 0  # how many of these were checked one by one
        self._loaded = False  # whether columns came since
        self._links: tuple[int, RowHolders] | None = None  # as they were after so many changes

    def add_many(self, subscriptions: Iterable[tuple[Id, object]] | pa.Table, dialect: str = "sql") -> None:
        """Add many subscriptions, all or none: pairs of id and filter, or an Arrow table with columns id and filter.

        Texts that share a shape stay columns of literals.
        """
        ids, given = ids_and_filters(subscriptions)
        kind = self._new_kind(ids)
        texts = [filter for filter in given if isinstance(filter, str)]
        if self.schema is None and len(texts) == len(given):
            parsed = parse_many(texts, dialect)
        else:
            parsed = ParsedMany(len(given), filters={row: self._parse(one, dialect) for row, one in enumerate(given)})
        if parsed.errors:
            raise parsed.errors[0][1]
        filters = dict(parsed.filters)
        loads: list[Conjunctions] = []
        for one in parsed.conjunctions:
            is_kept = np.zeros(len(given), np.bool_)
            is_kept[one.rows] = True
            is_kept[other_rows(one, self.capabilities)] = False
            loads.append(one.only(is_kept))
            rest = np.unique(one.rows[~is_kept[one.rows]])
            filters.update((row, Filter.parse(texts[row], dialect)) for row in rest.tolist())
        first = len(self._ids)
        with self._all_or_nothing():
            for row in sorted(filters):
                self._prepare(filters[row], dialect)
            for row in sorted(filters):
                self._put(first + row, Subscription(ids[row], filters[row]))
            self._places.update(zip(ids, range(first, first + len(ids)), strict=True))
            self._ids += ids
            self._kind = kind
        for one in loads:
            self._bulk.add(one, texts, dialect, first)
        self._loaded = self._loaded or bool(loads)
        self._changes += 1

    def remove(self, id: Id) -> None:
        place = self._place(id)
        if place in self._subscriptions:
            super().remove(id)
        else:
            self._bulk.removed.add(place)
            self._changes += 1
            self._leave(id)

    def replace(self, id: Id, filter: object, dialect: str = "sql") -> None:
        place = self._place(id)
        if place in self._subscriptions:
            super().replace(id, filter, dialect)
        else:
            with self._all_or_nothing():
                self._put(place, Subscription(self._ids[place], self._prepare(filter, dialect)))
            self._bulk.removed.add(place)

    def _move(self, moved: Mapping[int, int]) -> None:
        self._bulk.move(moved, len(self._ids))
        super()._move(moved)
        self._loaded = True  # what was compiled has the old places

    def attributes(self) -> frozenset[str]:
        return super().attributes() | self._bulk.attributes

    def __getitem__(self, id: Id) -> Subscription:
        place = self._place(id)
        if place in self._subscriptions:
            return self._subscriptions[place]
        return Subscription(self._ids[place], self._bulk.filter(place))

    def _mentioned(self, attribute: str) -> bool:
        return attribute in self._uses or attribute in self._bulk.attributes

    def match_blocks(self, events: object) -> Iterator[tuple[Int64s, Int32s]]:
        """Match many events block by block: yields (offsets, places) for each block; `ids(places)` names the places."""
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
                yield links.expand(self._out[: ends[stop - 1]], ends[done:stop])
                done = stop

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

    def _search_places(self, event: Event) -> set[int]:
        self._settle()
        places = super()._search_places(event)
        for owner in self._frozen_owners(event):
            if owner >= 0:
                places |= self._holders.get(owner, _NOBODY)
            elif ~owner not in self._bulk.removed:
                places.add(~owner)
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
        assert self._bulk.removed <= set(range(len(self._ids)))
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
        """Lay the rows out. Return the order in which they are numbered from now on, or None if it stays."""

    @abstractmethod
    def _run(self, block: EventGrid, event: int, out: Int32s, ends: Int64s) -> int:
        """Search the events of a block from `event` on until `out` may not hold the rows of the next one.

        Writes the rows into `out`, and where those of each event end into `ends`. Returns the event where it stopped.
        """

    @abstractmethod
    def _sizes(self) -> Stats:
        """The sizes of the compiled structure, for `stats()`."""

    @abstractmethod
    def _check_structure(self) -> None:
        """Assert the invariants of the arrays."""


class RecentStructure(Protocol):
    """The role of a structure that holds the conjunctions that are not compiled yet."""

    def insert(self, number: int, conjunction: Conjunction) -> None: ...
    def delete(self, number: int, conjunction: Conjunction) -> None: ...
    def search(self, event: Event, work: Counter[str]) -> list[int]: ...


class CountingMatcher(FrozenMatcher):
    """A compiled matcher that keeps new conjunctions, up to a sixteenth of all, in a structure that can change."""

    @abstractmethod
    def _new_recent(self) -> RecentStructure:
        """An empty structure for new conjunctions, which finds and counts as the compiled one does."""

    def freeze(self) -> None:
        super().freeze()
        self._recent = self._new_recent()

    def _insert(self, number: int, conjunction: Conjunction) -> None:
        self._recent.insert(number, conjunction)
        super()._insert(number, conjunction)

    def _delete(self, number: int, conjunction: Conjunction) -> None:
        if number in self._fresh:
            self._recent.delete(number, conjunction)
        super()._delete(number, conjunction)

    def _settle(self) -> None:
        """Compile if the new conjunctions are many, or most of what is compiled is removed."""
        stored = self._stored()
        if self._loaded or 16 * len(self._fresh) > stored or len(self._owners) > 2 * stored + 1_024:
            self.freeze()

    def _search(self, event: Event) -> Iterable[int]:
        if not self._fresh:
            return ()
        work: Counter[str] = Counter()
        found = self._recent.search(event, work)
        if self._counters is not None:
            work["quarantine_additions"] = work["additions"]
            self._counters += [work[name] for name in self.counted]
        return found

    def _check(self) -> None:
        super()._check()
        fresh = self._new_recent()
        for number, conjunction in self._fresh.items():
            fresh.insert(number, conjunction)
        assert fresh == self._recent
