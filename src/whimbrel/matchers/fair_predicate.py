"""Fair predicate matching, which is counting: find the satisfied predicates, then add them up per conjunction.

The hot loops are Numba on frozen arrays; `add` and `remove` are dynamic (see `frozen`).
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.jit import kernel
from whimbrel.matchers.base import Stats
from whimbrel.matchers.capabilities import Capabilities
from whimbrel.matchers.conjunction_rows import ConjunctionRows
from whimbrel.matchers.frozen import FrozenMatcher
from whimbrel.matchers.papers import Paper
from whimbrel.matchers.predicate_clusters import Predicates, build_predicates, check_predicates, run_buffer, satisfied
from whimbrel.matchers.runs import Int32s, Int64s
from whimbrel.ranks.encoding.event_grid import EventGrid

LAST_STAMP = 2**31 - 1


class FairPredicate(FrozenMatcher):
    """Counts the satisfied predicates of each conjunction, all predicates being treated alike.

    Every different predicate is stored once, in the cluster of its attribute and operator. A satisfied predicate adds 1
    to each conjunction that has it, and the addition that completes a conjunction emits it. Cost: lookups + additions +
    comparisons.

    Corrected: lesspredmatch looks on the right side of the constants (ERR-11a); no pass over all conjunctions and no
    reset, because a hit count that is not above the event's stamp counts as 0, and each predicate is counted once
    (ERR-11b); the constraints on one attribute are one predicate, so that lists match as bindings do (AMB-10d).
    `!=` is the run of all `!=` predicates of the attribute without the equal one.

    Nearly all of the time is additions to conjunctions that will not match: 80,000 per event on lesubscribe at 400,000
    subscriptions and p = .5, against 2,760 matches (figures of the three algorithms: see `quarantine`).

    `count`: count the work (`stats()`). `timestamps`: attributes whose strings are timestamps.

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
    capabilities = Capabilities(patterns=False, members=False, states=False, links=False, elements=False)
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
        if self._stamp + self._step * (len(block) + 2) > LAST_STAMP:
            self._stamp = 0
            self._state[:, 0] = 0
            self._seen[:] = 0
        stop, self._stamp = _count(
            self._predicates, block.first, block.starts, block.more, event, self._state, self._stamp, self._step,
            self._run_buffer, self._seen, out, ends, self._counters,
        )  # fmt: skip
        return int(stop)

    def _sizes(self) -> Stats:
        return {
            "predicates_stored": self._predicates.size,
            "bytes": sum(array.nbytes for array in self._predicates) + self._state.nbytes,
        }

    def _check_structure(self) -> None:
        check_predicates(self._predicates)
        assert np.array_equal(np.bincount(self._predicates.rows, minlength=len(self._state)), self._state[:, 1])
        assert np.all(self._state[:, 0] <= self._stamp + self._step)


@kernel
def _count(
    predicates: Predicates,
    first: Int32s,
    starts: Int64s,
    more: Int32s,
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
    while event < len(first) and found + len(state) <= out.size:
        stamp += step
        count = satisfied(predicates, first, starts, more, event, runs, seen, stamp, counters)
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
