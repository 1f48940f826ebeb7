"""Neon: a table of predicates, all rows of every attribute and comparison evaluated, and a count per conjunction.

The hot loops are Numba on frozen arrays; `add` and `remove` are dynamic (see `frozen`). The same tables have a
relational form, a join and a count in SQL (`Neon.relational_form`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from whimbrel.compiled.jit import kernel
from whimbrel.matchers.base import Stats
from whimbrel.matchers.capabilities import Capabilities
from whimbrel.matchers.conjunction_rows import ConjunctionRows
from whimbrel.matchers.frozen import FrozenMatcher
from whimbrel.matchers.neon.relational import ANY_KIND, COMPARISONS, QUERY, RelationalForm, predicate_rows
from whimbrel.matchers.papers import Paper
from whimbrel.matchers.runs import Int32s, Int64s
from whimbrel.ranks.encoding.event_grid import EventGrid

if TYPE_CHECKING:
    import pyarrow as pa

EQUAL, UNEQUAL, BELOW, AT_MOST, ABOVE, AT_LEAST = range(6)


class Neon(FrozenMatcher):
    """Evaluates every predicate on the event's attributes, comparison after comparison, and counts.

    `operations` holds the different (attribute, comparison) pairs, `predicates` one row per predicate of each
    conjunction (no factorisation) in the order of operations, and `n_predicates` how many each conjunction has.
    Every row that an operation locates is evaluated: no order among constants is used. Then all counts are compared.
    Cost: the predicates on the event's attributes.

    Predicates on one attribute are counted one by one, which is right only as long as it has one value (AMB-10d):
    events with lists are refused. IN and OR on one attribute are no conjunction of comparisons and are refused too.
    The paper's event type is an attribute like the others.

    It is slower than `compiled_naive`, by 2 on lesubscribe at 400,000 subscriptions (1.6 ms per event): it evaluates
    every predicate where naive leaves a conjunction at its first failure. What it has is the relational form.

    `count`: count the work (`stats()`). `timestamps`: attributes whose strings are timestamps.

    >>> from whimbrel.matchers import make
    >>> neon = make("neon", count=True)
    >>> neon.add("mid", "price > 10 AND price < 20 AND color != 'red'")
    >>> neon.match({"price": 15, "color": "blue"})
    ['mid']
    >>> neon.stats()["operations"], neon.stats()["predicate_evaluations"]
    (3, 3)
    """

    name = "neon"
    paper = Paper.LE_SUBSCRIBE
    section = "Figure 8"
    capabilities = Capabilities(
        unions=False, patterns=False, members=False, states=False, links=False, lists=False, elements=False
    )
    counted = ("operations_used", "predicate_evaluations", "additions", "comparisons")

    def _build(self, rows: ConjunctionRows) -> None:
        cells, owner = predicate_rows(rows)
        order = np.lexsort((owner, cells[:, 1], cells[:, 0]))
        cells, owner = cells[order], owner[order]
        operations, first = np.unique(cells[:, 0] * len(COMPARISONS) + cells[:, 1], return_index=True)
        self._op_attr, self._op_comparison = (part.astype(np.int32) for part in divmod(operations, len(COMPARISONS)))
        self._op_start = np.append(first, len(cells)).astype(np.int64)
        self._type = np.ascontiguousarray(cells[:, 2].astype(np.int8))
        self._value = np.ascontiguousarray(cells[:, 3].astype(np.int32))
        self._sub = owner.astype(np.int32)
        self._n_predicates = np.bincount(owner, minlength=len(rows)).astype(np.int32)
        self._satisfied = np.zeros(len(rows), dtype=np.int32)
        self._first = rows.dictionary.rank_base

    def _run(self, block: EventGrid, event: int, out: Int32s, ends: Int64s) -> int:
        return int(
            _evaluate(
                block.first, event, self._first, self._op_attr, self._op_comparison, self._op_start, self._type,
                self._value, self._sub, self._n_predicates, self._satisfied, out, ends, self._counters,
            )
        )  # fmt: skip

    def _sizes(self) -> Stats:
        arrays = (self._op_attr, self._op_comparison, self._op_start, self._type, self._value, self._sub)
        return {
            "operations": len(self._op_attr),
            "predicates_stored": len(self._value),
            "bytes": sum(array.nbytes for array in arrays) + self._n_predicates.nbytes + self._satisfied.nbytes,
        }

    def relational_form(self) -> RelationalForm:
        """The match as SQL over tables, with the tables of everything that is stored now (all but `events`)."""
        import pyarrow as pa

        self.freeze()
        links = self._linked()
        names = np.array(self._names, dtype=object)
        comparison = np.repeat(self._op_comparison, np.diff(self._op_start))
        subs = np.arange(len(self._n_predicates))
        kind = pa.string() if self._kind == "string" else pa.int64()
        return RelationalForm(
            QUERY,
            pa.table(
                {
                    "sub_id": pa.array(self._sub),
                    "attribute": pa.array(names[np.repeat(self._op_attr, np.diff(self._op_start))], pa.string()),
                    "comparison": pa.array([COMPARISONS[number] for number in comparison], pa.string()),
                    "kind": pa.array(self._type),
                    "value": pa.array(self._value),
                }
            ),
            pa.table({"sub_id": pa.array(subs, pa.int32()), "predicates": pa.array(self._n_predicates, pa.int64())}),
            pa.table(
                {
                    "sub_id": pa.array(np.repeat(subs, np.diff(links.start)), pa.int32()),
                    "subscription": pa.array(self.ids(links.places), kind),
                }
            ),
            tuple(self.ids(sorted(self._always))),
        )

    def relational_events(self, events: object) -> pa.Table:
        """Events as the rows that the query reads: event_id (row number), attribute, kind, value."""
        import pyarrow as pa

        nothing = np.zeros(0, dtype=np.int64)
        columns = [(nothing, nothing, nothing)]
        seen = 0
        for block in self._blocks(events):
            row, attr = np.nonzero(block.first >= 0)
            columns.append((row + seen, attr, block.first[row, attr].astype(np.int64)))
            seen += len(block)
        row, attr, value = map(np.concatenate, zip(*columns, strict=True))
        kind = (self._first[attr, 1:4] <= value[:, None]).sum(axis=1)
        names = np.array(self._names, dtype=object)
        return pa.table(
            {
                "event_id": pa.array(row, pa.int64()),
                "attribute": pa.array(names[attr], pa.string()),
                "kind": pa.array(kind, pa.int8()),
                "value": pa.array(value, pa.int32()),
            }
        )

    def _check_structure(self) -> None:
        assert np.all(np.diff(self._op_start) > 0)
        operations = list(zip(self._op_attr.tolist(), self._op_comparison.tolist(), strict=True))
        assert operations == sorted(set(operations))
        assert np.array_equal(np.bincount(self._sub, minlength=len(self._n_predicates)), self._n_predicates)
        assert not self._satisfied.any(), "a count was not reset"
        limit = np.repeat(self._first[self._op_attr, 4], np.diff(self._op_start)) if operations else self._value
        assert np.all((self._value >= 0) & (self._value < limit))


@kernel
def _evaluate(
    first: Int32s,
    event: int,
    first_rank: Int32s,
    op_attr: Int32s,
    op_comparison: Int32s,
    op_start: Int64s,
    kind: npt.NDArray[np.int8],
    value: Int32s,
    sub: Int32s,
    n_predicates: Int32s,
    satisfied: Int32s,
    out: Int32s,
    ends: Int64s,
    counters: Int64s | None,
) -> int:
    found = 0
    while event < len(first) and found + satisfied.size <= out.size:
        for operation in range(op_attr.size):
            attr, comparison = op_attr[operation], op_comparison[operation]
            rank = first[event, attr]
            if rank < 0:
                continue
            own = 0
            while rank >= first_rank[attr, own + 1]:
                own += 1
            additions = 0
            for row in range(op_start[operation], op_start[operation + 1]):
                if comparison == EQUAL:
                    holds = rank == value[row]
                elif comparison == UNEQUAL:
                    holds = rank != value[row]
                elif kind[row] != own and kind[row] != ANY_KIND:
                    holds = False
                elif comparison == BELOW:
                    holds = rank < value[row]
                elif comparison == AT_MOST:
                    holds = rank <= value[row]
                elif comparison == ABOVE:
                    holds = rank > value[row]
                else:
                    holds = rank >= value[row]
                if holds:
                    satisfied[sub[row]] += 1
                    additions += 1
            if counters is not None:
                counters[0] += 1
                counters[1] += op_start[operation + 1] - op_start[operation]
                counters[2] += additions
        for row in range(satisfied.size):
            out[found] = row
            found += satisfied[row] == n_predicates[row]
            satisfied[row] = 0
        if counters is not None:
            counters[3] += satisfied.size
        ends[event] = found
        event += 1
    return event
