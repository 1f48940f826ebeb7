"""An event: its attributes, each with its set of values, and which values come from the same array element.

Nested keys are joined by dots, lists flatten into the set, and every value remembers the elements of arrays of
objects that it lies in (`Occurrence.elements`), because a binding takes values from one element of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from whimbrel.model.constraint import NULL_KEY
from whimbrel.model.errors import EventError, NamesError
from whimbrel.model.json_text import parse_json
from whimbrel.model.limits import EVENT_ATTRIBUTES, EVENT_DEPTH, EVENT_VALUES
from whimbrel.model.options import found_text
from whimbrel.model.values import SortKey, Timestamp, Value, from_key, is_text, sort_key, to_value

Elements = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One non-null value of an attribute, and the (array, element) pairs that it lies in."""

    key: SortKey
    elements: Elements


class Event:
    """The attributes of one event. Immutable.

    >>> event = Event({"price": 3, "tags": ["new", "toy"], "shop": {"city": "Oslo"}})
    >>> event.values("tags"), event.values("shop.city"), event.values("color")
    (('new', 'toy'), ('Oslo',), ())
    """

    __slots__ = ("_keys", "_occurrences", "has_elements")

    def __init__(self, attributes: Mapping[str, object], timestamps: Iterable[str] = ()) -> None:
        if not isinstance(attributes, Mapping):
            raise EventError("an object", type(attributes).__name__)
        reader = _Reader(attribute_names(timestamps, "timestamps"))
        reader.read_object(None, attributes, (), 0)
        self._keys: dict[str, tuple[SortKey, ...]] = {
            name: tuple(dict.fromkeys(key for key, _ in found)) for name, found in reader.found.items()
        }
        self.has_elements = reader.arrays > 0
        self._occurrences = reader.found if self.has_elements else None

    @staticmethod
    def of(event: AnyEvent, timestamps: Iterable[str] = ()) -> Event:
        """The event itself, or a new one of a mapping or of a JSON text."""
        if isinstance(event, Event):
            return event
        return Event(parse_json(event) if isinstance(event, bytes | str) else event, timestamps)

    @property
    def plain(self) -> Event:
        """The event before a schema coded its values; the event itself if none did."""
        return self

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the attributes that are not missing."""
        return tuple(self._keys)

    def keys(self, name: str) -> tuple[SortKey, ...]:
        """The sort keys of an attribute's values, each once, null as `NULL_KEY`; empty if it is missing."""
        return self._keys.get(name, ())

    def non_null_keys(self, name: str) -> list[SortKey]:
        """The sort keys of an attribute's values, each once, without null."""
        return [key for key in self._keys.get(name, ()) if key[0] >= 0]

    def values(self, name: str) -> tuple[Value | None, ...]:
        """An attribute's values, each once; empty if it is missing."""
        return tuple(None if key == NULL_KEY else from_key(key) for key in self.keys(name))

    def has_value(self, name: str) -> bool:
        """Whether the attribute has a non-null value."""
        return any(key != NULL_KEY for key in self.keys(name))

    def occurrences(self, name: str) -> list[Occurrence]:
        """The non-null values of an attribute with the array elements that they lie in."""
        if self._occurrences is None:
            return [Occurrence(key, ()) for key in self.non_null_keys(name)]
        found = self._occurrences.get(name, ())
        return [Occurrence(key, elements) for key, elements in dict.fromkeys(found) if key != NULL_KEY]

    def doubled(self, prefix: str) -> Event:
        """The event with each attribute a second time, under a name that begins with the prefix."""
        out = Event.__new__(Event)
        out.has_elements = self.has_elements
        out._keys = {**self._keys, **{prefix + name: keys for name, keys in self._keys.items()}}
        found = self._occurrences
        out._occurrences = found and {**found, **{prefix + name: own for name, own in found.items()}}
        return out

    def __repr__(self) -> str:
        return f"Event({ {name: list(self.values(name)) for name in self._keys} })"


AnyEvent: TypeAlias = Event | Mapping[str, object] | bytes | str
"""An event as users have it: itself, an object, or a JSON text."""


class _Reader:
    """Collects the (key, elements) pairs of every attribute."""

    def __init__(self, timestamps: frozenset[str]) -> None:
        self.found: dict[str, list[tuple[SortKey, Elements]]] = {}
        self.timestamps = timestamps
        self.arrays = 0
        self.count = 0
        self._array_ids: dict[tuple[str, Elements], int] = {}
        self._lengths: dict[int, int] = {}

    def read_object(self, prefix: str | None, item: Mapping[str, object], elements: Elements, depth: int) -> None:
        """Read the members of an object whose attribute name is `prefix` (None: the event itself)."""
        EVENT_DEPTH.check(depth, prefix or "$")
        for key, value in item.items():
            text = key if type(key) is str and key.isascii() else check_key(key, prefix or "$")
            self.read(text if prefix is None else f"{prefix}.{text}", value, elements, depth + 1)

    def read(self, name: str, item: object, elements: Elements, depth: int) -> None:
        if isinstance(item, Mapping):
            self.read_object(name, item, elements, depth)
        elif isinstance(item, list | tuple):
            EVENT_DEPTH.check(depth, name)
            for member in item:
                if isinstance(member, Mapping):
                    self.read_object(name, member, (*elements, self._next_element(name, elements)), depth + 1)
                else:
                    self.read(name, member, elements, depth + 1)
        else:
            self._add(name, item, elements)

    def _next_element(self, name: str, elements: Elements) -> tuple[int, int]:
        """The next element of an array. Arrays at the same attribute below the same element count as one array."""
        array = self._array_ids.setdefault((name, elements), len(self._array_ids))
        self.arrays = len(self._array_ids)
        element = self._lengths.get(array, 0)
        self._lengths[array] = element + 1
        return array, element

    def _add(self, name: str, item: object, elements: Elements) -> None:
        value = to_value(item, name)
        if isinstance(value, str) and name in self.timestamps:
            try:
                value = Timestamp.parse(value)
            except ValueError as error:
                raise EventError("a timestamp", repr(item), name) from error
        self.count += 1
        EVENT_VALUES.check(self.count, name)
        found = self.found.get(name)
        if found is None:
            found = self.found[name] = []
            EVENT_ATTRIBUTES.check(len(self.found))
        found.append((NULL_KEY if value is None else sort_key(value), elements))


def attribute_names(names: Iterable[str], option: str) -> frozenset[str]:
    """The names as a set; NamesError for a bare text, whose letters would be the names, and for what is no text."""
    if isinstance(names, frozenset):
        return names
    if isinstance(names, str):
        raise NamesError(option, f"the text {names!r}")
    if not isinstance(names, Iterable):
        raise NamesError(option, found_text(names))
    found = frozenset(names)
    for name in found:
        if not isinstance(name, str):
            raise NamesError(option, f"{type(name).__name__} {name!r} among them")
    return found


def check_key(key: object, path: str) -> str:
    """The key of an object as plain text; EventError if it is not text or has a lone surrogate."""
    if not isinstance(key, str):
        raise EventError("a text as key", f"{type(key).__name__} {key!r}", path)
    if not is_text(key):
        raise EventError("a key without lone surrogates", repr(key), path)
    return str.__str__(key)
