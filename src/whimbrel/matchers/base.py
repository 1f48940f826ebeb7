"""What all matchers of the papers share; the role itself is the protocol `whimbrel.model.matcher.Matcher`.

`BaseMatcher` turns filters into conjunctions, stores equal conjunctions once, keeps filters that hold always or never
out of the structure, and maps conjunctions back to subscription ids in order of addition. A matcher sees numbered
conjunctions only: it has `_insert`, `_delete` and `_search`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from whimbrel.matchers.capabilities import Capabilities
from whimbrel.matchers.papers import Paper
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.errors import DuplicateId, FilterError, IdKindError, RowError, UnknownId
from whimbrel.model.event import Event, attribute_names
from whimbrel.model.event_tables import as_arrow, read_events, read_good_events, read_typed_events
from whimbrel.model.explain import Explanation, explain
from whimbrel.model.filter import Filter
from whimbrel.model.matcher import Errors, Matcher
from whimbrel.model.near_misses import NearMiss, near_misses
from whimbrel.model.subscription import Id, Subscription, check_columns, id_kind, pairs_of, plain_id

if TYPE_CHECKING:
    import pyarrow as pa

    from whimbrel.model.event_schema import EventSchema

Stats = dict[str, int | float | str]


class BaseMatcher(Matcher, ABC):
    """A set of subscriptions that finds those an event matches.

    `timestamps` names attributes whose strings are read as timestamps. The first filter that was typed against a schema
    gives the matcher that `schema`: it then types filters and reads events. Not thread-safe: one thread at a time.
    """

    name: ClassVar[str]
    paper: ClassVar[Paper]
    section: ClassVar[str]
    """Where the paper describes the algorithm."""
    capabilities: ClassVar[Capabilities]

    def __init__(self, timestamps: Iterable[str] = ()) -> None:
        self.timestamps = attribute_names(timestamps, "timestamps")
        self.schema: EventSchema | None = None
        self._kind: str | None = None
        self._next_place = 0
        self._places: dict[Id, int] = {}
        self._subscriptions: dict[int, Subscription] = {}  # by place: the order of addition
        self._always: set[int] = set()
        self._numbers: dict[Conjunction, int] = {}
        self._conjunctions: dict[int, Conjunction] = {}  # by number
        self._holders: dict[int, set[int]] = {}  # conjunction number -> places
        self._next_number = 0
        self._uses: Counter[str] = Counter()  # how many conjunctions mention each attribute

    def add(self, id: Id, filter: object, dialect: str = "sql") -> None:
        """Add a subscription. DuplicateId if the id is there, UnsupportedFilter outside the capabilities."""
        self._check_kind(id)
        if id in self._places:
            raise DuplicateId(id)
        parsed = self._prepare(filter, dialect)
        self._kind = id_kind(id)
        self._places[plain_id(id)] = self._next_place
        self._put(self._next_place, Subscription(plain_id(id), parsed))
        self._next_place += 1

    def add_many(self, subscriptions: Iterable[tuple[Id, object]] | pa.Table, dialect: str = "sql") -> None:
        """Add many subscriptions, all or none: pairs of id and filter, or an Arrow table with columns id and filter.

        The first bad id or filter raises what `add` would raise.
        """
        ids, filters = id_and_filter_lists(subscriptions)
        self._new_kind(ids)
        for id, parsed in zip(ids, [self._prepare(filter, dialect) for filter in filters], strict=True):
            self.add(id, parsed)

    def remove(self, id: Id) -> None:
        """Remove a subscription; UnknownId if it is not there."""
        self._take(self._place(id))
        del self._places[id]

    def replace(self, id: Id, filter: object, dialect: str = "sql") -> None:
        """Give a subscription another filter; it keeps its place in the order."""
        place = self._place(id)
        parsed = self._prepare(filter, dialect)
        self._take(place)
        self._put(place, Subscription(plain_id(id), parsed))

    def match(self, event: Event | Mapping[str, object]) -> list[Id]:
        """The ids of the subscriptions that the event matches, each once, in order of addition."""
        return [self._subscriptions[place].id for place in sorted(self._match_places(event))]

    def match_batch(self, events: object, *, errors: Errors | None = None) -> pa.Table:
        """Match many events (dicts, Arrow, pandas or polars): a table of event row and subscription.

        The first bad event is raised with its row; with `errors`, each is put there as (row, error).
        """
        if errors is not None:
            return self._match_good(events, errors)

        def pairs() -> Iterator[tuple[int, Id]]:
            for row, event in enumerate(self._read_all(events)):
                for place in self._match_places(event):
                    yield row, self._subscriptions[place].id

        return _pairs_table(pairs(), self._kind or "int64")

    def explain(self, id: Id, event: Event | Mapping[str, object]) -> Explanation:
        """Why a subscription matches an event or not: each constraint, held or not, and the values seen."""
        return explain(self[id].filter, self._read(event))

    def near_misses(self, event: Event | Mapping[str, object], limit: int = 10) -> list[NearMiss]:
        """The subscriptions that almost match: fewest failed constraints first, then order of addition."""
        return near_misses((self[id] for id in self), self._read(event), limit)

    def attributes(self) -> frozenset[str]:
        """The attributes that some filter mentions."""
        return frozenset(self._uses)

    def stats(self) -> Stats:
        """Counts of what is stored; members add the work that they counted."""
        return {
            "matcher": self.name,
            "subscriptions": len(self._places),
            "conjunctions": len(self._numbers),
            "always_true": len(self._always),
            **self._member_stats(),
        }

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, id: object) -> bool:
        return id in self._places and not isinstance(id, bool)

    def __getitem__(self, id: Id) -> Subscription:
        return self._subscriptions[self._place(id)]

    def __iter__(self) -> Iterator[Id]:
        return (self._subscriptions[place].id for place in sorted(self._subscriptions))

    def _match_places(self, event: Event | Mapping[str, object]) -> set[int]:
        event = self._read(event)
        self.capabilities.check_event(self.name, event, self._mentioned)
        places = set(self._always)
        for number in self._search(event):
            places |= self._holders[number]
        return places

    def _mentioned(self, attribute: str) -> bool:
        return attribute in self._uses

    def _read(self, event: Event | Mapping[str, object]) -> Event:
        """One event, in codes if there is a schema."""
        return Event.of(event, self.timestamps) if self.schema is None else self.schema.read(event)

    def _read_all(self, events: object) -> Iterator[Event]:
        """The events of any supported shape, in codes if there is a schema."""
        if self.schema is not None:
            return read_typed_events(self.schema, events)
        return read_events(events, self.attributes(), self.timestamps)

    def _match_good(self, events: object, errors: Errors) -> pa.Table:
        """`match_batch` of the good events; the others go to `errors`."""
        rows, good = array("q"), list[Event]()
        attributes, schema = self.attributes(), self.schema
        if schema is not None:
            table = as_arrow(events)
            events, attributes = (events, frozenset()) if table is None else (table, frozenset(table.column_names))
        for row, event in read_good_events(events, attributes, self.timestamps if schema is None else (), errors):
            try:
                good.append(event if schema is None else schema.read(event, row))
            except RowError as error:
                errors.append((row, error))
                continue
            rows.append(row)
        errors.sort(key=lambda one: one[0])
        found = self.match_batch(good)
        import pyarrow as pa

        return found.set_column(0, "event", pa.array(rows, pa.int64()).take(found["event"]))

    def _parse(self, filter: object, dialect: str) -> Filter:
        """The filter, typed if there is a schema."""
        parsed = filter if isinstance(filter, Filter) else Filter.parse(filter, dialect, self.schema)
        return parsed if self.schema is None else self.schema.typed(parsed)

    def _prepare(self, filter: object, dialect: str) -> Filter:
        parsed = self._parse(filter, dialect)
        if self.schema is None and parsed.schema is not None and self._places:
            raise FilterError("Expected a filter without a schema, as the first one was, but got one with a schema")
        for conjunction in parsed.conjunctions:
            self.capabilities.check(self.name, conjunction)
            self._accept(conjunction)
        self.schema = parsed.schema
        return parsed

    def _put(self, place: int, subscription: Subscription) -> None:
        self._subscriptions[place] = subscription
        for conjunction in subscription.filter.conjunctions:
            if conjunction.is_true():
                self._always.add(place)
                continue
            number = self._numbers.get(conjunction)
            if number is None:
                number = self._next_number
                self._insert(number, conjunction)
                self._next_number += 1
                self._numbers[conjunction], self._conjunctions[number] = number, conjunction
                self._uses.update(conjunction.attributes)
                self._holders[number] = set()
            self._holders[number].add(place)

    def _take(self, place: int) -> None:
        subscription = self._subscriptions.pop(place)
        self._always.discard(place)
        for conjunction in subscription.filter.conjunctions:
            number = self._numbers.get(conjunction)
            if number is None:
                continue
            holders = self._holders[number]
            holders.discard(place)
            if not holders:
                del self._numbers[conjunction], self._conjunctions[number], self._holders[number]
                self._delete(number, conjunction)
                for attribute in conjunction.attributes:
                    self._uses[attribute] -= 1
                    if not self._uses[attribute]:
                        del self._uses[attribute]

    def _place(self, id: object) -> int:
        self._check_kind(id)
        place = self._places.get(id)  # type: ignore[call-overload]
        if place is None:
            raise UnknownId(id)
        return int(place)

    def _new_kind(self, ids: Sequence[Id]) -> str | None:
        """The kind of all ids, which must be new ones of one kind."""
        kind = self._kind
        for id in ids:
            found = id_kind(id)
            if kind not in (None, found):
                raise IdKindError(id, str(kind))
            kind = found
            if id in self._places:
                raise DuplicateId(id)
        if len(set(ids)) < len(ids):
            raise DuplicateId(next(id for id, times in Counter(ids).items() if times > 1))
        return kind

    def _check_kind(self, id: object) -> None:
        if self._kind not in (None, id_kind(id)):
            raise IdKindError(id, str(self._kind))

    def _check(self) -> None:
        """Assert every invariant; for tests."""
        assert len(self._places) == len(self._subscriptions)
        for place, subscription in self._subscriptions.items():
            assert self._places[subscription.id] == place
            for conjunction in subscription.filter.conjunctions:
                if not conjunction.is_true():
                    assert place in self._holders[self._numbers[conjunction]]
        for number, holders in self._holders.items():
            assert holders and number < self._next_number
        assert self._conjunctions == {number: conjunction for conjunction, number in self._numbers.items()}
        assert self._conjunctions.keys() == self._holders.keys()
        assert self._uses == Counter(attribute for c in self._numbers for attribute in c.attributes)

    def _accept(self, conjunction: Conjunction) -> None:
        """Raise a typed error if this member cannot hold the conjunction; nothing has changed yet."""

    @abstractmethod
    def _insert(self, number: int, conjunction: Conjunction) -> None:
        """Store a conjunction under its number; it has at least one constraint or link."""

    @abstractmethod
    def _delete(self, number: int, conjunction: Conjunction) -> None:
        """Forget a conjunction."""

    @abstractmethod
    def _search(self, event: Event) -> Iterable[int]:
        """The numbers of the conjunctions that the event satisfies."""

    def _member_stats(self) -> Stats:
        """The member's own counts."""
        return {}


