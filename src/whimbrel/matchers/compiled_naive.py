"""Compiled naive matching: every conjunction, constraint by constraint, until one fails, at the speed of the machine.

The hot loop is Numba on frozen arrays; `add` and `remove` are dynamic (see `frozen`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from whimbrel.compiled.jit import kernel
from whimbrel.matchers.base import Stats
from whimbrel.matchers.capabilities import Capabilities
from whimbrel.matchers.conjunction_rows import (
    ATTR,
    HIGH,
    KIND,
    LOW,
    POINTS,
    ConjunctionRows,
    admits_some,
    check_rows,
    in_set,
)
from whimbrel.matchers.frozen import FrozenMatcher
from whimbrel.matchers.papers import Paper
from whimbrel.matchers.runs import Int32s, Int64s
from whimbrel.ranks.encoding.event_grid import EventGrid

Uint32s = npt.NDArray[np.uint32]

ANY_WIDTH = np.uint32(0xFFFFFFFF)
"""The width of an item that is a set: every rank passes the first test and goes on to the second."""


class CompiledNaive(FrozenMatcher):
    """Checks every conjunction, with no index: the honest baseline of every speed claim.

    The papers' baseline, written for speed: values are ranks, the constraints of all conjunctions lie one after the
    other in memory, and a conjunction is left at its first constraint that fails. Cost: the constraints looked at.

    `count`: count predicate evaluations (`stats()`). `timestamps`: attributes whose strings are timestamps.

    >>> from whimbrel.matchers import make
    >>> naive = make("compiled_naive")
    >>> naive.add("cheap", "price < 5")
    >>> naive.add_many([("red", "color = 'red' AND price < 9"), ("other", "color != 'red'")])
    >>> naive.match({"price": 3, "color": "red"})
    ['cheap', 'red']
    >>> naive.count_batch([{"price": 3, "color": "red"}, {"color": "blue"}])
    (2, 3)
    """

    name = "compiled_naive"
    paper = Paper.SURVEY
    section = "Figure 5; Figure 1 of Le Subscribe"
    capabilities = Capabilities(patterns=False, members=False, states=False, links=False, elements=False)
    counted = ("conjunctions_checked", "predicate_evaluations")

    def _build(self, rows: ConjunctionRows) -> None:
        self._rows = rows
        self._start = rows.start.astype(np.uint32)
        self._attr = rows.items[:, ATTR].astype(np.uint32)
        self._low = np.ascontiguousarray(rows.items[:, LOW])
        is_set = rows.items[:, KIND] >= POINTS
        self._width = np.where(is_set, ANY_WIDTH, rows.items[:, HIGH] - rows.items[:, LOW]).astype(np.uint32)

    def _run(self, block: EventGrid, event: int, out: Int32s, ends: Int64s) -> int:
        rows = self._rows
        sets = rows.set_start, rows.set_low, rows.set_high
        if block.starts.size:
            cells = block.first, block.starts, block.more
            return int(_scan_lists(*cells, event, rows.start, rows.items, *sets, out, ends, self._counters))
        columns = self._start, self._attr, self._low, self._width
        return int(_scan(block.first, event, *columns, *sets, out, ends, self._counters))

    def _sizes(self) -> Stats:
        rows = self._rows
        arrays = (
            self._start, self._attr, self._low, self._width, rows.start, rows.items, rows.set_start, rows.set_low,
            rows.set_high,
        )  # fmt: skip
        return {"predicates_stored": len(rows.items), "bytes": sum(array.nbytes for array in arrays)}

    def _check_structure(self) -> None:
        check_rows(self._rows)


@kernel
def _scan(
    first: Int32s,
    event: int,
    start: Uint32s,
    attr: Uint32s,
    low: Int32s,
    width: Uint32s,
    set_start: Int64s,
    set_low: Int32s,
    set_high: Int32s,
    out: Int32s,
    ends: Int64s,
    counters: Int64s | None,
) -> int:
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
                if width[item] == ANY_WIDTH and not in_set(rank, low[item], set_start, set_low, set_high):
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
    first: Int32s,
    starts: Int64s,
    more: Int32s,
    event: int,
    start: Int64s,
    items: Int32s,
    set_start: Int64s,
    set_low: Int32s,
    set_high: Int32s,
    out: Int32s,
    ends: Int64s,
    counters: Int64s | None,
) -> int:
    """As `_scan`, where attributes may have several values."""
    rows = start.size - 1
    found = 0
    while event < len(first) and found + rows <= out.size:
        for row in range(rows):
            item, end = start[row], start[row + 1]
            while item < end and admits_some(items, item, first, event, starts, more, set_start, set_low, set_high):
                item += 1
            if counters is not None:
                counters[0] += 1
                counters[1] += min(item + 1, end) - start[row]
            out[found] = row
            found += item == end
        ends[event] = found
        event += 1
    return event
