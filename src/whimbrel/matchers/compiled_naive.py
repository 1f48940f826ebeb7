"""Compiled naive matching. The hot loop is Numba on frozen arrays; `add` and `remove` are dynamic (see `frozen`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Int32s, Int64s, Uint32s
from whimbrel.compiled.jit import kernel
from whimbrel.matchers.shared.base import Stats
from whimbrel.matchers.shared.capabilities import PLAIN_SETS
from whimbrel.matchers.shared.conjunction_rows import (
    ATTR,
    HIGH,
    KIND,
    LOW,
    POINTS,
    ConjunctionRows,
    SetArrays,
    admits_some,
    check_rows,
    in_set,
)
from whimbrel.matchers.shared.event_ranks import EventGrid
from whimbrel.matchers.shared.frozen import FrozenMatcher
from whimbrel.matchers.shared.papers import Paper
from whimbrel.matchers.shared.runs import bytes_of

ANY_WIDTH = np.uint32(0xFFFFFFFF)
"""The width of an item that is a set: every rank passes the first test and goes on to the second."""


class ItemColumns(NamedTuple):
    """The items of all conjunctions as columns. Row r has the items from start[r] to start[r + 1]."""

    start: Uint32s
    attr: Uint32s
    low: Int32s
    width: Uint32s  # of a rank v: v - low <= width, unsigned, compares with both ends at once


class CompiledNaive(FrozenMatcher):
    """Checks every conjunction, constraint by constraint, until one fails, at the speed of the machine.

    This is the papers' baseline, written for speed, and the baseline of every speed claim: there is no index, values
    are ranks, and the constraints of all conjunctions lie one after the other in memory. A match costs the constraints
    that it looks at.

    >>> from whimbrel.matchers import make
    >>> naive = make("compiled_naive")
    >>> naive.add("cheap", "price < 5")
    >>> naive.add_many([("red", "color = 'red' AND price < 9"), ("other", "color != 'red'")])
    >>> naive.match({"price": 3, "color": "red"})
    ['cheap', 'red']
    >>> naive.match_batch([{"price": 3, "color": "red"}, {"color": "blue"}])["event"].to_pylist()
    [0, 0, 1]
    """

    name = "compiled_naive"
    paper = Paper.SURVEY
    section = "Figure 5; Figure 1 of Le Subscribe"
    capabilities = PLAIN_SETS
    counted = ("conjunctions_checked", "predicate_evaluations")

    def _build(self, rows: ConjunctionRows) -> None:
        self._rows = rows
        low, high = np.ascontiguousarray(rows.items[:, LOW]), rows.items[:, HIGH]
        width = np.where(rows.items[:, KIND] >= POINTS, ANY_WIDTH, high - low).astype(np.uint32)
        self._columns = ItemColumns(rows.start.astype(np.uint32), rows.items[:, ATTR].astype(np.uint32), low, width)

    def _run(self, block: EventGrid, event: int, out: Int32s, ends: Int64s) -> int:
        rows = self._rows
        if block.starts.size:
            return _scan_lists(block, event, rows.start, rows.items, rows.sets, out, ends, self._counters)
        return _scan(block.first, event, self._columns, rows.sets, out, ends, self._counters)

    def _sizes(self) -> Stats:
        rows = self._rows
        return {
            "predicates_stored": len(rows.items),
            "bytes": bytes_of(self._columns, rows.start, rows.items, rows.sets),
        }

    def _check_structure(self) -> None:
        check_rows(self._rows)


@kernel
def _scan(
    first: Int32s,
    event: int,
    columns: ItemColumns,
    sets: SetArrays,
    out: Int32s,
    ends: Int64s,
    counters: Int64s | None,
) -> int:
    start, attr, low, width = columns
    rows = start.size - 1
    found = 0
    while event < len(first) and found + rows <= out.size:
        values = first[event]
        for row in range(rows):
            item, end = start[row], start[row + 1]
            while item < end:
                rank = values[attr[item]]
                if np.uint32(rank - low[item]) > width[item]:  # both ends in one comparison
                    break
                if width[item] == ANY_WIDTH and not in_set(rank, low[item], sets):
                    break
                item += np.uint32(1)
            if counters is not None:
                counters[0] += 1
                counters[1] += min(np.int64(item) + 1, np.int64(end)) - np.int64(start[row])
            out[found] = row
            found += item == end
        ends[event] = found
        event += 1
    return event


@kernel
def _scan_lists(
    grid: EventGrid,
    event: int,
    start: Int64s,
    items: Int32s,
    sets: SetArrays,
    out: Int32s,
    ends: Int64s,
    counters: Int64s | None,
) -> int:
    """Scan as `_scan` does, where attributes may have several values."""
    rows = start.size - 1
    found = 0
    while event < len(grid.first) and found + rows <= out.size:
        for row in range(rows):
            item, end = start[row], start[row + 1]
            while item < end and admits_some(items, item, grid, event, sets):
                item += 1
            if counters is not None:
                counters[0] += 1
                counters[1] += min(item + 1, end) - start[row]
            out[found] = row
            found += item == end
        ends[event] = found
        event += 1
    return event
