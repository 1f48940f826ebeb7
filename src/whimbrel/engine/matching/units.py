"""Cuts the input into units, the slices that threads match; their size follows the number of matches."""

from __future__ import annotations

from typing import NamedTuple

from whimbrel.engine.matching.event_forms import EventBatch, EventSource
from whimbrel.engine.matching.workspace import PAIRS

UNIT = 4_096
"""Events of a unit, at most."""
FIRST_UNIT = 16
"""Events of the first unit, before the number of matches is known."""
GROWTH = 8
"""A unit is at most so many times as large as the one before it. Each costs some microseconds per column."""


class Unit(NamedTuple):
    """Some events, and the number of the first one in the input."""

    first: int
    events: EventBatch

    def front(self, size: int) -> Unit:
        """The first `size` events."""
        return self if size >= len(self.events) else Unit(self.first, self.events.part(0, size))

    def rest(self, done: int) -> Unit | None:
        """The events after the first `done`; None if there are none."""
        count = len(self.events)
        return Unit(self.first + done, self.events.part(done, count)) if done < count else None


class Units:
    """Cuts the input into units whose size follows the number of matches."""

    def __init__(self, source: EventSource, size: int = FIRST_UNIT) -> None:
        self._source = source
        self._next = 0
        self.size = size

    def take(self) -> Unit | None:
        """The next unit, or None at the end."""
        events = self._source.take(self.size)
        if events is None:
            return None
        first = self._next
        self._next += len(events)
        return Unit(first, events)

    def learn(self, events: int, pairs: int) -> None:
        """Fit the size of the next units to a result: so many events had so many matches."""
        ideal = PAIRS * max(1, events) // max(1, pairs)
        self.size = int(min(UNIT, max(1, ideal), GROWTH * self.size))
