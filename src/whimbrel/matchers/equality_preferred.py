"""Equality-preferred matching: equalities by one lookup per schema, all other predicates by counting.

The hot loops are Numba on frozen arrays; `add` and `remove` are dynamic (see `_frozen`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from whimbrel.matchers._blocks import Block
from whimbrel.matchers._clusters import Clusters, build_clusters, check_clusters, event_mask, find_buckets
from whimbrel.matchers._coding import Int32s, Int64s
from whimbrel.matchers._frozen import FrozenMatcher
from whimbrel.matchers._predicates import Predicates, build_predicates, check_predicates, run_room, satisfied
from whimbrel.matchers._rows import EQUAL, KIND, Rows
from whimbrel.matchers.base import Stats
from whimbrel.matchers.fragment import Fragment

LAST_STAMP = 2**31 - 1


class EqualityPreferred(FrozenMatcher):
    """Finds the conjunctions whose equalities all hold with one hash lookup per schema, and counts the rest.

    [LeSub] Figure 4 (ALGORITHMS.md section 13). The schema of a conjunction is the set of attributes with an equality;
    the event's values of a schema lead to the conjunctions whose equalities hold. All other predicates, of these
    conjunctions and of those without an equality, are counted as in `fair_predicate`, and a conjunction that was
    looked up is emitted when its count is complete (at once if it has nothing to count).

    Lists: every combination of values is looked up, and a compound predicate is counted once (AMB-10d).

    `count`: count the work (`stats()`). `timestamps`: attributes whose strings are timestamps.

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
    fragment = Fragment(patterns=False, members=False, states=False, links=False, elements=False)
    counted = ("probes", "predicate_evaluations", "additions", "comparisons", "candidates", "false_candidates")

    def _build(self, rows: Rows) -> Int64s:
        self._clusters, order = build_clusters(rows)
        number = np.empty(len(rows), dtype=np.int64)
        number[order] = np.arange(len(rows))
        others = rows.items[:, KIND] != EQUAL
        self._predicates = build_predicates(rows, others, number)
        needed = np.bincount(number[rows.item_rows()[others]], minlength=len(rows))
        self._needed = needed.astype(np.int32)
        self._hits = np.zeros(len(rows), dtype=np.int32)
        self._step = int(needed.max(initial=0)) + 1
        self._stamp = 0
        self._seen = np.zeros(self._predicates.size, dtype=np.int32)
        self._room = run_room(self._predicates)
        self._buckets = np.zeros(len(self._clusters.row_start), dtype=np.int32)
        self._ranks = np.zeros(2 * int(np.diff(self._clusters.attr_start).max(initial=0)), dtype=np.int32)
        return order

    def _run(self, block: Block, event: int, out: Int32s, ends: Int64s) -> int:
        if self._stamp + self._step * (len(block) + 2) > LAST_STAMP:
            self._stamp = 0
            self._hits[:] = 0
            self._seen[:] = 0
        stop, self._stamp = _prefer(
            self._clusters, self._predicates, block.first, block.starts, block.more, event, self._hits, self._needed,
            self._clusters.clustered, self._stamp, self._step, self._room, self._seen, self._buckets, self._ranks,
            out, ends, self._counters,
        )  # fmt: skip
        return int(stop)

    def _sizes(self) -> Stats:
        arrays = (*self._clusters, *self._predicates, self._needed, self._hits)
        return {
            "predicates_stored": self._predicates.size,
            "schemas": len(self._clusters.mask),
            "buckets": len(self._clusters.row_start) - 1,
            "without_equality": len(self._hits) - self._clusters.clustered,
            "bytes": sum(array.nbytes for array in arrays),
        }

    def _check_structure(self) -> None:
        check_clusters(self._clusters)
        check_predicates(self._predicates)
        assert np.array_equal(np.bincount(self._predicates.rows, minlength=len(self._hits)), self._needed)
        assert np.all(self._needed[self._clusters.clustered :] > 0)


@njit(cache=True, nogil=True)
def _prefer(
    clusters: Clusters,
    predicates: Predicates,
    first: Int32s,
    starts: Int64s,
    more: Int32s,
    event: int,
    hits: Int32s,
    needed: Int32s,
    clustered: int,
    stamp: int,
    step: int,
    runs: Int32s,
    seen: Int32s,
    buckets: Int32s,
    ranks: Int32s,
    out: Int32s,
    ends: Int64s,
    counters: Int64s | None,
) -> tuple[int, int]:  # pragma: no cover
    row_start, rows = predicates.row_start, predicates.rows
    found = 0
    while event < len(first) and found + hits.size <= out.size:
        stamp += step
        base = np.int32(stamp)
        count = satisfied(predicates, first, starts, more, event, runs, seen, stamp, counters)
        for run in range(count):
            for place in range(row_start[runs[run, 0]], row_start[runs[run, 1]]):
                row = rows[place]
                hit = max(hits[row], base) + np.int32(1)
                hits[row] = hit
                if row >= clustered and hit - base == needed[row]:
                    out[found] = row
                    found += 1
            if counters is not None:
                counters[2] += row_start[runs[run, 1]] - row_start[runs[run, 0]]
        present = event_mask(first[event])
        count = find_buckets(clusters, first, starts, more, event, present, ranks, buckets, counters)
        for place in range(count):
            start, end = clusters.row_start[buckets[place]], clusters.row_start[buckets[place] + 1]
            before = found
            for row in range(start, end):
                out[found] = row
                found += max(hits[row], base) - base == needed[row]
            if counters is not None:
                counters[3] += end - start
                counters[4] += end - start
                counters[5] += end - start - (found - before)
        ends[event] = found
        event += 1
    return event, stamp
