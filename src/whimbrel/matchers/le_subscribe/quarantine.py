"""Nonequality quarantining. The hot loops are Numba on frozen arrays (see `frozen`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.compiled.jit import helper, kernel
from whimbrel.matchers.le_subscribe.equality_clusters import ClusterBuffers, Clusters, build_clusters, find_buckets
from whimbrel.matchers.le_subscribe.predicate_clusters import (
    CountArrays,
    HitCounts,
    Predicates,
    build_predicates,
    satisfied,
)
from whimbrel.matchers.le_subscribe.recent_conjunctions import RecentConjunctions
from whimbrel.matchers.shared.base import Stats
from whimbrel.matchers.shared.capabilities import PLAIN_SETS
from whimbrel.matchers.shared.conjunction_rows import (
    ATTR,
    EQUAL,
    HIGH,
    KIND,
    LOW,
    POINTS,
    ConjunctionRows,
    SetArrays,
    admits_some,
    in_set,
)
from whimbrel.matchers.shared.event_ranks import EventGrid
from whimbrel.matchers.shared.frozen import CountingMatcher
from whimbrel.matchers.shared.option_checks import check_choice
from whimbrel.matchers.shared.papers import Paper
from whimbrel.matchers.shared.runs import bytes_of, offsets, take_runs, unique_runs


class Residuals(NamedTuple):
    """The items of each row that no lookup decides. Rows are in the order of the clusters, then of the groups."""

    start: Int64s  # [rows + 1]
    items: Int32s  # [k, 4]
    sets: SetArrays


class ScanGroups(NamedTuple):
    """Rows without an equality, in g groups. The rows of a group test the same attributes."""

    row_start: Int64s  # [g + 1]: the rows of each group
    attr_start: Int64s  # [g + 1]: the attributes of each group
    attr: Int32s
    plain: npt.NDArray[np.bool_]  # [g]: whether all tests are intervals, so that the group has columns
    column_start: Int64s  # [g + 1]: where the columns of each group start, one per attribute
    low: Int32s
    width: npt.NDArray[np.uint32]  # of a rank r: r - low <= width, unsigned, compares with both ends at once


class Quarantine(CountingMatcher):
    """Finds the conjunctions whose equalities hold by one lookup per key shape, and checks their other predicates.

    The best of the paper's three: it has the clusters of `equality_preferred`, but checks the other predicates of a
    clustered conjunction directly. Conjunctions without an equality are the quarantine. Of several values of an
    attribute every combination is looked up, and one must satisfy a constraint. Corrected: AMB-10d.

    `quarantined`: "count" indexes and counts the predicates of the quarantine, as the paper does; "scan" groups its
    conjunctions by the attributes that they test and scans them column by column.

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
    capabilities = PLAIN_SETS
    counted = (
        "probes", "predicate_evaluations", "candidates", "false_candidates", "quarantine_scanned",
        "quarantine_additions",
    )  # fmt: skip

    def __init__(self, timestamps: Iterable[str] = (), quarantined: str = "scan", count: bool = False) -> None:
        self.quarantined = check_choice(self.name, "quarantined", quarantined, ("scan", "count"))
        super().__init__(timestamps, count)

    def _new_recent(self) -> RecentConjunctions:
        return RecentConjunctions(prefer=True, check=True)

    def _build(self, rows: ConjunctionRows) -> Int64s:
        self._clusters, order = build_clusters(rows, rows.items[:, KIND] == EQUAL)
        clustered = self._clusters.clustered
        self._counts: HitCounts | None = None
        if self.quarantined == "count":
            number = np.argsort(order)  # of each row
            self._groups, _ = _build_groups(rows, order[:0])
            self._predicates = build_predicates(rows, number[rows.item_rows()] >= clustered, number)
            self._counts = HitCounts(self._predicates, len(rows))
        else:
            self._groups, inner = _build_groups(rows, order[clustered:])
            order = np.concatenate([order[:clustered], order[clustered:][inner]])
        start, items = take_runs(rows.start, rows.items, order)
        left = items[:, KIND] != EQUAL
        lengths = offsets(left)[start[1:]] - offsets(left)[start[:-1]]
        self._residuals = Residuals(offsets(lengths), np.ascontiguousarray(items[left]), rows.sets)
        self._buffers = self._clusters.buffers()
        return order

    def _run(self, block: EventGrid, event: int, out: Int32s, ends: Int64s) -> int:
        counts = self._counts
        if counts is None:
            parts = self._clusters, self._residuals, self._groups
            return _quarantine(*parts, block, event, self._buffers, out, ends, self._counters)
        counts.prepare(len(block.first))
        stop, counts.stamp = _quarantine_counted(
            self._clusters, self._residuals, self._predicates, block, event, counts.arrays, counts.stamp,
            self._buffers, out, ends, self._counters,
        )  # fmt: skip
        return stop

    def _sizes(self) -> Stats:
        counts = self._counts
        counted = () if counts is None else (self._predicates, counts.arrays.needed, counts.arrays.hits)
        return {
            "predicates_stored": len(self._residuals.items),
            **self._clusters.sizes(len(self._residuals.start) - 1),
            "groups": len(self._groups.plain),
            "bytes": bytes_of(self._clusters, self._residuals, self._groups, *counted),
        }

    def _check_structure(self) -> None:
        self._clusters.check()
        groups, residuals = self._groups, self._residuals
        if self._counts is not None:
            self._predicates.check()
            is_free = np.arange(len(residuals.start) - 1) >= self._clusters.clustered
            assert np.array_equal(self._counts.arrays.needed > 0, is_free)
            return
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
    """Group the chosen rows by the attributes that they test; the order in which the groups number them."""
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
    grid: EventGrid,
    event: int,
    out: Int32s,
    found: int,
    counters: Int64s | None,
) -> int:
    """Add the rows from `begin` to `end` whose residual items all hold. Return the number of results."""
    start, items, sets = residuals
    values = grid.first[event]
    for row in range(begin, end):
        item, stop = start[row], start[row + 1]
        while item < stop:
            if counters is not None:
                counters[1] += 1
            rank = values[items[item, ATTR]]
            if grid.starts.size:
                if not admits_some(items, item, grid, event, sets):
                    break
            elif items[item, KIND] >= POINTS:
                if not in_set(rank, items[item, LOW], sets):
                    break
            elif rank < items[item, LOW] or rank > items[item, HIGH]:
                break
            item += 1
        out[found] = row
        found += item == stop
    return found


