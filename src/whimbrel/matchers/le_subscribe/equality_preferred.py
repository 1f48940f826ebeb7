"""Equality-preferred matching. The hot loops are Numba on frozen arrays (see `frozen`)."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.compiled.jit import kernel
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
from whimbrel.matchers.shared.conjunction_rows import EQUAL, KIND, ConjunctionRows
from whimbrel.matchers.shared.event_ranks import EventGrid
from whimbrel.matchers.shared.frozen import CountingMatcher
from whimbrel.matchers.shared.papers import Paper
from whimbrel.matchers.shared.runs import bytes_of, offsets


class RowsOf(NamedTuple):
    """The rows that hold each predicate. Predicate p has the rows from start[p] to start[p + 1]."""

    start: Int64s
    rows: Int32s


class EqualityPreferred(CountingMatcher):
    """Finds the conjunctions whose equalities hold by one lookup per key shape, and counts the other predicates.

    The key shape of a conjunction is the set of attributes with an equality (the paper calls it a schema). The event's
    values of a key shape lead to the conjunctions whose equalities hold; of several values, every combination does. All
    other predicates, also of conjunctions without an equality, are counted as in `fair_predicate`. A conjunction that
    was looked up is emitted when its count is complete. Only conjunctions without an equality need a comparison at
    every addition, so they are counted apart. Corrected: AMB-10d.

    >>> from whimbrel.matchers import make
    >>> preferred = make("equality_preferred", count=True)
    >>> preferred.add("red", "color = 'red' AND price < 20")
    >>> preferred.add("any", "price < 10")
    >>> preferred.match({"price": 15, "color": "red"})
    ['red']
    >>> preferred.stats()["candidates"], preferred.stats()["false_candidates"]
    (1, 0)
    """

    name = "equality_preferred"
    paper = Paper.LE_SUBSCRIBE
    section = "Figure 4"
    capabilities = PLAIN_SETS
    counted = (
        "probes", "predicate_evaluations", "predicates_satisfied", "additions", "comparisons", "candidates",
        "false_candidates",
    )  # fmt: skip

    looks_up_equalities: ClassVar[bool] = True
    """Whether equalities are looked up; otherwise they are counted as all other predicates are."""

    def _new_recent(self) -> RecentConjunctions:
        return RecentConjunctions(prefer=self.looks_up_equalities, check=False)

    def _build(self, rows: ConjunctionRows) -> Int64s:
        preferred = (rows.items[:, KIND] == EQUAL) & self.looks_up_equalities
        self._clusters, order = build_clusters(rows, preferred)
        predicates = build_predicates(rows, ~preferred, np.argsort(order))
        clustered = predicates.rows < self._clusters.clustered
        self._looked_up = _part(predicates, clustered)
        self._free = _part(predicates, ~clustered)
        self._predicates = predicates._replace(row_start=np.zeros(1, dtype=np.int64), rows=np.zeros(0, dtype=np.int32))
        self._counts = HitCounts(predicates, len(rows))
        self._buffers = self._clusters.buffers()
        return order

    def _run(self, block: EventGrid, event: int, out: Int32s, ends: Int64s) -> int:
        counts = self._counts
        counts.prepare(len(block.first))
        stop, counts.stamp = _prefer(
            self._clusters, self._predicates, self._looked_up, self._free, block, event, counts.arrays, counts.stamp,
            self._buffers, out, ends, self._counters,
        )  # fmt: skip
        return stop

    def _sizes(self) -> Stats:
        counts = self._counts.arrays
        arrays = self._clusters, self._predicates, self._looked_up, self._free, counts.needed, counts.hits
        return {
            "predicates_stored": self._predicates.size,
            **self._clusters.sizes(len(counts.hits)),
            "bytes": bytes_of(*arrays),
        }

    def _check_structure(self) -> None:
        self._clusters.check()
        self._predicates.check()
        clustered, needed = self._clusters.clustered, self._counts.arrays.needed
        assert np.all(self._looked_up.rows < clustered) and np.all(self._free.rows >= clustered)
        rows = np.concatenate([self._looked_up.rows, self._free.rows])
        assert np.array_equal(np.bincount(rows, minlength=len(needed)), needed)
        assert np.all(needed[clustered:] > 0)


def _part(predicates: Predicates, chosen: npt.NDArray[np.bool_]) -> RowsOf:
    """The rows of each predicate that are chosen, as runs."""
    return RowsOf(offsets(chosen)[predicates.row_start], predicates.rows[chosen])


@kernel
def _prefer(
    clusters: Clusters,
    predicates: Predicates,
    looked_up: RowsOf,
    free: RowsOf,
    grid: EventGrid,
    event: int,
    counts: CountArrays,
    stamp: int,
    buffers: ClusterBuffers,
    out: Int32s,
    ends: Int64s,
    counters: Int64s | None,
) -> tuple[int, int]:
    start, rows = looked_up
    free_start, free_rows = free
    hits, needed, seen, runs, step = counts
    buckets = buffers.buckets
    found = 0
    while event < len(grid.first) and found + hits.size <= out.size:
        stamp += step
        base = np.int32(stamp)
        count = satisfied(predicates, grid, event, runs, seen, stamp, counters)
        for run in range(count):
            begin, end = runs[run, 0], runs[run, 1]
            for place in range(start[begin], start[end]):
                row = np.uint32(rows[place])
                hits[row] = max(hits[row], base) + np.int32(1)
            for place in range(free_start[begin], free_start[end]):
                row = np.uint32(free_rows[place])
                hit = max(hits[row], base) + np.int32(1)
                hits[row] = hit
                if hit - base == needed[row]:
                    out[found] = row
                    found += 1
            if counters is not None:
                counters[2] += end - begin
                counters[3] += start[end] - start[begin] + free_start[end] - free_start[begin]
                counters[4] += free_start[end] - free_start[begin]
        count = find_buckets(clusters, grid, event, buffers, counters)
        for place in range(count):
            begin, end = clusters.row_start[buckets[place]], clusters.row_start[buckets[place] + 1]
            before = found
            for candidate in range(begin, end):
                out[found] = candidate
                found += max(hits[candidate], base) - base == needed[candidate]
            if counters is not None:
                counters[4] += end - begin
                counters[5] += end - begin
                counters[6] += end - begin - (found - before)
        ends[event] = found
        event += 1
    return event, stamp
