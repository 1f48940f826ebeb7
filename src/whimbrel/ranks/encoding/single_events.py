"""Single events to entries: attributes with cells (`ranks.cells`).

There are three readers, and each passes on what it cannot read: a compiled loop (`dict_kernels`), one pass of Python
(`flat_events`), and `Event`, which reads everything and says what is wrong.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from whimbrel.compiled.python_objects import READABLE
from whimbrel.model.event import AnyEvent, Event
from whimbrel.model.json_text import parse_json
from whimbrel.ranks.cells import RANK
from whimbrel.ranks.dictionary import Dictionary
from whimbrel.ranks.encoding.dict_kernels import FULL, HAS_TEXTS, IN_ARRAYS, read_dict
from whimbrel.ranks.encoding.flat_events import Lanes, NotFlat
from whimbrel.ranks.encoding.json_reader import JsonReader
from whimbrel.ranks.encoding.name_table import EXACT_NUMBER, EXACT_TIME, PATTERN, TIME, NameTable
from whimbrel.ranks.kernel_arrays import ARRAYS, TEXTS, Entries
from whimbrel.ranks.links import EventLinks, kept_texts, noted_texts
from whimbrel.ranks.lookup import Lookup
from whimbrel.ranks.patterns.event_fragments import EventFragments

ITEMS = 1 << 15
"""Words of memory for the items of one dict: some 6,500 of them. Larger dicts are read by Python."""


class _Names(NamedTuple):
    """What names of events mean, given the attributes whose texts are timestamps."""

    lanes: Lanes
    table: NameTable


class SingleEventEncoder:
    """Reads single events for one dictionary. Safe to use from many threads."""

    def __init__(
        self,
        dictionary: Dictionary,
        fragments: EventFragments | None,
        links: EventLinks | None,
        json_reader: Callable[[frozenset[str]], JsonReader],
    ) -> None:
        self._dictionary = dictionary
        self._ids = dictionary.sources
        self._lookup = dictionary.lookup
        self._fragments = fragments
        self._json_reader = json_reader
        self._links = links
        derived_from = fragments.names if fragments is not None else ()
        self._texts_of = frozenset(derived_from) | (links.names if links is not None else frozenset())
        """The attributes whose texts kernels keep, as others are derived from them."""
        self._names: _Names | None = None

    def read(
        self,
        event: AnyEvent,
        timestamps: frozenset[str],
        words: np.ndarray,
        entries: Entries,
        attrs: array[int],
        cells: list[float],
    ) -> tuple[int, int, Collection[str] | None]:
        """Read an event: write to `entries`, which are among the `words`, and append the rest to `attrs` and `cells`.

        Returns the number of entries written, or FULL; how the event is coupled, or 0; and the arrays of objects that
        it has, as in `EncodedEvents`.
        """
        if isinstance(event, bytes | str):
            return self._read_json(event, timestamps, words, entries, attrs, cells)
        if type(event) is not dict or not READABLE:
            return 0, self.append(event, timestamps, attrs, cells), None
        names = self._names
        if names is None or names.lanes.timestamps != timestamps:
            names = self.names_for(timestamps)
        left: dict[str, object] = {}
        count: int = read_dict(words, id(event), names.table.rows, id(left))
        if 0 <= count < IN_ARRAYS and not left and self._links is None:
            return count, 0, ()
        if count == FULL:
            return FULL, 0, None
        if count < 0:
            return 0, self.append(event, timestamps, attrs, cells), None
        arrays = names.table.arrays(entries.items.item(ARRAYS)) if count & IN_ARRAYS else ()
        written = count & (IN_ARRAYS - 1)
        mark, is_whole = self.append_rest(event, left, timestamps, attrs, cells)
        if is_whole:
            return 0, mark, None
        if count & HAS_TEXTS:
            mark |= self._append_derived(entries, written, attrs, cells)
        if self._links is not None:
            texts = kept_texts(entries)
            mark |= self._links.append_read(entries, written, texts, lambda: Event.of(event, timestamps), attrs, cells)
        return written, mark | bool(arrays), arrays

    def _read_json(
        self,
        text: bytes | str,
        timestamps: frozenset[str],
        words: np.ndarray,
        entries: Entries,
        attrs: array[int],
        cells: list[float],
    ) -> tuple[int, int, Collection[str] | None]:
        """`read` a JSON text."""
        reader = self._json_reader(timestamps)
        data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        if reader.is_able:
            buffers = reader.take()
            try:
                count = buffers.read_one(data, words, entries)
                if count == FULL:
                    return FULL, 0, None
                if count >= 0:
                    noted = buffers.noted_texts(data) if buffers.has_notes else ()
                    mark = self._append_noted(noted, entries, count, attrs, cells) if noted else 0
                    if self._links is not None:
                        mark |= self._links.append_read(
                            entries, count, noted_texts(noted), lambda: Event.of(parse_json(text), timestamps), attrs,
                            cells,
                        )  # fmt: skip
                    return count, mark, ()
            finally:
                reader.give_back(buffers)
        return self.read(parse_json(text), timestamps, words, entries, attrs, cells)

    def _append_noted(
        self, noted: Sequence[tuple[int, str]], entries: Entries, count: int, attrs: array[int], cells: list[float]
    ) -> int:
        """Append what is derived from texts, each with its entry; return how the event is coupled."""
        if self._fragments is None:
            return 0
        own, is_null = entries.attrs[:count].tolist(), (entries.bits[:count] == RANK).tolist()
        texts: dict[int, list[str]] = {}
        for entry, text in noted:
            if own[entry] in self._fragments:
                texts.setdefault(own[entry], []).append(text)
        mark = 0
        for attr, its in texts.items():
            values = sum(other == attr and not null for other, null in zip(own, is_null, strict=True))
            mark |= self._fragments.append_texts(attr, its, values, attrs, cells)
        return mark

    def append_rest(
        self,
        event: AnyEvent,
        left: dict[str, object] | None,
        timestamps: Collection[str],
        attrs: array[int],
        cells: list[float],
    ) -> tuple[int, bool]:
        """Append what a kernel has `left` of an event, or all of it (None).

        Returns how the event is coupled, or 0, and whether what is appended is all that it has.
        """
        if left is not None and not left:
            return 0, False
        if (
            left is None
            or any(name in self._texts_of for name in left)
            or not _append_flat(left, self.names_for(timestamps).lanes, attrs, cells)
        ):
            return self.append(event, timestamps, attrs, cells), True
        return 0, False

    def _append_derived(self, entries: Entries, count: int, attrs: array[int], cells: list[float]) -> int:
        """Append what is derived from the texts that a kernel has kept; return how the event is coupled."""
        noted: list[tuple[int, str]] = []
        begin = 0
        for text in range(entries.items.item(TEXTS)):
            end = entries.text_ends.item(text + 1)
            noted.append((entries.text_entries.item(text), entries.text_data[begin:end].tobytes().decode()))
            begin = end
        return self._append_noted(noted, entries, count, attrs, cells)

    def append(self, event: AnyEvent, timestamps: Collection[str], attrs: array[int], cells: list[float]) -> int:
        """Append the entries of one event; return how it is coupled, or 0."""
        mark = 0
        if type(event) is dict and _append_flat(event, self.names_for(timestamps).lanes, attrs, cells):
            if self._fragments is not None:
                mark = self._fragments.append_flat(event, timestamps, attrs, cells)
        else:
            event = Event.of(event, timestamps)
            mark = self._append_whole(event, attrs, cells)
        if self._links is not None:
            mark |= self._links.append(Event.of(event, timestamps), attrs, cells)
        return mark

    def _append_whole(self, event: Event, attrs: array[int], cells: list[float]) -> int:
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
        names, wanted = self._names, frozenset(timestamps)
        if names is None or names.lanes.timestamps != wanted:
            names = self._names = _Names(Lanes(self._find, wanted), self._table(wanted))
        return names

    def _table(self, timestamps: frozenset[str]) -> NameTable:
        meta, names = self._dictionary.meta, self._dictionary.names
        flags: dict[str, int] = dict.fromkeys(timestamps, TIME)
        exact = [(names[int(attr)], EXACT_NUMBER) for attr in meta.exact_numbers]
        exact += [(names[int(attr)], EXACT_TIME) for attr in meta.exact_times]
        for name, flag in (*exact, *((name, PATTERN) for name in self._texts_of)):
            flags[name] = flags.get(name, 0) | flag
        return NameTable(self._ids, len(names), flags)


def _append_flat(event: dict[str, Any], lanes: Lanes, attrs: array[int], cells: list[float]) -> bool:
    """Append the entries of a flat object; append none and return False if it is not flat."""
    size = len(attrs)
    try:
        lanes.append(event, attrs, cells)
    except (NotFlat, UnicodeEncodeError):
        del attrs[size:], cells[size:]
        return False
    return True