@helper
def _scan_columns(groups: ScanGroups, group: int, values: Int32s, base: int, out: Int32s, found: int) -> int:
    """Add the rows of a group whose intervals all hold; rows are numbered from `base`.

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


@helper
def _check_candidates(
    clusters: Clusters,
    residuals: Residuals,
    grid: EventGrid,
    event: int,
    buffers: ClusterBuffers,
    out: Int32s,
    found: int,
    counters: Int64s | None,
) -> int:
    """Add the clustered rows whose equalities and residual items all hold. Return the number of results."""
    count, buckets = find_buckets(clusters, grid, event, buffers, counters), buffers.buckets
    for place in range(count):
        start, end = clusters.row_start[buckets[place]], clusters.row_start[buckets[place] + 1]
        before = found
        found = _check_rows(residuals, start, end, grid, event, out, found, counters)
        if counters is not None:
            counters[2] += end - start
            counters[3] += end - start - (found - before)
    return found


@kernel
def _quarantine(
    clusters: Clusters,
    residuals: Residuals,
    groups: ScanGroups,
    grid: EventGrid,
    event: int,
    buffers: ClusterBuffers,
    out: Int32s,
    ends: Int64s,
    counters: Int64s | None,
) -> int:
    rows = residuals.start.size - 1
    clustered = clusters.row_start[-1]
    found = int(np.int64(0))  # callees would be compiled twice, the first time for a literal 0
    while event < len(grid.first) and found + rows <= out.size:
        values = grid.first[event]
        found = _check_candidates(clusters, residuals, grid, event, buffers, out, found, counters)
        for group in range(groups.plain.size):
            begin, stop = groups.attr_start[group], groups.attr_start[group + 1]
            while begin < stop and values[groups.attr[begin]] >= 0:
                begin += 1
            if begin < stop:
                continue
            start, end = clustered + groups.row_start[group], clustered + groups.row_start[group + 1]
            if counters is not None:
                counters[4] += end - start
            if groups.plain[group] and grid.starts.size == 0:
                found = _scan_columns(groups, group, values, start, out, found)
                if counters is not None:
                    counters[1] += (end - start) * (stop - groups.attr_start[group])
                continue
            found = _check_rows(residuals, start, end, grid, event, out, found, counters)
        ends[event] = found
        event += 1
    return event


@kernel
def _quarantine_counted(
    clusters: Clusters,
    residuals: Residuals,
    predicates: Predicates,
    grid: EventGrid,
    event: int,
    counts: CountArrays,
    stamp: int,
    buffers: ClusterBuffers,
    out: Int32s,
    ends: Int64s,
    counters: Int64s | None,
) -> tuple[int, int]:
    """Search as `_quarantine` does, but count rows without an equality: steps 2 and 3 of the paper's figure."""
    hits, needed, seen, runs, step = counts
    found = int(np.int64(0))
    while event < len(grid.first) and found + hits.size <= out.size:
        found = _check_candidates(clusters, residuals, grid, event, buffers, out, found, counters)
        stamp += step
        base = np.int32(stamp)
        count = satisfied(predicates, grid, event, runs, seen, stamp, counters)
        for run in range(count):
            start, end = predicates.row_start[runs[run, 0]], predicates.row_start[runs[run, 1]]
            for place in range(start, end):
                row = np.uint32(predicates.rows[place])
                hit = max(hits[row], base) + np.int32(1)
                hits[row] = hit
                if hit - base == needed[row]:
                    out[found] = row
                    found += 1
            if counters is not None:
                counters[5] += end - start
        ends[event] = found
        event += 1
    return event, stamp
