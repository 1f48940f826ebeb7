"""What all matchers of the papers share; the role itself is the protocol `whimbrel.model.matcher.Matcher`.

`BaseMatcher` turns filters into conjunctions, stores equal conjunctions once, keeps filters that hold always or never
out of the structure, and maps conjunctions back to subscription ids in order of addition. A matcher sees numbered
conjunctions only: it has `_insert`, `_delete` and `_search`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from numbers import Integral
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from whimbrel.matchers.shared.capabilities import Capabilities
from whimbrel.matchers.shared.papers import Paper
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.errors import DuplicateId, FilterError, IdKindError, RowError, UnknownId, UnsupportedFilter
from whimbrel.model.event import AnyEvent, Event, attribute_names
from whimbrel.model.event_tables import as_arrow, read_events, read_good_events
from whimbrel.model.explain import Explanation, explain
from whimbrel.model.filter import Filter
from whimbrel.model.matcher import Errors, Matcher
from whimbrel.model.near_misses import NearMiss, near_misses
from whimbrel.model.options import check_instance
from whimbrel.model.subscription import Id, Subscription, id_kind, ids_and_filters, plain_id

if TYPE_CHECKING:
    import pyarrow as pa

    from whimbrel.model.event_schema import EventSchema

Stats = dict[str, int | float | str]

_EMPTY_PLACES = 1_024
"""Places of removed subscriptions that are kept however few others there are."""


class BaseMatcher(Matcher, ABC):
    """A set of subscriptions that finds those an event matches.

    The first filter that was typed against a schema gives the matcher that `schema`: it then types filters and reads
    events. A call that raises has changed nothing. Not thread-safe: one thread at a time.
    """

    name: ClassVar[str]
    paper: ClassVar[Paper]
    section: ClassVar[str]
    """Where the paper describes the algorithm."""
    capabilities: ClassVar[Capabilities]
    counted: ClassVar[tuple[str, ...]] = ()
    """The work that a search counts, in the order of `_counters`: the names in `stats()`."""
    reuses_numbers: ClassVar[bool] = False
    """Whether a new conjunction may get the number of one that was deleted."""

    def __init__(self, timestamps: Iterable[str] = (), count: bool = True) -> None:
        """Empty. `timestamps` names attributes whose strings are timestamps; `count`: count work for `stats()`."""
        self.timestamps = attribute_names(timestamps, "timestamps")
        self.schema: EventSchema | None = None
        self._kind: str | None = None
        self._ids: list[Id] = []  # by place: the order of addition
        self._places: dict[Id, int] = {}
        self._subscriptions: dict[int, Subscription] = {}  # by place
        self._always: set[int] = set()
        self._numbers: dict[Conjunction, int] = {}
        self._conjunctions: dict[int, Conjunction] = {}  # by number
        self._holders: dict[int, set[int]] = {}  # conjunction number -> places
        self._next_number = 0
        self._changes = 0  # how often a place was added or removed
        self._free_numbers: list[int] = []
        self._uses: Counter[str] = Counter()  # how many conjunctions mention each attribute
        self._counters = np.zeros(len(self.counted), np.int64) if count else None

    def add(self, id: Id, filter: object, dialect: str = "sql") -> None:
        """Add a subscription. DuplicateId if the id is there, UnsupportedFilter outside the capabilities."""
        self._check_kind(id)
        if id in self._places:
            raise DuplicateId(id)
        with self._all_or_nothing():
            place, plain = len(self._ids), plain_id(id)
            self._put(place, Subscription(plain, self._prepare(filter, dialect)))
            self._kind = id_kind(id)
            self._places[plain] = place
            self._ids.append(plain)

    def add_many(self, subscriptions: Iterable[tuple[Id, object]] | pa.Table, dialect: str = "sql") -> None:
        """Add many subscriptions, all or none: pairs of id and filter, or an Arrow table with columns id and filter.

        The first bad id or filter raises what `add` would raise.
        """
        ids, filters = ids_and_filters(subscriptions)
        self._new_kind(ids)
        with self._all_or_nothing():
            for id, parsed in zip(ids, [self._prepare(filter, dialect) for filter in filters], strict=True):
                self.add(id, parsed)

    def remove(self, id: Id) -> None:
        """Remove a subscription; UnknownId if it is not there."""
        self._take(self._place(id))
        self._leave(id)

    def replace(self, id: Id, filter: object, dialect: str = "sql") -> None:
        """Give a subscription another filter; it keeps its place in the order."""
        place = self._place(id)
        with self._all_or_nothing():
            new, old = self._prepare(filter, dialect), self._subscriptions[place].filter
            self._put(place, Subscription(plain_id(id), new))
            self._release(place, set(old.conjunctions).difference(new.conjunctions))

    def match(self, event: AnyEvent) -> list[Id]:
        """The ids of the subscriptions that the event matches, each once, in order of addition."""
        return self.ids(sorted(self._match_places(event)))

    def ids(self, places: Iterable[int]) -> list[Id]:
        """The ids of the subscriptions at these places in the order of addition."""
        return [self._ids[place] for place in places]

    def match_batch(self, events: object, *, errors: Errors | None = None) -> pa.Table:
        """Match many events (dicts, Arrow, pandas or polars): a table of event row and subscription.

        The first bad event is raised with its row; with `errors`, each is put there as (row, error).
        """
        if errors is None:
            return self._match_all(events)
        check_instance("errors", errors, list, "a list")
        return self._match_good(events, errors)

    def _match_all(self, events: object) -> pa.Table:
        """`match_batch` of events that must all be good."""
        rows, places = array("q"), array("i")
        for row, event in enumerate(self._read_all(events)):
            found = self._match_places(event)
            rows.extend([row] * len(found))
            places.extend(found)
        return self._pairs(np.array(rows), np.array(places))

    def _pairs(self, rows: npt.NDArray[np.int64], places: npt.NDArray[np.int32]) -> pa.Table:
        """The table of event rows and the ids of places; ids that are strings are a dictionary column."""
        import pyarrow as pa

        is_text = self._kind == "string"
        names = pa.array(self._ids, pa.string() if is_text else pa.int64())
        column = pa.DictionaryArray.from_arrays(pa.array(places), names) if is_text else names.take(pa.array(places))
        return pa.table({"event": rows, "subscription": column})

    def explain(self, id: Id, event: AnyEvent) -> Explanation:
        """Why a subscription matches an event or not: each constraint, held or not, and the values seen."""
        return explain(self[id].filter, self._read(event))

    def near_misses(self, event: AnyEvent, limit: int = 10) -> list[NearMiss]:
        """The subscriptions that almost match: fewest failed constraints first, then order of addition."""
        return near_misses(map(self.__getitem__, self), self._read(event), limit)

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
            **({} if self._counters is None else dict(zip(self.counted, self._counters.tolist(), strict=True))),
        }

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str | Integral) and id in self._places and not isinstance(id, bool)

    def __getitem__(self, id: Id) -> Subscription:
        return self._subscriptions[self._place(id)]

    def __iter__(self) -> Iterator[Id]:
        return iter(self.ids(sorted(self._places.values())))

    def _match_places(self, event: AnyEvent) -> set[int]:
        event = self._read(event)
        self.capabilities.check_event(self.name, event, self._mentioned)
        return self._search_places(event)

    def _search_places(self, event: Event) -> set[int]:
        """The places that an event matches, which was read and is supported."""
        return self._holding(self._search(event))

    def _holding(self, numbers: Iterable[int]) -> set[int]:
        """The places that hold one of these conjunctions, and those that match always."""
        return self._always.union(*map(self._holders.__getitem__, numbers))

    def _mentioned(self, attribute: str) -> bool:
        return attribute in self._uses

    def _read(self, event: AnyEvent) -> Event:
        """One event, in codes if there is a schema."""
        return Event.of(event, self.timestamps) if self.schema is None else self.schema.read(event)

    def _read_all(self, events: object) -> Iterator[Event]:
        """The events of any supported shape, in codes if there is a schema."""
        found, schema = read_events(*self._needed(events)), self.schema
        return found if schema is None else (schema.read(event, row) for row, event in enumerate(found))

    def _needed(self, events: object) -> tuple[object, Collection[str], frozenset[str]]:
        """The events, the columns to read of a table, and whose texts are timestamps; a schema wants all, and none."""
        if self.schema is None:
            return events, self.attributes(), self.timestamps
        table = as_arrow(events)
        return (events, (), frozenset()) if table is None else (table, table.column_names, frozenset())

    def _match_good(self, events: object, errors: Errors) -> pa.Table:
        """`match_batch` of the good events; the others go to `errors`."""
        import pyarrow as pa

        rows, good, schema = array("q"), list[Event](), self.schema
        for row, event in read_good_events(*self._needed(events), errors):
            try:
                good.append(event if schema is None else schema.read(event, row))
                rows.append(row)
            except RowError as error:
                errors.append((row, error))
        found = self._match_all(good)
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
            construct = self.capabilities.unsupported(conjunction)
            if construct is not None:
                raise UnsupportedFilter(self.name, construct, supporting(conjunction))
            self._accept(conjunction)
        self.schema = parsed.schema
        return parsed

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Undo what the block has added if it raises."""
        schema, kind, first = self.schema, self._kind, len(self._ids)
        try:
            yield
        except BaseException:
            for place in [place for place in self._subscriptions if place >= first]:
                self._take(place)
            self._places = {id: place for id, place in self._places.items() if place < first}
            self.schema, self._kind = schema, kind
            del self._ids[first:]
            raise

    def _put(self, place: int, subscription: Subscription) -> None:
        new: list[Conjunction] = []
        is_always = False
        try:
            for conjunction in subscription.filter.conjunctions:
                if conjunction.is_true():
                    is_always = True
                elif place not in (holders := self._holders[self._number_of(conjunction)]):
                    holders.add(place)
                    new.append(conjunction)
        except BaseException:
            self._release(place, new)
            raise
        self._subscriptions[place] = subscription
        (self._always.add if is_always else self._always.discard)(place)
        self._changes += 1

    def _number_of(self, conjunction: Conjunction) -> int:
        """The number of a conjunction, which is stored if it is new."""
        number = self._numbers.get(conjunction)
        if number is None:
            number = self._free_numbers[-1] if self._free_numbers else self._next_number
            self._insert(number, conjunction)
            if self._free_numbers:
                self._free_numbers.pop()
            else:
                self._next_number += 1
            self._numbers[conjunction], self._conjunctions[number] = number, conjunction
            self._uses.update(conjunction.attributes)
            self._holders[number] = set()
        return number

    def _take(self, place: int) -> None:
        subscription = self._subscriptions.pop(place)
        self._always.discard(place)
        self._changes += 1
        self._release(place, subscription.filter.conjunctions)

    def _release(self, place: int, conjunctions: Iterable[Conjunction]) -> None:
        """Note that a place no longer holds these conjunctions. Delete a conjunction that no place holds."""
        for conjunction in conjunctions:
            number = self._numbers.get(conjunction)
            if number is None:
                continue
            holders = self._holders[number]
            holders.discard(place)
            if not holders:
                del self._numbers[conjunction], self._conjunctions[number], self._holders[number]
                self._delete(number, conjunction)
                if self.reuses_numbers:
                    self._free_numbers.append(number)
                for attribute in conjunction.attributes:
                    self._uses[attribute] -= 1
                    if not self._uses[attribute]:
                        del self._uses[attribute]

    def _leave(self, id: Id) -> None:
        """Give up the place of an id. Where most places are empty, the others are renumbered in the same order."""
        del self._places[id]
        if len(self._ids) > 2 * len(self._places) + _EMPTY_PLACES:
            order = sorted(self._places.values())
            self._move({place: new for new, place in enumerate(order)})
            self._changes += 1

    def _move(self, moved: Mapping[int, int]) -> None:
        """Renumber the places; `moved` has the new place of each that is in use."""
        self._ids = self.ids(moved)
        self._places = {id: moved[place] for id, place in self._places.items()}
        self._subscriptions = {moved[place]: one for place, one in self._subscriptions.items()}
        self._always = {moved[place] for place in self._always}
        self._holders = {number: {moved[place] for place in held} for number, held in self._holders.items()}

    def _place(self, id: object) -> int:
        self._check_kind(id)
        place = self._places.get(id)  # type: ignore[call-overload]
        if place is None:
            raise UnknownId(id)
        return int(place)

    def _new_kind(self, ids: Sequence[Id]) -> str | None:
        """The kind of new ids, int64 or string; raise if one is taken or they are of different kinds."""
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
        assert all(self._ids[place] == id == self[id].id for id, place in self._places.items())
        for place, subscription in self._subscriptions.items():
            assert self._places[subscription.id] == place
            for conjunction in subscription.filter.conjunctions:
                if not conjunction.is_true():
                    assert place in self._holders[self._numbers[conjunction]]
        for number, holders in self._holders.items():
            assert holders and number < self._next_number
        assert self._conjunctions == {number: conjunction for conjunction, number in self._numbers.items()}
        assert self._conjunctions.keys() == self._holders.keys()
        assert not self._free_numbers or sorted([*self._holders, *self._free_numbers]) == [*range(self._next_number)]
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
        """The counts that a matcher adds to `stats()`."""
        return {}


@cache
def all_matchers() -> dict[str, type[BaseMatcher]]:
    """Import every module of `whimbrel.matchers`. Return the concrete matchers by name, sorted."""
    package = __name__.removesuffix(".shared.base")
    found: dict[str, type[BaseMatcher]] = {}
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        for value in vars(importlib.import_module(module.name)).values():
            is_member = isinstance(value, type) and issubclass(value, BaseMatcher) and hasattr(value, "name")
            if is_member and not inspect.isabstract(value):
                found[value.name] = value
    return dict(sorted(found.items()))


def supporting(conjunction: Conjunction) -> list[str]:
    """The names of the matchers that support every construct of the conjunction."""
    return [name for name, matcher in all_matchers().items() if matcher.capabilities.supports(conjunction)]
