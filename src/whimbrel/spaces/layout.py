"""The arrays of one role's regions (all publications', or all subscriptions'), as kernels take them.

A region is a row of cells (dimension, low cut, high cut). Beside the rows there are, per dimension, the two ordered
lists of ALGORITHMS 19.1: all constraints by their low cut, and by their high cut. A list is kept as

    base    sorted by (dimension, cut, slot), large
    run     the same, at most an eighth of the base
    tail    the newest constraints, in no order

Writes change rows at once, and lists when somebody searches: until then the slot is *pending*. An entry that is no
longer true is marked dead in place (`~slot`) and left out when lists are merged. With each entry goes one more
constraint of its region, its *peer*: most entries that a scan passes fail it, without a look at the row.

A region that is valid in a space of few dimensions has an entry in each of them, an unbounded one where it says
nothing, so that the regions around a value can be read off any one dimension. Such cells come last in a row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from whimbrel.spaces.domains import UNBOUNDED_HIGH, UNBOUNDED_LOW

LOW, HIGH = UNBOUNDED_LOW, UNBOUNDED_HIGH
ZONE = 32
"""Entries of a list that share one note on how far their other ends reach."""
WHOLE = 1 << 30
"""Added to an entry's peer where the entry and its peer are all that the region says."""
FEW_DIMENSIONS = 8
"""Up to so many dimensions of a space every valid region has an entry in each."""

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Bytes = NDArray[np.uint8]

# Places in `Rows.counts`.
CELLS_USED, CELLS_LOST, TAIL_USED, PENDING_USED = range(4)


class Ends(NamedTuple):
    """One ordered list: constraints by one of their cuts. `start[d]` is where those of dimension d begin."""

    start: Int64s
    cut: Int64s
    other: Int64s
    slot: Int32s
    peer: Int32s
    peer_low: Int64s
    peer_high: Int64s
    zone_start: Int64s
    zone_cut: Int64s
    """The first cut of each zone: few enough to stay in the cache."""
    zone: Int64s
    """The highest `other` of each zone; in a list by high cuts the lowest."""
    reach: Int64s
    """The highest `other` of all zones of the dimension up to this one; by high cuts the lowest from this one on."""


class Pending(NamedTuple):
    """Slots whose rows have changed since their entries were made, with the cells that the entries are of."""

    slot: Int32s
    real: Int32s
    start: Int64s
    cells: Int64s
    place: Int32s


class Tail(NamedTuple):
    """Constraints that are in no list yet."""

    dimension: Int32s
    slot: Int32s
    low: Int64s
    high: Int64s
    peer: Int32s
    peer_low: Int64s
    peer_high: Int64s


class Rows(NamedTuple):
    """Regions by slot. Cells from `at`, `real` of them said by the user, `length` with those that fill up."""

    at: Int64s
    room: Int32s
    real: Int32s
    length: Int32s
    valid: Int64s
    """The spaces in which a region is valid, one bit each; 0 for a free slot."""
    flags: Bytes
    dirty: Bytes
    """Whether a slot is pending."""
    cells: Int64s
    """(n, 3): dimension, low, high."""
    place: Int32s
    """Where in the tail a cell's entry is; -1 if it is in the lists."""
    counts: Int64s
    valid_in: Int64s
    """How many regions are valid in each space."""
    constrains: Int64s
    """How many regions say something of each dimension."""


class Dimensions(NamedTuple):
    """Which spaces have a dimension, one bit each: all of them, and those with few dimensions."""

    spaces: Int64s
    small: Int64s


class Index(NamedTuple):
    """All arrays of a role."""

    rows: Rows
    lows: Ends
    highs: Ends
    run_lows: Ends
    run_highs: Ends
    tail: Tail
    dimensions: Dimensions


class Regions(NamedTuple):
    """Regions by number, with or without content: cells from start[n] to start[n + 1], in order of dimensions."""

    start: Int64s
    cells: Int64s

    @staticmethod
    def of(rows: list[Any]) -> Regions:
        """Regions from lists or arrays of cells."""
        if len(rows) == 1 and isinstance(rows[0], np.ndarray):
            return Regions(np.array([0, len(rows[0])], np.int64), rows[0])
        start = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=start[1:])
        if any(isinstance(row, np.ndarray) for row in rows):
            return Regions(start, np.concatenate([np.asarray(row, np.int64).reshape(-1, 3) for row in rows]))
        cells = np.array([cell for row in rows for cell in row], np.int64).reshape(-1, 3)
        return Regions(start, cells)

    @staticmethod
    def none(count: int) -> Regions:
        """Regions that are not there."""
        return Regions(np.zeros(count + 1, np.int64), np.zeros((0, 3), np.int64))

    def part(self, first: int, last: int) -> Regions:
        """The regions from one number up to another."""
        start = self.start[first : last + 1]
        return Regions(start - start[0], self.cells[start[0] : start[-1]])

    def take(self, order: Int64s) -> Regions:
        """The regions in another order."""
        lengths = np.diff(self.start)[order]
        start = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        source = np.repeat(self.start[order] - start[:-1], lengths) + np.arange(start[-1])
        return Regions(start, self.cells[source])

    def row(self, number: int) -> Int64s:
        """The cells of one region."""
        return self.cells[self.start[number] : self.start[number + 1]]


def empty_ends(dimensions: int) -> Ends:
    """A list without entries."""
    starts = np.zeros(dimensions + 1, np.int64)
    none, slots = np.zeros(0, np.int64), np.zeros(0, np.int32)
    return Ends(starts, none, none, slots, slots, none, none, starts.copy(), none, none, none)
