"""Batches of an index that has a schema: events of any form, checked and in codes.

A table is checked as it is, flat objects and JSON texts become one (`typed_events`). All others are read one by one, by
the rules themselves, which find every violation of an invalid event.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from whimbrel.engine.matching.event_forms import (
    NOTHING,
    READ_NS,
    EventBatch,
    EventSource,
    JsonTexts,
    ObjectEvents,
    TableSource,
)
from whimbrel.engine.matching.typed_events import coded_objects, coded_table
from whimbrel.model.errors import RowError
from whimbrel.model.event import Event
from whimbrel.ranks.encoding.encoded_events import EncodedEvents, interleaved
from whimbrel.ranks.encoding.event_encoder import EventEncoder
from whimbrel.ranks.encoding.object_batches import Refused

if TYPE_CHECKING:
    from whimbrel.model.schema import Schema


def table_source(schema: Schema, table: pa.Table) -> EventSource:
    """The source of a table in codes; of single events if it is not simple or not valid."""
    coded = coded_table(schema, table)
    return TypedSource(schema, TableSource(table), table.column_names) if coded is None else TableSource(coded)


class TypedEvents:
    """Events of an index with a schema: each is checked against it, and its values become codes.

    Flat objects are checked as a table; all others, and all where one is invalid, one by one.
    """

    def __init__(self, schema: Schema, batch: EventBatch, attributes: Collection[str]) -> None:
        self._schema = schema
        self._batch = batch
        self._attributes = attributes
        self._typed: dict[int, Event] = {}
        self._refused: Refused = {}
        self._coded: tuple[np.ndarray, pa.Table] | None = None
        self._is_open = False

    def __len__(self) -> int:
        return len(self._batch)

    def part(self, first: int, end: int) -> TypedEvents:
        """The events from number `first` to `end`."""
        return TypedEvents(self._schema, self._batch.part(first, end), self._attributes)

    def encode(self, encoder: EventEncoder, timestamps: Collection[str], refused: Refused | None) -> EncodedEvents:
        """Encode the codes of valid events."""
        coded = self._coded_rows(encoder)
        rest = range(len(self)) if coded is None else np.setdiff1d(np.arange(len(self)), coded[0]).tolist()
        typed = self._read_typed(rest)
        if self._refused and refused is None:
            raise self._refused[min(self._refused)]
        if refused is not None:
            refused.update(self._refused)
        if coded is None:
            return encoder.encode_events(typed, (), refused)
        quick = encoder.encode_table(coded[1])
        if not rest:
            return quick
        return interleaved(len(self), (coded[0], quick), (np.array(rest), encoder.encode_events(typed)))

    def read(self, numbers: Sequence[int], attributes: Collection[str], timestamps: Collection[str]) -> Sequence[Event]:
        """The events in codes."""
        typed = self._read_typed(numbers)
        for number in numbers:
            if number in self._refused:
                raise self._refused[number]
        return typed

    def _coded_rows(self, encoder: EventEncoder) -> tuple[np.ndarray, pa.Table] | None:
        """The numbers of the flat objects, and their table in codes; None if they must be read one by one."""
        if not self._is_open:
            self._is_open = True
            if isinstance(self._batch, JsonTexts):
                self._coded = coded_objects(self._schema, self._batch.objects(encoder))
            elif isinstance(self._batch, ObjectEvents):
                objects = [one if type(one) is dict else None for one in self._batch.objects]
                self._coded = coded_objects(self._schema, objects)
        return self._coded

    def _read_typed(self, numbers: Sequence[int]) -> list[Event]:
        """The events of some numbers in codes; an empty one where one is refused."""
        new = [number for number in numbers if number not in self._typed]
        try:
            plain: Sequence[Event | None] = self._batch.read(new, self._attributes, ())
        except RowError:
            plain = [None] * len(new)
        for number, event in zip(new, plain, strict=True):
            self._typed[number] = self._typed_one(number, event)
        return [self._typed[number] for number in numbers]

    def _typed_one(self, number: int, event: Event | None) -> Event:
        """An event in codes; an empty one if it is refused."""
        try:
            plain = self._batch.read([number], self._attributes, ())[0] if event is None else event
            return self._schema.read(plain, number)
        except RowError as error:
            self._refused[number] = error.at_row(number)
            return NOTHING


class TypedSource:
    """Another source, checked against a schema."""

    segment_ns: ClassVar[int] = READ_NS

    def __init__(self, schema: Schema, source: EventSource, attributes: Collection[str]) -> None:
        self._schema = schema
        self._source = source
        self._attributes = attributes

    def take(self, count: int) -> TypedEvents | None:
        """The next events."""
        batch = self._source.take(count)
        return None if batch is None else TypedEvents(self._schema, batch, self._attributes)
