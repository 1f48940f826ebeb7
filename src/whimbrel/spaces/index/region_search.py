"""Search: which stored regions match a region's new content and did not match its old content.

With no old content this finds all matches; with old and new exchanged it finds the regions that cease to match. Spaces
are bits. A pair matches iff some bit is left of the spaces in which both are valid, after the spaces of every dimension
in which the two are disjoint were removed. So the subtraction is per space (ERR-19c), and a pair that already matches
through another space is not reported (ERR-19d).

Each query takes the strategy that scans the fewest entries. All give the same answer:

    crossing scan   the entries between old and new ends: a pair that begins to match stops being disjoint somewhere
    overlap scan    the entries of one dimension that overlap the new interval, for each space its most selective one
    elimination     all regions, minus those that an entry of any dimension shows to be disjoint

Queries with a crossing scan run in batches, dimension by dimension, so that the lists of a dimension are in the cache
for all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.compiled.jit import inlined, kernel
from whimbrel.spaces.index.bounds import crossed_downward, crossed_upward, disjoint_places, overlap_count
from whimbrel.spaces.index.query import (
    NEW_HIGH,
    NEW_LOW,
    NEW_VALID,
    OLD_HIGH,
    OLD_LOW,
    OLD_VALID,
    TOUCHES,
    QueryBatch,
    clear_query,
    set_query,
    with_capacity,
)
from whimbrel.spaces.index.region_arrays import (
    HIGH,
    LOW,
    ROW_SHIFT,
    TAIL_USED,
    DimensionSpaces,
    IndexArrays,
    OrderedList,
    RegionRows,
)
from whimbrel.spaces.index.strategies import QueryConditions, crossing_scan, eliminate, overlap_scan, tail_scan

_FEW = 256
"""A crossing scan of at most this many entries is taken without pricing the other strategies."""


def flat_arrays(index: IndexArrays) -> tuple[Any, ...]:
    """The arrays of an index as one flat tuple, which costs a third of nested tuples to pass to a kernel."""
    lists = (*index.lows, *index.highs, *index.run_lows, *index.run_highs)
    return (*index.rows, *lists, index.tail, *index.dimensions)


@kernel
def _unflattened(a: Any) -> IndexArrays:
    """The arrays that `flat_arrays` put into one tuple."""
    return IndexArrays(
        RegionRows(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]),
        OrderedList(a[8], a[9], a[10]),
        OrderedList(a[11], a[12], a[13]),
        OrderedList(a[14], a[15], a[16]),
        OrderedList(a[17], a[18], a[19]),
        a[20],
        DimensionSpaces(a[21], a[22]),
    )


@kernel
def _link(queries: QueryBatch, at: int) -> None:
    """Add a query to the chain of each dimension whose entries its crossing scan reads."""
    dimensions = queries.head.size
    for touch in range(queries.header[at, TOUCHES]):
        d, item = queries.touched[at, touch], at * dimensions + touch
        count = 0
        for level in range(4):
            count += queries.crossings[at, touch, level, 1] - queries.crossings[at, touch, level, 0]
        if count:
            queries.link[item] = queries.head[d]
            queries.head[d] = item


@kernel
def search(
    arrays: Any, row_count: int, old_start: Int64s, old_cells: Int64s, new_start: Int64s, new_cells: Int64s,
    order: Int64s, names: Int32s, required: int, scratch: Any, out: Int64s,
) -> tuple[Int64s, int]:  # fmt: skip
    """For each region numbered in `order`: the rows that match its new content and did not match its old content.

    Returns row << 32 | name of the region, unsorted, and the number of results; in `out`, or in a larger array if
    that is too small. Only rows with all flags of `required` count.
    """
    index = _unflattened(arrays)
    queries = QueryBatch(
        scratch[0], scratch[1], scratch[2], scratch[3], scratch[4], scratch[5], scratch[6], scratch[7], scratch[8]
    )
    spaces, tail = index.dimensions.spaces, index.rows.counts[TAIL_USED]
    one_space = required == 0 and spaces.size > 0 and spaces.max() == 1
    found, batch_size = 0, len(queries.header)
    numbers = np.empty(batch_size, np.int64)
    for first in range(0, order.size, batch_size):
        count = min(batch_size, order.size - first)
        linked = 0
        for at in range(count):
            region = order[first + at]
            set_query(
                queries, at, spaces, old_cells, old_start[region], old_start[region + 1], new_cells,
                new_start[region], new_start[region + 1],
            )  # fmt: skip
            valid, was_valid = queries.header[at, NEW_VALID], queries.header[at, OLD_VALID]
            numbers[at] = names[region]
            asked = QueryConditions(valid, was_valid, required, one_space, numbers[at])
            if valid == 0:
                continue
            crossing = overlap = elimination = HIGH
            width = 0
            if valid & ~was_valid == 0:
                crossing = _crossing_cost(index.lows, index.highs, queries, at, 0)
                crossing += _crossing_cost(index.run_lows, index.run_highs, queries, at, 2)
            if crossing > _FEW:
                overlap, width = _overlap_cost(index, queries, at)
                if min(crossing, overlap) > row_count // 2:
                    elimination = _elimination_cost(index.lows, index.highs, queries, at)
                    elimination += _elimination_cost(index.run_lows, index.run_highs, queries, at)
                    elimination = (elimination + row_count) // 2  # to mark an entry is cheaper than to check a row
            if elimination < crossing and elimination < overlap:
                out, found = eliminate(index, row_count, queries, at, asked, out, found)
                continue
            width = 0 if crossing <= overlap else width
            if tail:
                out, found = tail_scan(index, width, queries, at, asked, out, found)
            if crossing <= overlap:
                _link(queries, at)
                linked += crossing
            else:
                for level in (index.lows, index.run_lows):
                    out, found = overlap_scan(index.rows, spaces, level, width, queries, at, asked, out, found)
        if linked:
            out = with_capacity(out, found, found + linked + 1)
            found = _crossing_scans(index, queries, numbers, required, one_space, out, found)
        for at in range(count):
            clear_query(queries, at)
    return out, found


@inlined
def _crossing_scans(
    index: IndexArrays, queries: QueryBatch, numbers: Int64s, required: int, one_space: bool, out: Int64s, found: int
) -> int:
    """Run the crossing scans of a batch, dimension by dimension, and empty the chains of queries."""
    rows, spaces = index.rows, index.dimensions.spaces
    lows, highs = index.lows.entries, index.highs.entries
    run_lows, run_highs = index.run_lows.entries, index.run_highs.entries
    for d in range(queries.head.size):
        if queries.head[d] < 0:
            continue
        found = crossing_scan(rows, spaces, lows, highs, 0, d, queries, numbers, required, one_space, out, found)
        if len(run_lows):
            found = crossing_scan(
                rows, spaces, run_lows, run_highs, 2, d, queries, numbers, required, one_space, out, found
            )
        queries.head[d] = -1
    return found


@kernel
def unpack_results(found: Int64s, names: Int32s, regions: Int32s, named_rows: Int32s) -> None:
    """Split results into two arrays: the names of regions, and the names of rows."""
    for place in range(len(regions)):
        regions[place], named_rows[place] = found[place], names[found[place] >> ROW_SHIFT]


@kernel
def _crossing_cost(lows: OrderedList, highs: OrderedList, queries: QueryBatch, at: int, level: int) -> int:
    """The number of entries in the zones between old and new ends. Stores their ranges in `queries.crossings`."""
    cost, crossings = 0, queries.crossings
    for touch in range(queries.header[at, TOUCHES]):
        d = queries.touched[at, touch]
        low, high = queries.bounds[at, d, NEW_LOW], queries.bounds[at, d, NEW_HIGH]
        up, up_end = crossed_upward(lows, d, queries.bounds[at, d, OLD_HIGH], low, high)
        down, down_end = crossed_downward(highs, d, queries.bounds[at, d, OLD_LOW], low, high)
        crossings[at, touch, level, 0], crossings[at, touch, level, 1] = up, up_end
        crossings[at, touch, level + 1, 0], crossings[at, touch, level + 1, 1] = down, down_end
        cost += up_end - up + down_end - down
    return cost


@kernel
def _overlap_cost(index: IndexArrays, queries: QueryBatch, at: int) -> tuple[int, int]:
    """Choose the most selective dimension for each space of the new region, and store it in `queries.chosen`.

    Returns the number of entries to scan, HIGH if some space has no usable dimension, and the number of dimensions.
    """
    cost = width = position = 0
    rest = queries.header[at, NEW_VALID]
    while rest != 0:
        if rest & 1:
            best, least = _most_selective(index, queries, at, position)
            if best < 0:
                return HIGH, 0
            is_new = True
            for choice in range(width):
                is_new = is_new and queries.chosen[choice] != best
            if is_new:
                cost += least
                queries.chosen[width] = best
                width += 1
        rest >>= 1
        position += 1
    return cost, width


@kernel
def _most_selective(index: IndexArrays, queries: QueryBatch, at: int, position: int) -> tuple[int, int]:
    """The dimension in which all regions of a space have an entry and the fewest overlap, or -1, and their number."""
    spaces, small, rows = index.dimensions.spaces, index.dimensions.small, index.rows
    space = 1 << position
    best, least = -1, HIGH
    for touch in range(queries.header[at, TOUCHES]):
        d = queries.touched[at, touch]
        low, high = queries.bounds[at, d, NEW_LOW], queries.bounds[at, d, NEW_HIGH]
        if spaces[d] & space == 0 or (low == LOW and high == HIGH):
            continue
        if small[d] & space == 0 and rows.constrains[d] < rows.valid_in[position]:
            continue  # some region of the space has no entry there
        count = overlap_count(index.lows, index.highs, d, low, high)
        count += overlap_count(index.run_lows, index.run_highs, d, low, high)
        if count < least:
            best, least = d, count
    return best, least


@kernel
def _elimination_cost(lows: OrderedList, highs: OrderedList, queries: QueryBatch, at: int) -> int:
    """The number of entries that show some region to be disjoint."""
    cost = 0
    for touch in range(queries.header[at, TOUCHES]):
        d = queries.touched[at, touch]
        bounds: Int64s = queries.bounds[at, d]
        above, below = disjoint_places(lows, highs, d, bounds[NEW_LOW], bounds[NEW_HIGH])
        cost += lows.start[0, d + 1] - above + below - highs.start[0, d]
    return cost
