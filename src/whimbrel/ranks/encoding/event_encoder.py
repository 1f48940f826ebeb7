"""The event encoder: turns events of any form into ranks, which are all that kernels see.

Tables are encoded column by column (`ranks.columns`), single events attribute by attribute (`single_events`). Both use
the same dictionary. Attributes that no filter mentions are left out.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Sequence
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from whimbrel.compiled.python_objects import KINDS
from whimbrel.compiled.views import read_only
from whimbrel.model.errors import RowError
from whimbrel.model.event import AnyEvent, Event
from whimbrel.model.event_tables import names_above, read_events
from whimbrel.model.json_text import JsonObject
from whimbrel.model.limits import EVENT_ATTRIBUTES, EVENT_VALUES
from whimbrel.ranks.arrow import numbers, string_buffers
from whimbrel.ranks.column_layout import ColumnLayout, ColumnLeaf, layout, leaf_array
from whimbrel.ranks.columns import rank_column
from whimbrel.ranks.dictionary import Dictionary
from whimbrel.ranks.encoding.encoded_events import EncodedEvents, interleaved, united, with_parts
from whimbrel.ranks.encoding.json_events import JsonEvents
from whimbrel.ranks.encoding.json_reader import JsonEntries, JsonNotes, JsonReader
from whimbrel.ranks.encoding.object_batches import ObjectBatch, Refused, derived_parts
from whimbrel.ranks.encoding.single_events import SingleEventEncoder
from whimbrel.ranks.kernel_arrays import ARRAY_BITS, Numbers, Reading
from whimbrel.ranks.links import EventLinks
from whimbrel.ranks.list_columns import ListRanks, rank_lists, rank_map, rank_objects
from whimbrel.ranks.patterns.event_fragments import EventFragments, SeenValues
from whimbrel.ranks.rank_kernels import number_buckets, number_tables, pack, rank_cells
from whimbrel.ranks.string_kernels import short_tables


class EventEncoder:
    """Encodes events by one dictionary. Safe to use from many threads.

    >>> from whimbrel.ranks.dictionary_builder import Constants, build_dictionary
    >>> dictionary = build_dictionary(["price"], [Constants(numbers=[3, 5])])
    >>> EventEncoder(dictionary).encode_event({"price": 4, "color": "red"}).ranks, dictionary.lookup(0).rank_number(5)
    (array([8], dtype=int32), 9)
    """

    def __init__(self, dictionary: Dictionary) -> None:
        self.dictionary = dictionary
        self._arrays = dictionary.arrays
        self._fragments = EventFragments(dictionary) if dictionary.meta.derived else None
        self._links = EventLinks(dictionary) if dictionary.meta.links else None
        derived = (self._fragments, self._links)
        self._sources = frozenset(name for one in derived if one is not None for name in one.names)
        self._lookup = dictionary.lookup
        self._ids = dictionary.sources
        self._json: JsonReader | None = None
        self._layout: tuple[pa.Schema, frozenset[str], ColumnLayout] | None = None

    @cached_property
    def _above(self) -> set[str]:
        """The names above some attribute, such as `a` for `a.b`."""
        return names_above(self._ids)

    @cached_property
    def numbers(self) -> Numbers:
        """The numbers of all attributes, for kernels that read single events."""
        kinds, starts, integers, bases = (
            read_only(self._arrays[name]) for name in ("number_kind", "number_start", "numbers", "rank_base")
        )
        floats = integers.view(np.float64)
        first, buckets, scale = number_buckets(kinds, starts, integers, floats)
        tables = number_tables(kinds, starts, integers)
        return Numbers(kinds, starts, integers, floats, bases, *map(read_only, (first, buckets, scale, *tables)))

    @cached_property
    def reading(self) -> Reading:
        """The strings of all attributes, for kernels that read dicts."""
        start, offset = self._arrays["string_start"], self._arrays["string_offset"]
        longest = np.zeros(len(start), np.int32)  # one more than attributes, as `reduceat` needs
        if len(offset) > 1:
            filled = np.flatnonzero(np.diff(start))
            longest[filled] = np.maximum.reduceat(np.diff(offset), start[filled])
        names = "rank_base", "string_start", "string_offset", "string_bytes", "string_hash_start", "string_hash"
        found = [read_only(self._arrays[name]) for name in (*names, "ordered_strings")]
        times = [read_only(self._arrays[name]) for name in ("time_start", "times")]
        short = short_tables(start, *found[2:4])
        return Reading._make([KINDS, *found, *map(read_only, (longest[:-1], *short)), *times])

    @cached_property
    def single_events(self) -> SingleEventEncoder:
        """The encoder of single events."""
        return SingleEventEncoder(self.dictionary, self._fragments, self._links, self._sources, self.json_reader)

    def encode(self, events: object) -> EncodedEvents:
        """Encode a list of events, or a table of them."""
        return self.encode_events(events) if isinstance(events, list) else self.encode_table(events)

    def encode_table(self, table: pa.Table | pa.RecordBatch, timestamps: Collection[str] = ()) -> EncodedEvents:
        """Encode the rows of a table; texts of the attributes in `timestamps` are read as timestamps."""
        found = self._layout_of(table.schema, frozenset(timestamps))
        fragments = self._fragments
        links = self._links
        is_uncolumnar = any(derived is not None and derived.are_below(found.odd) for derived in (fragments, links))
        if len(found.flat) + len(found.lists) > EVENT_ATTRIBUTES.value or is_uncolumnar:
            return self.encode_events(list(read_events(table, self._ids, timestamps)))
        rows = table.num_rows
        cells = np.empty((len(found.flat), (-(-rows // 16) | 1) * 16), np.int32)  # an odd number of cache lines
        seen: list[SeenValues] = []
        columns: list[tuple[ColumnLeaf, pa.Array, np.ndarray]] = []
        for leaf, line in zip(found.flat, cells, strict=True):
            column = leaf_array(table, leaf)
            rank_column(column, leaf, self._lookup(leaf.attr), line[:rows])
            if links is not None and leaf.name in links.names:
                columns.append((leaf, column, line[:rows]))
            if fragments is not None and leaf.attr in fragments:
                seen.append(SeenValues(leaf.attr, None if leaf.is_time else column, line[:rows], None, None))
        attrs = np.array([leaf.attr for leaf in found.flat], np.int32)
        coupled = np.zeros(rows, np.uint8)
        parts = self._parts(table, found, coupled, timestamps, seen)
        arrays = [leaf.name for leaf in found.objects]
        derived = fragments.parts(seen, rows, coupled) if fragments is not None and seen else []
        if links is not None:
            derived += links.table_parts(columns, found, coupled, lambda names: read_events(table, names, timestamps))
        parts += derived
        encoded = EncodedEvents(rows, *pack(cells, rows, attrs, *_stacked(parts, attrs, rows)), coupled, arrays)
        if len(arrays) < 1 << ARRAY_BITS:
            encoded.elements = partial(_table_elements, cells, attrs, rows, parts)
        if found.odd:
            encoded = united(encoded, self._odd(table, found.odd, timestamps), len(self.numbers.kinds))
        if not found.is_flat:
            sizes = np.diff(encoded.offsets) - sum(part.ends - part.starts for part in derived)
            EVENT_VALUES.check(int(sizes.max(initial=0)), row=int(sizes.argmax()) if rows else 0)
        return encoded

    def _layout_of(self, schema: pa.Schema, timestamps: frozenset[str]) -> ColumnLayout:
        last = self._layout
        if last is not None and last[1] == timestamps and last[0].equals(schema):
            return last[2]
        found = layout(schema, self._ids.get, self._above, timestamps)
        self._layout = schema, timestamps, found
        return found

    def _parts(
        self,
        table: pa.Table | pa.RecordBatch,
        found: ColumnLayout,
        coupled: np.ndarray,
        timestamps: Collection[str],
        seen: list[SeenValues],
    ) -> list[ListRanks]:
        """The ranks of columns with several values per row; marks rows with values in arrays of objects in `coupled`.

        Values of attributes that have patterns are added to `seen`.
        """

        def below(name: str) -> ColumnLeaf | None:
            attr = self._ids.get(name)
            return None if attr is None else ColumnLeaf(attr, name, (), name in timestamps)

        def on_values(
            leaf: ColumnLeaf, values: pa.Array, ranks: np.ndarray, starts: np.ndarray, ends: np.ndarray
        ) -> None:
            if self._fragments is not None and leaf.attr in self._fragments:
                seen.append(SeenValues(leaf.attr, None if leaf.is_time else values, ranks, starts, ends))

        parts = [rank_lists(leaf_array(table, leaf), leaf, self._lookup(leaf.attr), on_values) for leaf in found.lists]
        for number, leaf in enumerate(found.objects):
            fields, in_objects = rank_objects(leaf_array(table, leaf), leaf, number, self._lookup, on_values)
            parts += fields
            coupled |= in_objects
        for leaf in found.maps:
            parts += rank_map(leaf_array(table, leaf), leaf, below, self._lookup, on_values)
        return parts

    def _odd(
        self, table: pa.Table | pa.RecordBatch, leaves: list[ColumnLeaf], timestamps: Collection[str]
    ) -> EncodedEvents:
        """Encode, event by event, the leaves that cannot be read as columns."""
        arrays = [leaf_array(table, leaf) for leaf in leaves]
        odd = pa.Table.from_arrays(arrays, [leaf.name for leaf in leaves])
        return self.encode_events(list(read_events(odd, self._ids, timestamps)))

    def encode_events(
        self,
        events: Sequence[AnyEvent],
        timestamps: Collection[str] = (),
        refused: Refused | None = None,
    ) -> EncodedEvents:
        """Encode many events; `timestamps` is used for plain mappings.

        A bad event is raised with its row, or put into `refused` and has no entries.
        """
        batch = ObjectBatch(events)
        batch.read(self.single_events, self.numbers, self.reading, timestamps, refused)
        parts = derived_parts(self._fragments, batch) if self._fragments is not None else []
        if self._links is not None:
            parts += batch.link_parts(self._links, timestamps)
        encoded = self._ranked(batch.attrs, batch.cells, batch.ends, batch.coupled)
        encoded.arrays = batch.arrays
        elements = batch.elements()
        encoded.elements = None if elements is None else lambda: elements
        return with_parts(encoded, parts) if parts else encoded

    def encode_event(self, event: AnyEvent, timestamps: Collection[str] = ()) -> EncodedEvents:
        """Encode one event."""
        attrs = array("i")
        cells: list[float] = []
        coupled = self.single_events.append(event, timestamps, attrs, cells)
        ends, marks = np.array((0, len(attrs)), np.int64), np.array((coupled,), np.uint8)
        encoded = self._ranked(np.array(attrs, np.int32), np.array(cells, np.float64), ends, marks)
        encoded.arrays = None
        return encoded

    def encode_json(
        self, events: JsonEvents, timestamps: Collection[str] = (), refused: Refused | None = None
    ) -> EncodedEvents:
        """Encode JSON texts. A bad event is raised with its row, or put into `refused` and has no entries."""
        reader, rows = self.json_reader(frozenset(timestamps)), len(events)
        if not reader.is_able:
            nothing = np.empty(0, np.int32)
            found = EncodedEvents(rows, np.zeros(rows + 1, np.int64), nothing, nothing, np.zeros(rows, np.uint8))
            return self._with_left(found, events, range(rows), timestamps, refused)
        buffers = reader.take()
        try:
            read = buffers.read(events)
            parts = self._json_links(read, lambda row: Event.of(events.parse(row), timestamps))
            found = self._ranked(read.attrs, read.cells, read.offsets, read.coupled)
            found.arrays = read.arrays
            elements = read.elements
            found.elements = None if elements is None else lambda: elements
        finally:
            reader.give_back(buffers)
        if self._fragments is not None and read.notes is not None:
            parts += self._fragments.parts(_seen(found, read.notes, self._fragments), rows, read.coupled)
        found = with_parts(found, parts) if parts else found
        return self._with_left(found, events, read.left.tolist(), timestamps, refused) if len(read.left) else found

    def _json_links(self, read: JsonEntries, event: Callable[[int], Event]) -> list[ListRanks]:
        """The ranks of comparisons of two attributes, given the entries of JSON texts."""
        if self._links is None:
            return []
        texts = (np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0, np.uint8))
        if read.notes is not None:
            texts = (read.notes.entries, *string_buffers(read.notes.texts))
        return self._links.parts(read.attrs, read.cells, read.offsets, texts, read.coupled, event)

    def _with_left(
        self,
        found: EncodedEvents,
        events: JsonEvents,
        numbers: Sequence[int],
        timestamps: Collection[str],
        refused: Refused | None,
    ) -> EncodedEvents:
        """Add the entries of events that have none yet, because Python must read them."""
        objects: dict[int, JsonObject] = {}
        bad: Refused = {}
        for number in numbers:
            try:
                objects[number] = events.parse(number)
            except RowError as error:
                bad[number] = error
        left: Refused = {}
        own = np.array(list(objects), np.int64)
        more = self.encode_events(list(objects.values()), timestamps, left)
        bad |= {int(own[place]): error for place, error in left.items()}
        if bad and refused is None:
            raise bad[min(bad)].at_row(min(bad))
        if refused is not None:
            refused |= {number: error for number, error in bad.items() if number not in refused}
        return interleaved(found.count, (np.arange(found.count), found), (own, more))

    def json_reader(self, timestamps: frozenset[str]) -> JsonReader:
        """The reader of JSON texts."""
        reader = self._json
        if reader is None or reader.timestamps != timestamps:
            reader = self._json = JsonReader(self.dictionary, timestamps, self._sources, self.numbers, self.reading)
        return reader

    def _ranked(self, attrs: np.ndarray, cells: np.ndarray, ends: np.ndarray, coupled: np.ndarray) -> EncodedEvents:
        """Rank entries; those of event e end at ends[e + 1]. Changes `ends`, because some entries are left out."""
        out = np.empty((2, len(attrs)), np.int32)
        if len(attrs):
            rank_cells(attrs, cells, cells.view(np.int64), self.numbers, ends, *out)
        return EncodedEvents(len(coupled), ends, out[0, : ends[-1]], out[1, : ends[-1]], coupled)


def _seen(found: EncodedEvents, notes: JsonNotes, fragments: EventFragments) -> list[SeenValues]:
    """The values of attributes with patterns, attribute by attribute."""
    seen: list[SeenValues] = []
    attrs = found.attrs[notes.entries]
    rows = np.searchsorted(found.offsets, notes.entries, "right") - 1
    for attr in filter(fragments.__contains__, np.unique(attrs).tolist()):
        for is_text in (True, False):
            own = np.flatnonzero((attrs == attr) & (notes.are_texts == is_text))
            cuts = np.searchsorted(rows[own], np.arange(found.count + 1))
            values = notes.texts.take(numbers(own)) if is_text else None
            seen.append(SeenValues(attr, values, found.ranks[notes.entries[own]], cuts[:-1], cuts[1:]))
    return seen


def _stacked(
    parts: list[ListRanks], attrs: np.ndarray, rows: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The ranks of list columns in the form that `pack` reads."""
    parts = sorted(parts, key=lambda part: part.attr)
    starts = np.empty((len(parts), rows), np.int64)
    ends = np.empty((len(parts), rows), np.int64)
    first = 0
    for k, part in enumerate(parts):
        starts[k], ends[k] = part.starts + first, part.ends + first
        first += len(part.ranks)
    own = np.array([part.attr for part in parts], np.int32)
    ranks = np.concatenate([np.empty(0, np.int32), *(part.ranks for part in parts)])
    return own, np.searchsorted(attrs, own, "right"), starts, ends, ranks


def _table_elements(cells: np.ndarray, attrs: np.ndarray, rows: int, parts: list[ListRanks]) -> np.ndarray:
    """The elements of the entries of a table, packed in the same order as its ranks."""
    own = [
        part._replace(ranks=np.zeros(len(part.ranks), np.int32) if part.elements is None else part.elements)
        for part in parts
    ]
    elements: np.ndarray = pack(np.minimum(cells, 0), rows, attrs, *_stacked(own, attrs, rows))[2]
    return elements