def id_and_filter_lists(subscriptions: Iterable[tuple[Id, object]] | pa.Table) -> tuple[list[Id], list[object]]:
    """The ids and the filters of pairs, or of an Arrow table with columns id and filter."""
    import pyarrow as pa

    if isinstance(subscriptions, pa.Table):
        check_columns(subscriptions)
        return subscriptions["id"].to_pylist(), subscriptions["filter"].to_pylist()
    pairs = list(pairs_of(subscriptions))
    return [plain_id(id) for id, _ in pairs], [filter for _, filter in pairs]


def _pairs_table(pairs: Iterable[tuple[int, Id]], kind: str) -> pa.Table:
    """The table of pairs as Arrow; ids of `kind` string are a dictionary column."""
    import pyarrow as pa

    rows = array("q")
    if kind == "int64":
        ids = array("q")
        for row, id in pairs:
            rows.append(row)
            ids.append(int(id))
        return pa.table({"event": pa.array(rows, pa.int64()), "subscription": pa.array(ids, pa.int64())})
    numbers: dict[str, int] = {}
    indices = array("i")
    for row, id in pairs:
        rows.append(row)
        indices.append(numbers.setdefault(str(id), len(numbers)))
    names = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(list(numbers), pa.string()))
    return pa.table({"event": pa.array(rows, pa.int64()), "subscription": names})
