"""Single events to entries: attributes with cells (`ranks.cells`).

There are three readers, and each passes on what it cannot read: a compiled loop (`dict_kernels`), one pass of Python
(`flat_events`), and `Event`, which reads everything and says what is wrong.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from whimbrel.compiled.python_objects import READABLE
from whimbrel.model.event import Event
from whimbrel.ranks.dictionary import Dictionary
from whimbrel.ranks.encoding.dict_kernels import FOR_PYTHON, read_dict
from whimbrel.ranks.encoding.flat_events import Lanes, NotFlat
from whimbrel.ranks.lookup import Lookup
from whimbrel.ranks.patterns.event_fragments import EventFragments


class _Names(NamedTuple):
    """What names of events mean, given the attributes whose texts are timestamps."""

    lanes: Lanes
    attributes: dict[str, int]
    """By name, for `read_dict`: the number of the attribute, or FOR_PYTHON."""


class SingleEventEncoder:
    """Reads single events for one dictionary. Safe to use from many threads."""

    def __init__(self, dictionary: Dictionary, fragments: EventFragments | None) -> None:
        self._ids = dictionary.sources
        self._lookup = dictionary.lookup
        self._exact = [dictionary.names[int(attr)] for attr in dictionary.meta.exact_numbers]
        self._fragments = fragments
        self._names = self._named(frozenset())

    def read(
        self,
        event: Event | Mapping[str, object],
        timestamps: Collection[str],
        words: np.ndarray,
        attrs: array[int],
        cells: list[float],
    ) -> tuple[int, int]:
        """Read an event: write entries to the arrays of `words`, and append the others to `attrs` and `cells`.

        Returns the number of entries written, and how the event is coupled, or 0.
        """
        if type(event) is dict and READABLE:
            left: dict[str, object] = {}
            count: int = read_dict(words, id(event), id(self.names_for(timestamps).attributes), id(left))
            if count >= 0:
                if not left and self._fragments is None:
                    return count, 0
                coupled, is_whole = self.append_rest(event, left, timestamps, attrs, cells)
                return 0 if is_whole else count, coupled
        return 0, self.append(event, timestamps, attrs, cells)

    def append_rest(
        self,
        event: Event | Mapping[str, object],
        left: dict[str, object] | None,
        timestamps: Collection[str],
        attrs: array[int],
        cells: list[float],
    ) -> tuple[int, bool]:
        """Append what a kernel has `left` of an event, or all of it (None).

        Returns how the event is coupled, or 0, and whether what is appended is all that it has.
        """
        if left is None or (left and not _append_flat(left, self.names_for(timestamps).lanes, attrs, cells)):
            return self.append(event, timestamps, attrs, cells), True
        assert isinstance(event, dict)
        if self._fragments is None:
            return 0, False
        return self._fragments.append_flat(event, timestamps, attrs, cells), False

    @property
    def has_fragments(self) -> bool:
        """Whether some attribute is derived from the texts of another one."""
        return self._fragments is not None

    def append(
        self, event: Event | Mapping[str, object], timestamps: Collection[str], attrs: array[int], cells: list[float]
    ) -> int:
        """Append the entries of one event; return how it is coupled, or 0."""
        if type(event) is dict and _append_flat(event, self.names_for(timestamps).lanes, attrs, cells):
            if self._fragments is None:
                return 0
            return self._fragments.append_flat(event, timestamps, attrs, cells)
        return self._append_whole(event, timestamps, attrs, cells)

    def _append_whole(
        self, event: Event | Mapping[str, object], timestamps: Collection[str], attrs: array[int], cells: list[float]
    ) -> int:
        event = Event.of(event, timestamps)
        mark = 0
        names = [name for name in event.attributes if name in self._ids]
        for name in names:
            attr = self._ids[name]
            lookup = self._lookup(attr)
            for key in event.keys(name):
                attrs.append(attr)
                cells.append(lookup.cell(key))
            if self._fragments is not None:
                mark |= self._fragments.append(attr, event.keys(name), attrs, cells)
        in_objects = event.has_elements and any(one.elements for name in names for one in event.occurrences(name))
        return mark | in_objects

    def _find(self, name: str) -> Lookup | None:
        attr = self._ids.get(name)
        return None if attr is None else self._lookup(attr)

    def names_for(self, timestamps: Collection[str]) -> _Names:
        """What names mean, given the attributes whose texts are timestamps."""
        names = self._names
        if (timestamps or names.lanes.timestamps) and names.lanes.timestamps != frozenset(timestamps):
            names = self._names = self._named(frozenset(timestamps))
        return names

    def _named(self, timestamps: frozenset[str]) -> _Names:
        left = dict.fromkeys([*self._exact, *timestamps], FOR_PYTHON)
        return _Names(Lanes(self._find, timestamps), self._ids | left if left else self._ids)


def _append_flat(event: dict[str, Any], lanes: Lanes, attrs: array[int], cells: list[float]) -> bool:
    """Append the entries of a flat object; append none and return False if it is not flat."""
    size = len(attrs)
    try:
        lanes.append(event, attrs, cells)
    except (NotFlat, UnicodeEncodeError):
        del attrs[size:], cells[size:]
        return False
    return True
