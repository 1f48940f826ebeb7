"""The arrays of one role's regions (all publications', or all subscriptions'), as kernels take them.

A region is a row of cells (dimension, low cut, high cut). Beside the rows there are, per dimension, the two ordered
lists of ALGORITHMS 19.1: all constraints by their low cut, and by their high cut. A list is kept as

    base    sorted by (dimension, cut, slot), large
    run     the same, at most an eighth of the base
    tail    the newest constraints, in no order

Writes change rows at once, and lists when somebody searches: until then the slot is *pending*. An entry that is no
longer true is marked dead in place and left out when lists are merged. With each entry goes one more constraint of its
region, its *peer*: most entries that a scan passes fail it, without a look at the row.

A region that is valid in a space of few dimensions has an entry in each of them, an unbounded one where it says
nothing, so that the regions around a value can be read off any one dimension. Such cells come last in a row.

What is read together lies together, one entry or row after the other, and the arrays are few: to hand an array to a
kernel costs as much as to pass a dozen entries.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from whimbrel.spaces.domains import UNBOUNDED_HIGH, UNBOUNDED_LOW

LOW, HIGH = UNBOUNDED_LOW, UNBOUNDED_HIGH
ZONE = 32
"""Entries of a list that share one note on how far their other ends reach."""
FEW_DIMENSIONS = 8
"""Up to so many dimensions of a space every valid region has an entry in each."""

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Bytes = NDArray[np.uint8]

CUT, OTHER, TAG, PEER_LOW, PEER_HIGH, DIMENSION = range(6)
"""Columns of an entry: its cut, the other end, what it is of, and the ends of its peer. In the tail its dimension, too,
and the cut is the low one."""

SLOT_SHIFT = 32
SLOT = -1 << SLOT_SHIFT
PEER = (1 << 24) - 1
WHOLE = 1 << 24
"""In a tag: the entry and its peer are all that the region says."""
DEAD = 1 << 25
"""In a tag: the entry is no longer true, and its peer matches nothing. Above are the bits of the slot, below those of
the peer's dimension."""

FIRST_CUT, EXTREME, REACH = range(3)
"""Columns of a zone: its first cut; the highest other end in it; and in all zones of the dimension up to it. In a list
by high cuts the lowest one, and from this zone on."""

AT, ROOM, REAL, LENGTH, VALID = range(5)
"""Columns of a row's head: where its cells begin; how many fit there, were said by the user, and are there with those
that fill up; the spaces in which the region is valid, one bit each, 0 for a free slot."""

CELLS_USED, CELLS_LOST, TAIL_USED, PENDING_USED = range(4)
"""Places in `Rows.counts`."""


class Ends(NamedTuple):
    """One ordered list: constraints by one of their cuts."""

    start: Int64s
    """(2, n + 1): where the entries of each dimension begin, and its zones."""
    entries: Int64s
    zones: Int64s


class Rows(NamedTuple):
    """Regions by slot."""

    heads: Int64s
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


class Pending(NamedTuple):
    """Slots whose rows have changed since their entries were made, with the cells that the entries are of."""

    slots: Int64s
    """(n, 3): the slot, how many of its cells were said by the user, and where its cells begin."""
    cells: Int64s
    place: Int32s


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
    tail: Int64s
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
    return Ends(np.zeros((2, dimensions + 1), np.int64), np.zeros((0, 5), np.int64), np.zeros((0, 3), np.int64))
