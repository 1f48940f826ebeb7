"""Fair predicate matching, which is counting. The hot loops are Numba on frozen arrays (see `frozen`)."""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.jit import kernel
from whimbrel.matchers.base import Stats
from whimbrel.matchers.capabilities import PLAIN_SETS
from whimbrel.matchers.conjunction_rows import ConjunctionRows
from whimbrel.matchers.event_grid import EventGrid
from whimbrel.matchers.frozen import FrozenMatcher
from whimbrel.matchers.papers import Paper
from whimbrel.matchers.predicate_clusters import (
    LAST_STAMP,
    Predicates,
    build_predicates,
    check_predicates,
    run_buffer,
    satisfied,
)
from whimbrel.matchers.runs import Int32s, Int64s, bytes_of


class FairPredicate(FrozenMatcher):
    """Finds the satisfied predicates, and counts them per conjunction.

    Every different predicate is stored once, in the cluster of its attribute and operator. A satisfied predicate adds 1
    to each conjunction that has it, and the addition that completes a conjunction emits it. A hit count that is not
    above the event's stamp counts as 0, so that nothing is reset. The constraints on one attribute are one predicate,
    counted once per event. Cost: lookups + additions + comparisons. Corrected: ERR-11a, ERR-11b, AMB-10d.

    >>> from whimbrel.matchers import make
    >>> fair = make("fair_predicate", count=True)
    >>> fair.add("mid", "price > 10 AND price < 20")
    >>> fair.add("cheap", "price < 20 AND color = 'red'")
    >>> fair.match({"price": [5, 30], "color": "red"})
    ['cheap']
    >>> fair.stats()["additions"]
    2
    """

    name = "fair_predicate"
    paper = Paper.LE_SUBSCRIBE
    section = "Figure 2"
    capabilities = PLAIN_SETS
    counted = ("probes", "predicate_evaluations", "predicates_satisfied", "additions", "comparisons")

    def _build(self, rows: ConjunctionRows) -> None:
        chosen = np.ones(len(rows.items), dtype=np.bool_)
        self._predicates = build_predicates(rows, chosen, np.arange(len(rows)))
        needed = np.diff(rows.start)
        self._state = np.zeros((len(rows), 2), dtype=np.int32)
        self._state[:, 1] = needed
        self._step = int(needed.max(initial=0)) + 1
        self._stamp = 0
        self._seen = np.zeros(self._predicates.size, dtype=np.int32)
        self._run_buffer = run_buffer(self._predicates)

    def _run(self, block: EventGrid, event: int, out: Int32s, ends: Int64s) -> int:
        if self._stamp + self._step * (len(block.first) + 2) > LAST_STAMP:
            self._stamp = 0
            self._state[:, 0] = 0
            self._seen[:] = 0
        stop, self._stamp = _count(
            self._predicates, block, event, self._state, self._stamp, self._step, self._run_buffer, self._seen, out,
            ends, self._counters,
        )  # fmt: skip
        return stop

    def _sizes(self) -> Stats:
        return {
            "predicates_stored": self._predicates.size,
            "bytes": bytes_of(self._predicates, self._state),
        }

    def _check_structure(self) -> None:
        check_predicates(self._predicates)
        assert np.array_equal(np.bincount(self._predicates.rows, minlength=len(self._state)), self._state[:, 1])
        assert np.all(self._state[:, 0] <= self._stamp + self._step)


@kernel
def _count(
    predicates: Predicates,
    grid: EventGrid,
    event: int,
    state: Int32s,
    stamp: int,
    step: int,
    runs: Int32s,
    seen: Int32s,
    out: Int32s,
    ends: Int64s,
    counters: Int64s | None,
) -> tuple[int, int]:
    row_start, rows = predicates.row_start, predicates.rows
    found = 0
    while event < len(grid.first) and found + len(state) <= out.size:
        stamp += step
        count = satisfied(predicates, grid, event, runs, seen, stamp, counters)
        base = np.int32(stamp)
        for run in range(count):
            for place in range(row_start[runs[run, 0]], row_start[runs[run, 1]]):
                row = np.uint32(rows[place])
                hits = max(state[row, 0], base) + np.int32(1)
                state[row, 0] = hits
                if hits - base == state[row, 1]:
                    out[found] = row
                    found += 1
            if counters is not None:
                additions = row_start[runs[run, 1]] - row_start[runs[run, 0]]
                counters[2] += runs[run, 1] - runs[run, 0]
                counters[3] += additions
                counters[4] += additions
        ends[event] = found
        event += 1
    return event, stamp
