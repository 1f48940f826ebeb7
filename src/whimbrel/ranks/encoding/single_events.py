"""Reads single events to entries: attributes with cells (`ranks.cells`).

There are three readers, and each passes on what it cannot read: a compiled loop (`dict_kernels`), one pass of Python
(`flat_events`), and `Event`, which reads everything and reports errors.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from whimbrel.compiled.jit import entry_for
from whimbrel.compiled.python_objects import READABLE
from whimbrel.model.event import AnyEvent, Event
from whimbrel.model.json_text import parse_json
from whimbrel.ranks.cells import RANK
from whimbrel.ranks.dictionary import Dictionary
from whimbrel.ranks.encoding.dict_kernels import read_dict
from whimbrel.ranks.encoding.flat_events import FlatReader, NotFlat
from whimbrel.ranks.encoding.json_reader import JsonReader, JsonText
from whimbrel.ranks.encoding.json_state import JsonState
from whimbrel.ranks.encoding.name_table import NameTable, name_flags
from whimbrel.ranks.kernel_arrays import ARRAYS, FOR_PYTHON, FULL, HAS_TEXTS, IN_ARRAYS, TEXTS, Entries
from whimbrel.ranks.links import LINKED, SEVERAL_LINKED, EventLinks
from whimbrel.ranks.lookup import Lookup
from whimbrel.ranks.patterns.event_fragments import EventFragments

ITEMS = 1 << 15
"""Words of memory for the items of one dict: some 6,500 of them. Larger dicts are read by Python."""


_HAS_LINKS = 1 << 42
"""Added to a number of entries: there are comparisons of attributes to make (see `dict_kernels`)."""


_NO_ATTRS = array("i")


class _Names(NamedTuple):
    """The readers of names, for one set of attributes whose texts are timestamps."""

    flat: FlatReader
    table: NameTable
    read: Callable[[np.ndarray, int, np.ndarray, int], int]
    """The compiled `read_dict`."""


class ReadEvent(NamedTuple):
    """An event as entries: a kernel has `written` so many, `attrs` and `cells` follow.

    `EncodedEvents` explains `coupled` and `arrays`.
    """

    written: int
    attrs: array[int]
    cells: list[float]
    coupled: int
    arrays: Collection[str] | None


class SingleEventEncoder:
    """Reads single events for one dictionary. Safe to use from many threads."""

    def __init__(
        self,
        dictionary: Dictionary,
        fragments: EventFragments | None,
        links: EventLinks | None,
        sources: frozenset[str],
        json_reader: Callable[[frozenset[str]], JsonReader],
    ) -> None:
        """`sources` are the attributes from whose texts others are derived: kernels keep these texts."""
        self._dictionary = dictionary
        self._ids = dictionary.sources
        self._lookup = dictionary.lookup
        self._fragments = fragments
        self._json_reader = json_reader
        self._links = links
        self._mark = 0 if links is None else _HAS_LINKS
        self._sources = sources
        self._names: _Names | None = None
        self.entries_per_event = 8
        """About as many entries as events of the last batch had, for the next one."""

    def text_reader(self, timestamps: frozenset[str], state: JsonState) -> JsonText:
        """A reader of one JSON text at a time, which writes to `state`."""
        return JsonText(self._json_reader(timestamps), timestamps, state, self._mark)

    def read(self, event: AnyEvent, timestamps: frozenset[str], words: np.ndarray, left: dict[str, object]) -> int:
        """Read a dict in compiled code; return what `read_dict` returns, or FOR_PYTHON.

        The entries are among the `words`. If the number is below IN_ARRAYS and nothing is `left`, the event is read, be
        it a dict or a text of `text_reader`; else `read_rest` must follow.
        """
        if type(event) is not dict or not READABLE:
            return FOR_PYTHON
        names = self._names
        if names is None or names.flat.timestamps is not timestamps:
            names = self.names_for(timestamps)
        return names.read(words, id(event), names.table.rows, id(left)) | self._mark  # negative results stay

    def read_rest(
        self,
        event: AnyEvent,
        timestamps: frozenset[str],
        words: np.ndarray,
        texts: JsonText | None,
        entries: Entries,
        count: int,
        left: dict[str, object],
    ) -> ReadEvent:
        """Read the rest of an event, given what `read` returned (`count`) and `left`."""
        if not left and IN_ARRAYS <= count < HAS_TEXTS:  # only the names of the arrays are missing
            arrays = self._arrays(timestamps, entries) if texts is None else texts.arrays
            return ReadEvent(count - IN_ARRAYS, _NO_ATTRS, [], 1, arrays)
        attrs, cells = array("i"), list[float]()
        if count == FULL:
            return ReadEvent(FULL, attrs, cells, 0, None)
        if count < 0 and isinstance(event, bytes | str):
            parsed = parse_json(event)
            count = self.read(parsed, timestamps, words, left)
            return self.read_rest(parsed, timestamps, words, None, entries, count, left)
        if count < 0:
            return ReadEvent(0, attrs, cells, self.append(event, timestamps, attrs, cells), None)
        written = count & (IN_ARRAYS - 1)
        mark, is_whole = self.append_rest(event, left, timestamps, attrs, cells)
        if is_whole:
            return ReadEvent(0, attrs, cells, mark, None)
        kept, read = 0, written
        if count & HAS_TEXTS:
            kept = entries.items.item(TEXTS)
            if self._fragments is not None:
                written = self._fragments.append_kept(words, read, kept)
            if written < 0:
                written = read
                mark |= self._append_kept(entries, read, attrs, cells)
        if self._links is not None:
            linked = self._links.append_read(words, written, kept)
            if linked < 0:
                mark |= self._links.append(Event.of(event, timestamps), attrs, cells)
            else:
                written = linked & (SEVERAL_LINKED - 1)
                mark |= LINKED if linked & SEVERAL_LINKED else 0
        if not count & IN_ARRAYS:
            return ReadEvent(written, attrs, cells, mark, ())
        arrays = self._arrays(timestamps, entries) if texts is None else texts.arrays
        return ReadEvent(written, attrs, cells, mark | 1, arrays)

    def _arrays(self, timestamps: frozenset[str], entries: Entries) -> Collection[str]:
        """The names of the arrays of objects of the dict that was read last."""
        return self.names_for(timestamps).table.arrays(entries.items.item(ARRAYS))

    def _append_kept(self, entries: Entries, count: int, attrs: array[int], cells: list[float]) -> int:
        """Append the entries derived from the texts that a kernel has kept; return `coupled` of the event."""
        if self._fragments is None:
            return 0
        own = entries.attrs[:count].tolist()
        texts: dict[int, list[str]] = {}
        for entry, text in _texts_of(entries):
            if own[entry] in self._fragments:
                texts.setdefault(own[entry], []).append(text)
        mark = 0
        for attr, its in texts.items():
            values = own.count(attr)
            if values > 1:  # nulls are none of them
                values -= sum(entries.bits.item(entry) == RANK for entry, other in enumerate(own) if other == attr)
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
        """Append the entries of what a kernel has `left` of an event, or of all of it (None).

        Returns `coupled` of the event, and whether the appended entries are all that it has.
        """
        if left is not None and not left:
            return 0, False
        if (
            left is None
            or any(name in self._sources for name in left)
            or not _append_flat(left, self.names_for(timestamps).flat, attrs, cells)
        ):
            return self.append(event, timestamps, attrs, cells), True
        return 0, False

    def append(self, event: AnyEvent, timestamps: Collection[str], attrs: array[int], cells: list[float]) -> int:
        """Append the entries of one event; return its `coupled`."""
        mark = 0
        if type(event) is dict and _append_flat(event, self.names_for(timestamps).flat, attrs, cells):
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
        """The readers of names, given the attributes whose texts are timestamps. Made once, then kept."""
        names, wanted = self._names, frozenset(timestamps)
        if names is None or names.flat.timestamps != wanted:
            flags = name_flags(self._dictionary, wanted, self._sources)
            table = NameTable(self._ids, len(self._dictionary.names), flags)
            read = entry_for(read_dict, np.empty(0, np.int64), 0, table.rows, 0)
            names = self._names = _Names(FlatReader(self._find, wanted), table, read)
        return names


def _append_flat(event: dict[str, Any], flat: FlatReader, attrs: array[int], cells: list[float]) -> bool:
    """Append the entries of a flat object; append none and return False if it is not flat."""
    size = len(attrs)
    try:
        flat.append(event, attrs, cells)
    except (NotFlat, UnicodeEncodeError):
        del attrs[size:], cells[size:]
        return False
    return True


def _texts_of(entries: Entries) -> list[tuple[int, str]]:
    """The texts that a kernel has kept, each with its entry."""
    count = entries.items.item(TEXTS)
    ends = entries.text_ends[: count + 1].tolist()
    texts = (entries.text_data[begin:end].tobytes().decode() for begin, end in pairwise(ends))
    return list(zip(entries.text_entries[:count].tolist(), texts, strict=True))
