"""From the rows that a kernel found to the subscriptions that hold them, event by event."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from whimbrel.compiled.jit import kernel
from whimbrel.matchers.runs import Int32s, Int64s


@dataclass(slots=True)
class RowHolders:
    """The places of each row, and the places that every event matches."""

    start: Int64s  # [rows + 1]
    places: Int32s
    always: Int32s
    size: int  # places there are
    several: bool  # whether one event may reach a place twice
    _stamps: Int32s = field(init=False)
    _epoch: int = 0

    def __post_init__(self) -> None:
        self._stamps = np.zeros(self.size if self.several else 0, dtype=np.int32)

    def expand(self, rows: Int32s, ends: Int64s) -> tuple[Int64s, Int32s]:
        """The places of the rows of some events: where each event's places start and end, and the places."""
        if self._epoch > np.iinfo(np.int32).max - len(ends):
            self._stamps[:] = 0
            self._epoch = 0
        total = _total(rows, self.start) + len(ends) * len(self.always)
        out = np.empty(total, dtype=np.int32)
        starts = np.zeros(len(ends) + 1, dtype=np.int64)
        found = _expand(rows, ends, self.start, self.places, self.always, self._stamps, self._epoch, starts, out)
        self._epoch += len(ends)
        return starts, out[:found]

    def count(self, rows: Int32s, ends: Int64s) -> int:
        """How many places the rows of some events have."""
        if self.several:
            return len(self.expand(rows, ends)[1])
        return int(_total(rows, self.start)) + len(ends) * len(self.always)


@kernel
def _total(rows: Int32s, start: Int64s) -> int:
    total = 0
    for row in rows:
        total += start[row + 1] - start[row]
    return total


@kernel
def _expand(
    rows: Int32s,
    ends: Int64s,
    start: Int64s,
    places: Int32s,
    always: Int32s,
    stamps: Int32s,
    epoch: int,
    starts: Int64s,
    out: Int32s,
) -> int:
    found = 0
    begin = 0
    for event in range(ends.size):
        epoch += 1
        for place in always:
            out[found] = place
            found += 1
            if stamps.size:
                stamps[place] = epoch
        for i in range(begin, ends[event]):
            for j in range(start[rows[i]], start[rows[i] + 1]):
                place = places[j]
                if stamps.size:
                    if stamps[place] == epoch:
                        continue
                    stamps[place] = epoch
                out[found] = place
                found += 1
        begin = ends[event]
        starts[event + 1] = found
    return found
