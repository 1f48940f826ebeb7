"""Events on their way into an index that has a schema: each judged, and its ordered values turned into codes.

A table whose columns are simple is judged and coded column by column (`typed_columns.py`); everything else, and a
table with anything wrong in it, event by event, which finds every violation of the first invalid one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from whimbrel.engine.typed_columns import coded_table
from whimbrel.model.event import Event
from whimbrel.model.tables import as_arrow, read_typed_events

if TYPE_CHECKING:
    import pyarrow as pa

    from whimbrel.model.schema import Schema


def typed_events(schema: Schema, events: object) -> pa.Table | Iterator[Event]:
    """The events of any supported shape, valid and in codes; InvalidEvent names the row."""
    table = as_arrow(events)
    if table is not None:
        coded = coded_table(schema, table)
        if coded is not None:
            return coded
    return read_typed_events(schema, events if table is None else table)
