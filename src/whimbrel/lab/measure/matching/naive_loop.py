"""Compiled naive: every conjunction, constraint by constraint, until one fails, in Numba on columns.

Bias. This is the baseline of every speed claim, so it is a fast loop. It is that of the matcher `compiled_naive`, with
the same layout: ranks instead of values, the constraints of all conjunctions one after the other, both ends of an
interval in one comparison. It is loaded from flat arrays, as a million filters of different shapes need, and it is
spared two things: its filters are not parsed, and a list column is given to it as columns of 0 and 1. Encoding the
events is part of its time, as it is of the engine's. Targets are ratios to the loop over all subscriptions. Where many
filters are equal, a second loop that tests equal filters once runs beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.compiled.jit import helper, kernel
from whimbrel.lab.measure.matching.cases import MatchCase
from whimbrel.lab.measure.matching.flat_filters import POINTS, RANGE, FlatFilters, read_filters, spans
from whimbrel.lab.measure.matching.rival import CannotTakePart, Pairs, Rival, RivalMaker, pairs_of_blocks

UInt32s: TypeAlias = NDArray[np.uint32]

ANY_WIDTH = np.uint32(0xFFFFFFFF)
"""The width of a set of points: every rank passes the first test and goes on to the second."""
BLOCK = 4_096
MOSTLY_DIFFERENT = 0.9
"""The second loop is left out if a larger share of the filters than this is different."""


def rivals(case: MatchCase) -> list[Rival]:
    """The loop over all subscriptions, and the one over different filters."""
    return [NaiveLoop(), NaiveLoop(once=True)]


class NaiveLoop(Rival):
    """The loop over arrays of ranks. With `once`, equal filters share one row, which is expanded to their ids."""

    group = "naive"

    def __init__(self, once: bool = False) -> None:
        self.name = "compiled naive (equal filters once)" if once else "compiled naive"
        self._once = once

    def load(self, subscriptions: pa.Table) -> None:
        texts = subscriptions["filter"].combine_chunks()
        self._ids = subscriptions["id"].to_numpy()
        self._holders: tuple[np.ndarray, np.ndarray] | None = None
        if self._once:
            texts = self._different(texts)
        filters = read_filters(pa.chunked_array([texts]))
        self._filters = filters
        self._grid = [_grid(filters, number) for number in range(len(filters.names))]
        low, high = np.empty(len(filters.low), np.int32), np.empty(len(filters.low), np.int32)
        point_ranks = np.empty(len(filters.points), np.int32)
        for number, grid in enumerate(self._grid):
            mine = filters.attribute == number
            ranged = mine & (filters.kind == RANGE)
            low[ranged], high[ranged] = _ranks(grid, filters.low[ranged]), _ranks(grid, filters.high[ranged])
            listed = mine & (filters.kind == POINTS)
            low[listed], high[listed] = filters.low[listed], filters.high[listed]
            at = spans(filters.low[listed], filters.high[listed])
            point_ranks[at] = _ranks(grid, filters.points[at])
        width = np.where(filters.kind == RANGE, high - low, ANY_WIDTH).astype(np.uint32)
        columns = (filters.attribute.astype(np.uint32), low, width, high, point_ranks)
        self._arrays = (filters.start.astype(np.uint32), *columns)
        self._out = np.empty(2 * len(filters) + (1 << 16), np.int32)

    def pairs(self, events: pa.Table) -> Iterator[Pairs]:
        return pairs_of_blocks(self._blocks(events), lambda rows: self._ids[rows])

    def run(self, events: pa.Table) -> int:
        return sum(len(rows) for _, rows in self._blocks(events))

    def bytes(self) -> int | None:
        return sum(array.nbytes for array in self._arrays)

    def _different(self, texts: pa.Array) -> pa.Array:
        """Return the different texts, and note the subscriptions of each."""
        coded = texts.dictionary_encode()
        if len(coded.dictionary) > MOSTLY_DIFFERENT * len(texts):
            raise CannotTakePart("hardly any filter is equal to another")
        which = coded.indices.to_numpy()
        starts = np.concatenate(([0], np.cumsum(np.bincount(which))))
        self._holders = starts, np.argsort(which, kind="stable").astype(np.int32)
        return coded.dictionary

    def _blocks(self, events: pa.Table) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for first in range(0, events.num_rows, BLOCK):
            values = self._filters.values(events.slice(first, BLOCK))
            ranks = np.empty(values.shape[::-1], np.int32)
            for number, grid in enumerate(self._grid):
                ranks[:, number] = _ranks(grid, values[number])
            event = 0
            while event < len(ranks):
                offsets = np.zeros(len(ranks) - event + 1, np.int64)
                done = scan(ranks, event, *self._arrays, self._out, offsets)
                offsets, rows = offsets[: done - event + 1], self._out[: offsets[done - event]]
                yield (offsets, rows) if self._holders is None else expand(offsets, rows, *self._holders)
                event = done


def _grid(filters: FlatFilters, number: int) -> np.ndarray:
    """The constants of an attribute, sorted."""
    mine = filters.attribute == number
    listed = mine & (filters.kind == POINTS)
    bounds = mine & (filters.kind == RANGE)
    return np.unique(np.concatenate([filters.low[bounds], filters.high[bounds], filters.members(listed)]))


def _ranks(grid: np.ndarray, values: np.ndarray) -> np.ndarray:
    """2 i + 2 for constant i, odd between constants, 0 for a missing value."""
    place = np.searchsorted(grid, values)
    exact = grid[np.minimum(place, len(grid) - 1)] == values
    return np.where(values == -np.inf, 0, 2 * place + 1 + exact).astype(np.int32)


@kernel
def scan(
    ranks: Int32s,
    event: int,
    start: UInt32s,
    attribute: UInt32s,
    low: Int32s,
    width: UInt32s,
    end: Int32s,
    points: Int32s,
    out: Int32s,
    offsets: Int64s,
) -> int:
    """Match events until `out` may be too small for the rows of the next one. Return the event to go on with."""
    rows = start.size - 1
    first = event
    found = 0
    while event < len(ranks) and found + rows <= out.size:
        values = ranks[event]
        for row in range(rows):
            item, stop = start[row], start[row + 1]
            while item < stop:
                rank = values[attribute[item]]
                if np.uint32(rank - low[item]) > width[item]:  # both ends in one comparison
                    break
                if width[item] == ANY_WIDTH and not _holds(rank, low[item], end[item], points):
                    break
                item += np.uint32(1)
            out[found] = row
            found += item == stop
        event += 1
        offsets[event - first] = found
    return event


@helper
def _holds(rank: int, low: int, end: int, points: Int32s) -> bool:
    for i in range(low, end):  # noqa: SIM110 - `any` over a generator is not compiled
        if points[i] == rank:
            return True
    return False


@kernel
def expand(offsets: Int64s, rows: Int32s, starts: Int64s, holders: Int32s) -> tuple[Int64s, Int32s]:
    """The subscriptions of rows, event by event."""
    total = 0
    for row in rows:
        total += starts[row + 1] - starts[row]
    out = np.empty(total, np.int32)
    ends = np.zeros(offsets.size, np.int64)
    found = 0
    for event in range(offsets.size - 1):
        for i in range(offsets[event], offsets[event + 1]):
            for j in range(starts[rows[i]], starts[rows[i] + 1]):
                out[found] = holders[j]
                found += 1
        ends[event + 1] = found
    return ends, out


RIVALS: dict[str, RivalMaker] = {"naive": rivals}
"""The rivals by the name of their group. This one is part of the library; `python -m benchmarks` adds others."""
