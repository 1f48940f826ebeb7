"""The head: the newest subscriptions, which no segment holds yet, and an index of them that grows entry by entry.

Each conjunction of a filter is filed under one attribute: under the values that it may have there, if they are few,
else with its constraint on it. An event finds those that may match by the values that it has, and only these are
evaluated. A dict is not made an `Event` for that: nearly all constraints are on attributes with one plain value.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from whimbrel.model.conjunction import Conjunction
from whimbrel.model.constraint import NULL_KEY, Constraint
from whimbrel.model.event import AnyEvent, Event
from whimbrel.model.filter import Filter
from whimbrel.model.json_text import parse_json
from whimbrel.model.values import BOOLEAN, NUMBER, STRING, TIMESTAMP, SortKey, Timestamp, canonical_number, sort_key

_FEW = 16
"""Values of an attribute under which a conjunction is filed, at most."""
_EVALUATION = 4
"""What evaluating a filter costs, in checks of one constraint."""
_ATTRIBUTES = 8
"""Attributes whose values are looked up in the time of a check of one constraint."""
_MISSING = object()
_PLAIN = frozenset((str, int, float, bool, type(None)))


@dataclass(frozen=True, slots=True)
class HeadEntry:
    """A subscription that no segment holds yet."""

    row: int
    filter: Filter


class Head:
    """Entries in order of addition. One thread at a time appends; any number search, each among the first `size`.

    Entries are filed by the first search that needs them, so that adding many costs no more than before.
    """

    def __init__(self) -> None:
        self.entries: list[HeadEntry] = []
        self.checked = 0
        """Constraints that searches have checked one by one."""
        self._filed = 0
        self._filing = threading.Lock()
        self._by_value: dict[str, dict[object, list[int]]] = {}
        self._by_constraint: dict[str, list[tuple[Constraint, int]]] = {}
        self._others: list[int] = []

    def search(self, size: int, event: AnyEvent, timestamps: Collection[str]) -> list[HeadEntry]:
        """Return the entries among the first `size` that a valid event matches, in order of addition."""
        if self._filed < size:
            self._file(size)
        if isinstance(event, str | bytes):
            event = parse_json(event)
        seen = _PlainEvent(event, timestamps) if type(event) is dict else Event.of(event, timestamps)
        places = [*self._others, *self._found(event, seen, timestamps)]
        for name, tests in tuple(self._by_constraint.items()):
            keys = seen.keys(name)
            self.checked += 1
            if keys:
                self.checked += len(tests)
                places += [place for constraint, place in tests if constraint.admits(keys)]
        if not places:
            return []
        found = [self.entries[place] for place in sorted(set(places)) if place < size]
        self.checked += _EVALUATION * len(found)
        return [entry for entry in found if any(one.matches(seen) for one in entry.filter.conjunctions)]

    def _found(self, event: Event | Mapping[str, object], seen: Event, timestamps: Collection[str]) -> list[int]:
        """The entries that are filed under values of an event, and some more."""
        places: list[int] = []
        self.checked += len(self._by_value) // _ATTRIBUTES
        for name, table in tuple(self._by_value.items()):
            value = event.get(name, _MISSING) if type(event) is dict else event
            kind = type(value)
            if "." not in name:
                if value is _MISSING:
                    continue
                if kind in _PLAIN and not (kind is str and name in timestamps):
                    places += table.get(value, ())
                    continue
            for key in seen.keys(name):
                places += table.get(_raw(key), ())
        return places

    def _file(self, size: int) -> None:
        with self._filing:
            for place in range(self._filed, size):
                for conjunction in self.entries[place].filter.conjunctions:
                    self._file_one(conjunction, place)
                self._filed = place + 1

    def _file_one(self, conjunction: Conjunction, place: int) -> None:
        """File a conjunction under the attribute that leaves the fewest values. Searches may run beside this."""
        needed = [(name, one) for name, one in conjunction.constraints if not (one.missing or one.null)]
        keyed = [(name, keys) for name, one in needed if (keys := _keys_of(one)) is not None]
        if keyed:
            name, keys = min(keyed, key=lambda one: (len(one[1]), one[0] not in self._by_value))
            table = self._by_value.setdefault(name, {})
            for key in keys:
                table.setdefault(_raw(key), []).append(place)
        elif needed:
            name, constraint = needed[0]
            self._by_constraint.setdefault(name, []).append((constraint, place))
        else:
            self._others.append(place)


def _keys_of(constraint: Constraint) -> Collection[SortKey] | None:
    """A few values of which an attribute must have one; None if there are none, or too many."""
    found: list[Collection[SortKey]] = [group for group in constraint.required if NULL_KEY not in group]
    if len(constraint.values.cuts) <= 2 * _FEW and constraint.bound:
        points = constraint.values.as_points()
        found += [] if points is None else [points]
    keys = min(found, key=len, default=None)
    return keys if keys is not None and len(keys) <= _FEW else None


def _raw(key: SortKey) -> object:
    """The dict key of a constant. Events look up their values as they are: TRUE also finds 1, which is harmless."""
    return key if key[0] == TIMESTAMP else key[1]


class _PlainEvent(Event):
    """A valid dict of which attributes are read when they are asked for.

    If one of them is no plain value, the dict is read as a whole.
    """

    __slots__ = ("_fields", "_is_whole", "_timestamps")

    def __init__(self, fields: dict[str, Any], timestamps: Collection[str]) -> None:
        self._fields = fields
        self._timestamps = timestamps
        self._is_whole = False
        self._keys = {}
        self._occurrences = None
        self.has_elements = False  # so far

    def keys(self, name: str) -> tuple[SortKey, ...]:
        """The sort keys of an attribute's values, each once."""
        found = self._keys.get(name)
        if found is not None:
            return found
        if self._is_whole:
            return ()
        plain = self._read(self._fields, name, name)
        if plain is not None:
            self._keys[name] = found = tuple(dict.fromkeys(plain))
            return found
        whole = Event(self._fields, self._timestamps)
        self._keys, self._occurrences, self.has_elements = whole._keys, whole._occurrences, whole.has_elements
        self._is_whole = True
        return self._keys.get(name, ())

    def _read(self, fields: dict[str, Any], rest: str, name: str) -> list[SortKey] | None:
        """The keys of an attribute that has the name `rest` below an object; None if some value is not plain."""
        keys: list[SortKey] = []
        value = fields.get(rest, _MISSING)
        if value is not _MISSING and type(value) is not dict:
            key = self._key(value, name)
            if key is None:
                return None
            keys.append(key)
        dot = rest.find(".")
        while dot >= 0:
            inner = fields.get(rest[:dot], _MISSING)
            if type(inner) is dict:
                below = self._read(inner, rest[dot + 1 :], name)
                if below is None:
                    return None
                keys += below
            elif inner is not _MISSING and type(inner) not in _PLAIN:
                return None
            dot = rest.find(".", dot + 1)
        return keys

    def _key(self, value: Any, name: str) -> SortKey | None:
        kind = type(value)
        if kind is str and name not in self._timestamps:
            return STRING, value
        if kind is bool:
            return BOOLEAN, value
        if value is None or (kind is float and value != value):  # noqa: PLR0124 - NaN
            return NULL_KEY
        if kind is int or kind is float:
            return NUMBER, canonical_number(value)
        return sort_key(Timestamp.parse(value)) if kind is str else None
