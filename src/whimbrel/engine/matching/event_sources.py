"""Opens events of any form as a source."""

from __future__ import annotations

from collections.abc import Collection
from mmap import mmap
from typing import TYPE_CHECKING

import pyarrow as pa

from whimbrel.engine.matching.event_forms import (
    EventSource,
    JsonSource,
    LineSource,
    ObjectSource,
    TableEvents,
    TableSource,
)
from whimbrel.model.event import Event
from whimbrel.model.event_tables import as_arrow, objects_of
from whimbrel.ranks.encoding.json_events import JsonLines, json_column

if TYPE_CHECKING:
    from whimbrel.model.schema import Schema


def open_source(events: object, schema: Schema | None = None) -> EventSource:
    """Open events as a source; EventError if they have no known form."""
    source: EventSource | None = _open_texts(events)
    table = as_arrow(events) if source is None else None
    if table is not None and schema is not None:
        from whimbrel.engine.matching.typed_batches import table_source

        return table_source(schema, table)
    if table is not None:
        return TableSource(table)
    if source is None:
        source = ObjectSource(objects_of(events))
    if schema is None:
        return source
    from whimbrel.engine.matching.typed_batches import TypedSource

    return TypedSource(schema, source, ())


def _open_texts(events: object) -> JsonSource | LineSource | None:
    """Open JSON texts as a source; None for other events, and for lists, whose members `ObjectSource` looks at."""
    if isinstance(events, str):
        events = events.encode("utf-8", "surrogatepass")
    if isinstance(events, bytes | bytearray | memoryview | mmap):
        events = JsonLines(events)
    if isinstance(events, JsonLines):
        return LineSource(events)
    column = json_column(events) if isinstance(events, pa.Array | pa.ChunkedArray) else None
    return None if column is None else JsonSource(column)


def sample_of(source: EventSource, count: int, timestamps: Collection[str]) -> pa.Table | list[Event] | None:
    """The first `count` events of a source; None if it is empty."""
    batch = source.take(count)
    if isinstance(batch, TableEvents):
        return batch.table
    return None if batch is None else list(batch.read(range(len(batch)), (), timestamps))
