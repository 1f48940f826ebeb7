"""Nonequality quarantining: equalities by one lookup per key shape, everything else checked only where that succeeds.

The hot loops are Numba on frozen arrays; `add` and `remove` are dynamic (see `frozen`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from whimbrel.compiled.jit import helper, kernel
from whimbrel.matchers.base import Stats
from whimbrel.matchers.capabilities import Capabilities
from whimbrel.matchers.conjunction_rows import (
    ATTR,
    EQUAL,
    HIGH,
    KIND,
    LOW,
    POINTS,
    ConjunctionRows,
    admits_some,
    in_set,
)
from whimbrel.matchers.equality_clusters import Clusters, build_clusters, check_clusters, find_buckets
from whimbrel.matchers.frozen import FrozenMatcher
from whimbrel.matchers.papers import Paper
from whimbrel.matchers.runs import Int32s, Int64s, offsets, take_runs, unique_runs
from whimbrel.ranks.encoding.event_grid import EventGrid


class Residuals(NamedTuple):
    """What is left to check of each row, in the order of the clusters, then of the groups."""

    start: Int64s  # [rows + 1]
    items: Int32s  # [k, 4]
    set_start: Int64s
    set_low: Int32s
    set_high: Int32s


class ScanGroups(NamedTuple):
    """Rows without an equality, g groups of those that test the same attributes."""

    row_start: Int64s  # [g + 1]: the rows of each group
    attr_start: Int64s  # [g + 1]: the attributes of each group
    attr: Int32s
    plain: npt.NDArray[np.bool_]  # [g]: whether all tests are intervals, so that the group has columns
    column_start: Int64s  # [g + 1]: where the columns of each group start, one per attribute
    low: Int32s
    width: npt.NDArray[np.uint32]  # of a rank r: r - low <= width, unsigned, compares with both ends at once


class Quarantine(FrozenMatcher):
    """Looks equalities up by key shape and checks all other predicates of a conjunction only if its equalities hold.

    The best of the paper's three. It has the clusters of `equality_preferred`, and checks the other predicates of a
    clustered conjunction directly. Conjunctions without an equality are the quarantine. The paper indexes and counts
    their predicates; here they are grouped by the attributes that they test and scanned column by column.

    Lists: every combination of values is looked up, and a constraint holds if one value satisfies it (AMB-10d).

    Measured on lesubscribe (AMB-17a), 400,000 subscriptions, one core, microseconds per event from Arrow
    table to count: p = .5 (2,760 matches): quarantine 14, equality_preferred 161, fair_predicate 271, compiled_naive
    840; p = 1 (50 matches): 4.4, 4.6, 8.4. The paper's order and its tie at p = 1 hold, and so does the flat curve of
    equality alone. Its factor 10,000 over naive does not: compiled, with an early exit, naive is 60 times slower, where
    the paper's was interpreted. More than half of quarantine's kernel time goes to the 6,000 conjunctions without an
    equality on the event's attributes, nearly half of which match and have to be reported by any algorithm.

    `count`: count the work (`stats()`). `timestamps`: attributes whose strings are timestamps.

    >>> from whimbrel.matchers import make
    >>> quarantine = make("quarantine", count=True)
    >>> quarantine.add("red", "color = 'red' AND price < 20")
    >>> quarantine.add("any", "price < 10")
    >>> quarantine.match({"price": 15, "color": "red"})
    ['red']
    >>> quarantine.stats()["candidates"], quarantine.stats()["quarantine_scanned"]
    (1, 1)
    """

    name = "quarantine"
    paper = Paper.LE_SUBSCRIBE
    section = "Figure 5"
    capabilities = Capabilities(patterns=False, members=False, states=False, links=False, elements=False)
    counted = ("probes", "predicate_evaluations", "candidates", "false_candidates", "quarantine_scanned")

    def _build(self, rows: ConjunctionRows) -> Int64s:
        self._clusters, order = build_clusters(rows)
        clustered = self._clusters.clustered
        self._groups, inner = _build_groups(rows, order[clustered:])
        order = np.concatenate([order[:clustered], order[clustered:][inner]])
        start, items = take_runs(rows.start, rows.items, order)
        left = items[:, KIND] != EQUAL
        lengths = offsets(left)[start[1:]] - offsets(left)[start[:-1]]
        sets = rows.set_start, rows.set_low, rows.set_high
        self._residuals = Residuals(offsets(lengths), np.ascontiguousarray(items[left]), *sets)
        self._buckets = np.zeros(len(self._clusters.row_start), dtype=np.int32)
        self._ranks = np.zeros(2 * int(np.diff(self._clusters.attr_start).max(initial=0)), dtype=np.int32)
        return order

    def _run(self, block: EventGrid, event: int, out: Int32s, ends: Int64s) -> int:
        return int(
            _quarantine(
                self._clusters, self._residuals, self._groups, block.first, block.starts, block.more, event,
                self._buckets, self._ranks, out, ends, self._counters,
            )
        )  # fmt: skip

    def _sizes(self) -> Stats:
        arrays = (*self._clusters, *self._residuals, *self._groups)
        return {
            "predicates_stored": len(self._residuals.items),
            "key_shapes": len(self._clusters.mask),
            "buckets": len(self._clusters.row_start) - 1,
            "without_equality": len(self._residuals.start) - 1 - self._clusters.clustered,
            "groups": len(self._groups.plain),
            "bytes": sum(array.nbytes for array in arrays),
        }

    def _check_structure(self) -> None:
        check_clusters(self._clusters)
        groups, residuals = self._groups, self._residuals
        assert groups.row_start[-1] == len(residuals.start) - 1 - self._clusters.clustered
        assert np.all(np.diff(groups.row_start) > 0)
        for group in range(len(groups.plain)):
            attrs = groups.attr[groups.attr_start[group] : groups.attr_start[group + 1]]
            size = groups.row_start[group + 1] - groups.row_start[group]
            first = self._clusters.clustered + groups.row_start[group]
            items = residuals.items[residuals.start[first] : residuals.start[first + size]].reshape(size, len(attrs), 4)
            assert np.all(items[:, :, ATTR] == attrs)
            if groups.plain[group]:
                columns = slice(groups.column_start[group], groups.column_start[group + 1])
                assert np.array_equal(groups.low[columns].reshape(len(attrs), size), items[:, :, LOW].T)
                high = items[:, :, HIGH].T
                assert np.array_equal((groups.low + groups.width)[columns].reshape(len(attrs), size), high)


def _build_groups(rows: ConjunctionRows, chosen: Int64s) -> tuple[ScanGroups, Int64s]:
    """The groups of the chosen rows, and the order of the chosen rows that they number."""
    start, items = take_runs(rows.start, rows.items, chosen)
    is_set = items[:, KIND] >= POINTS
    with_set = np.diff(offsets(is_set)[start]) > 0
    cells = np.stack([items[:, ATTR], np.repeat(with_set, np.diff(start))], 1).astype(np.int32)
    group, leader = unique_runs(start, cells)
    order = np.argsort(group, kind="stable")
    attr_start, attrs = take_runs(start, np.ascontiguousarray(items[:, ATTR]), leader)
    row_start = offsets(np.bincount(group, minlength=len(leader)))
    plain = ~with_set[leader]
    column_start = offsets(np.diff(row_start) * np.diff(attr_start) * plain)
    low, width = np.empty(column_start[-1], dtype=np.int32), np.empty(column_start[-1], dtype=np.uint32)
    start, items = take_runs(start, items, order)
    for number in np.flatnonzero(plain):
        part = items[start[row_start[number]] : start[row_start[number + 1]]]
        attributes = attr_start[number + 1] - attr_start[number]
        columns = slice(column_start[number], column_start[number + 1])
        low[columns] = part[:, LOW].reshape(-1, attributes).T.ravel()
        width[columns] = (part[:, HIGH] - part[:, LOW]).reshape(-1, attributes).T.ravel()
    return ScanGroups(row_start, attr_start, attrs, plain, column_start, low, width), order


@helper
def _check_rows(
    residuals: Residuals,
    begin: int,
    end: int,
    first: Int32s,
    starts: Int64s,
    more: Int32s,
    event: int,
    out: Int32s,
    found: int,
    counters: Int64s | None,
) -> int:
    """Adds the rows from `begin` to `end` of which all that is left to check holds."""
    start, items = residuals.start, residuals.items
    set_start, set_low, set_high = residuals.set_start, residuals.set_low, residuals.set_high
    values = first[event]
    for row in range(begin, end):
        item, stop = start[row], start[row + 1]
        while item < stop:
            if counters is not None:
                counters[1] += 1
            rank = values[items[item, ATTR]]
            if starts.size:
                if not admits_some(items, item, first, event, starts, more, set_start, set_low, set_high):
                    break
            elif items[item, KIND] >= POINTS:
                if not in_set(rank, items[item, LOW], set_start, set_low, set_high):
                    break
            elif rank < items[item, LOW] or rank > items[item, HIGH]:
                break
            item += 1
        out[found] = row
        found += item == stop
    return found


@helper
def _scan_columns(groups: ScanGroups, group: int, values: Int32s, base: int, out: Int32s, found: int) -> int:
    """Adds the rows of a group whose intervals all hold; rows are numbered from `base`.

    A row is always written and counted only if it holds: no branch depends on the data. Each column after the first
    looks at the rows that are left.
    """
    size = groups.row_start[group + 1] - groups.row_start[group]
    column = groups.column_start[group]
    begin = groups.attr_start[group]
    rows = out[found:]
    low, width = groups.low[column : column + size], groups.width[column : column + size]
    rank = values[groups.attr[begin]]
    kept = np.uint64(0)
    for row in range(size):
        rows[kept] = row
        kept += np.uint64(np.uint32(rank - low[row]) <= width[row])
    for place in range(begin + 1, groups.attr_start[group + 1]):
        column += size
        low, width = groups.low[column : column + size], groups.width[column : column + size]
        rank = values[groups.attr[place]]
        left, kept = kept, np.uint64(0)
        for index in range(left):
            row = rows[index]
            rows[kept] = row
            kept += np.uint64(np.uint32(rank - low[np.uint32(row)]) <= width[np.uint32(row)])
    for index in range(kept):
        rows[index] += base
    return found + int(kept)


@kernel
def _quarantine(
    clusters: Clusters,
    residuals: Residuals,
    groups: ScanGroups,
    first: Int32s,
    starts: Int64s,
    more: Int32s,
    event: int,
    buckets: Int32s,
    ranks: Int32s,
    out: Int32s,
    ends: Int64s,
    counters: Int64s | None,
) -> int:
    rows = residuals.start.size - 1
    clustered = clusters.row_start[-1]
    found = int(np.int64(0))  # callees would be compiled twice, the first time for a literal 0
    while event < len(first) and found + rows <= out.size:
        values = first[event]
        count = find_buckets(clusters, first, starts, more, event, ranks, buckets, counters)
        for place in range(count):
            start, end = clusters.row_start[buckets[place]], clusters.row_start[buckets[place] + 1]
            before = found
            found = _check_rows(residuals, start, end, first, starts, more, event, out, found, counters)
            if counters is not None:
                counters[2] += end - start
                counters[3] += end - start - (found - before)
        for group in range(groups.plain.size):
            begin, stop = groups.attr_start[group], groups.attr_start[group + 1]
            while begin < stop and values[groups.attr[begin]] >= 0:
                begin += 1
            if begin < stop:
                continue
            start, end = clustered + groups.row_start[group], clustered + groups.row_start[group + 1]
            if counters is not None:
                counters[4] += end - start
            if groups.plain[group] and starts.size == 0:
                found = _scan_columns(groups, group, values, start, out, found)
                if counters is not None:
                    counters[1] += (end - start) * (stop - groups.attr_start[group])
                continue
            found = _check_rows(residuals, start, end, first, starts, more, event, out, found, counters)
        ends[event] = found
        event += 1
    return event
