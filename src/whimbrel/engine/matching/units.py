"""Units: the slices of the input in which many events are matched. Their size follows the number of matches."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from whimbrel.engine.matching.results import Result
from whimbrel.engine.matching.workspace import PAIRS
from whimbrel.model.event import Event
from whimbrel.model.event_tables import as_arrow, read_events, rows_of

UNIT = 4_096
"""Events of a unit, at most."""
FIRST_UNIT = 16
"""Events of the first unit, when it is not known yet how many match."""
GROWTH = 8
"""A unit is at most so many times as large as the one before; each costs some microseconds per column."""

Events: TypeAlias = pa.Table | list[Event]


class Unit(NamedTuple):
    """Some events, and the number of the first one in the input."""

    first: int
    events: Events

    def front(self, size: int) -> Unit:
        """The first `size` events."""
        return Unit(self.first, self.events[:size] if isinstance(self.events, list) else rows_of(self.events, 0, size))

    def rest(self, done: int) -> Unit | None:
        """The events after the first `done`; None if there are none."""
        rest = self.events[done:] if isinstance(self.events, list) else rows_of(self.events, done, len(self.events))
        return Unit(self.first + done, rest) if len(rest) else None


class Units:
    """Cuts the input into units whose size follows the number of matches."""

    def __init__(
        self, events: object, attributes: Collection[str], timestamps: Collection[str], size: int = FIRST_UNIT
    ) -> None:
        self._table = as_arrow(events)
        self._events = None if self._table is not None else read_events(events, attributes, timestamps)
        self._next = 0
        self._cuts = np.empty(0, np.int64) if self._table is None else _dictionary_cuts(self._table)
        self.size = size

    def take(self) -> Unit | None:
        """The next unit, or None at the end."""
        first = self._next
        events: Events
        if self._events is not None:
            events = list(islice(self._events, self.size))
        else:
            assert self._table is not None
            cut = int(np.searchsorted(self._cuts, first, "right"))
            end = min(first + self.size, self._cuts[cut]) if cut < len(self._cuts) else first + self.size
            events = rows_of(self._table, first, end)
        self._next += len(events)
        return Unit(first, events) if len(events) else None

    def learn(self, result: Result) -> int:
        """Fit the size of the next units to a result, and return the number of its events."""
        events, pairs = len(result[0]) - 1, len(result[1])
        ideal = PAIRS * max(1, events) // max(1, pairs)
        self.size = int(min(UNIT, max(1, ideal), GROWTH * self.size))
        return events


def sample_of(events: object, count: int, attributes: Collection[str], timestamps: Collection[str]) -> Events | None:
    """The first `count` events of any input; None if it is empty."""
    table = as_arrow(events)
    if table is not None and not len(_dictionary_cuts(first := rows_of(table, 0, count))):
        return first
    return list(islice(read_events(events if table is None else table, attributes, timestamps), count)) or None


def _dictionary_cuts(table: pa.Table) -> np.ndarray:
    """The rows at which some dictionary column changes its dictionary: Arrow cannot always unite two."""
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
