"""The forms in which many events come: tables, objects, JSON texts, and any of them for an index with a schema.

A source gives its events batch by batch. A batch can be cut, encoded for a segment, and read as `Event`s where a filter
itself must look at them. A form is a class for each; nothing else in the engine knows which form events have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import ClassVar, Protocol, cast

import msgspec
import numpy as np
import pyarrow as pa

from whimbrel.model.errors import RowError
from whimbrel.model.event import AnyEvent, Event
from whimbrel.model.event_tables import check_types, read_events, rows_of
from whimbrel.ranks import arrow
from whimbrel.ranks.encoding.encoded_events import EncodedEvents, interleaved
from whimbrel.ranks.encoding.event_encoder import EventEncoder
from whimbrel.ranks.encoding.json_events import JsonEvents, JsonLines, json_texts
from whimbrel.ranks.encoding.object_batches import Refused

UNIT_BYTES = 4 << 20
"""Bytes of JSON that are read at once, about."""
TABLE_NS, READ_NS = 400, 1_000
"""What one more segment to search costs an event of a batch, about: one of a table, and one that must be read."""
_DECODER = msgspec.json.Decoder(dict[str, object])


class EventBatch(Protocol):
    """Some events of one form, numbered from 0."""

    def __len__(self) -> int: ...

    def part(self, first: int, end: int) -> EventBatch:
        """The events from number `first` to `end`."""

    def encode(self, encoder: EventEncoder, timestamps: Collection[str], refused: Refused | None) -> EncodedEvents:
        """Encode all events. A bad one is raised with its number, or put into `refused`; then its entries are void."""

    def read(self, numbers: Sequence[int], attributes: Collection[str], timestamps: Collection[str]) -> Sequence[Event]:
        """The events of some numbers, with at least these attributes. The first bad one is raised with its place.

        What is wrong with all events is raised even without numbers.
        """


class EventSource(Protocol):
    """Events that are taken from the front."""

    segment_ns: ClassVar[int]
    """What one more segment to search costs an event, about."""

    def take(self, count: int) -> EventBatch | None:
        """The next events, at most `count`; None at the end."""


class TableEvents:
    """The rows of a table."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def part(self, first: int, end: int) -> TableEvents:
        """The rows from `first` to `end`."""
        return TableEvents(rows_of(self.table, first, end))

    def encode(self, encoder: EventEncoder, timestamps: Collection[str], refused: Refused | None) -> EncodedEvents:
        """Encode column by column. Rows that are refused are found by halving the table."""
        if refused is None:
            return encoder.encode_table(self.table, timestamps)
        try:
            return encoder.encode_table(self.table, timestamps)
        except RowError:
            encoder.encode_table(self.table.slice(0, 0), timestamps)  # a column that is wrong as a whole is raised
            parts = list(self._encode_good(encoder, timestamps, 0, refused))
            starts = np.cumsum([0, *(part.count for part in parts)])
            numbers = (np.arange(start, start + part.count) for start, part in zip(starts, parts, strict=False))
            return interleaved(len(self), *zip(numbers, parts, strict=True))

    def _encode_good(
        self, encoder: EventEncoder, timestamps: Collection[str], first: int, refused: Refused
    ) -> Iterator[EncodedEvents]:
        try:
            yield encoder.encode_table(self.table, timestamps)
        except RowError as error:
            if len(self) == 1:
                refused.setdefault(first, error)
                yield encoder.encode_events([NOTHING])
                return
            half = len(self) // 2
            yield from self.part(0, half)._encode_good(encoder, timestamps, first, refused)
            yield from self.part(half, len(self))._encode_good(encoder, timestamps, first + half, refused)

    def read(self, numbers: Sequence[int], attributes: Collection[str], timestamps: Collection[str]) -> Sequence[Event]:
        """Read rows, of the columns that `attributes` need; without numbers, look at the types of these columns."""
        if not len(numbers):
            check_types(self.table, attributes)
            return []
        if not self.table.num_columns:  # it has rows all the same, but nothing to take from
            return [NOTHING] * len(numbers)
        try:
            taken = self.table.take(arrow.numbers(np.array(numbers, np.int64)))
        except pa.ArrowNotImplementedError:  # views and run-end-encoded columns cannot be taken from, but can be sliced
            taken = pa.concat_tables([self.table.slice(number, 1) for number in numbers])
        return list(read_events(taken, attributes, timestamps))


class ObjectEvents:
    """A list of objects: dicts, other mappings, `Event`s."""

    def __init__(self, objects: Sequence[AnyEvent]) -> None:
        self.objects = objects

    def __len__(self) -> int:
        return len(self.objects)

    def part(self, first: int, end: int) -> ObjectEvents:
        """The objects from number `first` to `end`."""
        return ObjectEvents(self.objects[first:end])

    def encode(self, encoder: EventEncoder, timestamps: Collection[str], refused: Refused | None) -> EncodedEvents:
        """Encode dicts by a compiled reader, and others one by one."""
        return encoder.encode_events(self.objects, timestamps, refused)

    def read(self, numbers: Sequence[int], attributes: Collection[str], timestamps: Collection[str]) -> Sequence[Event]:
        """Make events of the objects."""
        return [self._read_one(number, timestamps) for number in numbers]

    def _read_one(self, number: int, timestamps: Collection[str]) -> Event:
        try:
            return Event.of(self.objects[number], timestamps)
        except RowError as error:
            raise error.at_row(number) from error


class JsonTexts:
    """JSON texts."""

    def __init__(self, events: JsonEvents) -> None:
        self._events = events

    def __len__(self) -> int:
        return len(self._events)

    def part(self, first: int, end: int) -> JsonTexts:
        """The texts from number `first` to `end`."""
        return JsonTexts(self._events.slice(first, end))

    def encode(self, encoder: EventEncoder, timestamps: Collection[str], refused: Refused | None) -> EncodedEvents:
        """Encode texts by a compiled reader, and those that it leaves one by one."""
        return encoder.encode_json(self._events, timestamps, refused)

    def read(self, numbers: Sequence[int], attributes: Collection[str], timestamps: Collection[str]) -> Sequence[Event]:
        """Parse texts."""
        return [self._read_one(number, timestamps) for number in numbers]

    def objects(self, encoder: EventEncoder) -> list[dict[str, object] | None]:
        """The objects of the texts that the compiled reader has nothing against, by a quick parser; None for others."""
        reader, count = encoder.json_reader(frozenset()), len(self)
        if not reader.is_able:
            return [None] * count
        buffers = reader.take()
        try:
            left = {*buffers.read(self._events).left.tolist(), *np.flatnonzero(self._events.begins < 0).tolist()}
        finally:
            reader.give_back(buffers)
        data: memoryview = self._events.data.data
        places = zip(self._events.begins.tolist(), self._events.ends.tolist(), strict=True)
        return [
            None if number in left else _quick_object(data[begin:end]) for number, (begin, end) in enumerate(places)
        ]

    def _read_one(self, number: int, timestamps: Collection[str]) -> Event:
        try:
            return Event(self._events.parse(number), timestamps)
        except RowError as error:
            raise error.at_row(number) from error


NOTHING = Event({})


class TableSource:
    """A table, cut where a dictionary column changes its dictionary: Arrow cannot always unite two."""

    segment_ns: ClassVar[int] = TABLE_NS

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._cuts = dictionary_cuts(table)
        self._next = 0

    def take(self, count: int) -> TableEvents | None:
        """The next rows."""
        first = self._next
        cut = int(np.searchsorted(self._cuts, first, "right"))
        end = min(first + count, self._cuts[cut]) if cut < len(self._cuts) else first + count
        batch = TableEvents(rows_of(self._table, first, end))
        self._next += len(batch)
        return batch if len(batch) else None


class ObjectSource:
    """Objects of any iterable, which is read no further than is asked for."""

    segment_ns: ClassVar[int] = READ_NS

    def __init__(self, objects: Iterable[AnyEvent]) -> None:
        self._objects: Iterator[AnyEvent] = iter(objects)

    def take(self, count: int) -> ObjectEvents | JsonTexts | None:
        """The next objects; JSON texts, where all of them are."""
        taken = list(islice(self._objects, count))
        if taken and set(map(type, taken)) <= {bytes, str}:
            return JsonTexts(json_texts(cast("list[bytes | str]", taken)))
        return ObjectEvents(taken) if taken else None


class JsonSource:
    """JSON texts in one piece of memory."""

    segment_ns: ClassVar[int] = READ_NS

    def __init__(self, events: JsonEvents) -> None:
        self._events = events
        self._next = 0

    def take(self, count: int) -> JsonTexts | None:
        """The next texts."""
        first = self._next
        self._next = self._events.within(first, count, UNIT_BYTES)
        return JsonTexts(self._events.slice(first, self._next)) if self._next > first else None


class LineSource:
    """JSON lines in one piece of memory, which is read no further than is asked for."""

    segment_ns: ClassVar[int] = READ_NS

    def __init__(self, lines: JsonLines) -> None:
        self._lines = lines

    def take(self, count: int) -> JsonTexts | None:
        """The next lines."""
        taken = self._lines.take(count, UNIT_BYTES)
        return None if taken is None else JsonTexts(taken)


def dictionary_cuts(table: pa.Table) -> np.ndarray:
    """The rows at which some dictionary column changes its dictionary."""
    cuts = [np.empty(0, np.int64)]
    for column in table.columns:
        if column.num_chunks > 1 and _has_dictionary(column.type):
            cuts.append(np.cumsum([len(chunk) for chunk in column.chunks])[:-1])
    return np.unique(np.concatenate(cuts))


def _has_dictionary(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _has_dictionary(kind.storage_type)
    fields = [kind.field(number).type for number in range(kind.num_fields)]
    return pa.types.is_dictionary(kind) or any(map(_has_dictionary, fields))


def _quick_object(text: memoryview) -> dict[str, object] | None:
    """The object that a text without faults is; None if the quick parser has another limit."""
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
