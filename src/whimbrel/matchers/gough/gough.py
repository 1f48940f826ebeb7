"""The tree of Gough and Smith: deterministic, so that an event follows one path, however many subscriptions there are.

Hot loops in Numba on frozen flat arrays (`dag`), which are built anew after a change, at the next match.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from whimbrel.matchers.base import Stats
from whimbrel.matchers.capabilities import Capabilities
from whimbrel.matchers.conjunction_rows import ATTR, ConjunctionRows
from whimbrel.matchers.frozen import FrozenMatcher
from whimbrel.matchers.gough.dag import NONE, Dag
from whimbrel.matchers.options import check_integer
from whimbrel.matchers.papers import Paper
from whimbrel.matchers.runs import Int32s, Int64s
from whimbrel.model.errors import LimitExceeded
from whimbrel.model.limits import Limit
from whimbrel.ranks.encoding.event_grid import EventGrid

_LARGEST_BUDGET = 100_000_000


class Gough(FrozenMatcher):
    """A level per attribute; at each, one binary search among the cuts of all subscriptions that are still possible.

    An event with one value of each of K attributes takes O(K log N) time. Space is exponential in the worst case,
    although equal sets of subscriptions are one node. `budget` limits the nodes: above it every match raises
    LimitExceeded until subscriptions are removed. There is no incremental update, as the paper says: the next match
    after a change, or `freeze()`, builds the tree anew.

    Corrected: a value that no subscription names falls into a region of its own, where those remain that do not ask
    (ERR-12a); so does a missing attribute, by an edge for that; of a list, the child of every value is followed, and
    the results are united (AMB-12b). The levels are the attributes, those that most subscriptions mention first.

    Parameters: `budget`, in nodes. `count`, whether visited nodes and comparisons are counted for `stats()`.

    >>> from whimbrel.matchers import make
    >>> gough = make("gough", count=True)
    >>> gough.add("mid", "price > 10 AND price < 20")
    >>> gough.add("red or cheap", "color = 'red' OR price < 5")
    >>> gough.match({"price": 12, "color": "red"}), gough.match({"price": [5, 30], "color": "blue"})
    (['mid', 'red or cheap'], [])
    >>> gough.stats()["nodes_visited"]
    5
    """

    name = "gough"
    paper = Paper.LE_SUBSCRIBE
    section = "Figure 3"
    capabilities = Capabilities(patterns=False, members=False, states=False, links=False, elements=False)
    counted = ("nodes_visited", "comparisons")

    def __init__(self, timestamps: Iterable[str] = (), budget: int = 200_000, count: bool = False) -> None:
        budget = check_integer(self.name, "budget", budget, 1, _LARGEST_BUDGET)
        self._budget = Limit("gough node budget", budget, "nodes", "the tree is exponential in the worst case")
        self._stale = True
        self._refusal: LimitExceeded | None = None
        super().__init__(timestamps, count)

    def freeze(self) -> None:
        """Build the tree; LimitExceeded if it has more nodes than the budget."""
        if self._refusal is not None:  # nothing has changed since
            raise self._refusal
        try:
            super().freeze()
        except LimitExceeded as error:
            self._refusal = error.with_traceback(None)
            raise
        self._stale = False

    def _holders_changed(self) -> None:
        super()._holders_changed()
        self._stale = True
        self._refusal = None

    def _settle(self) -> None:
        if self._stale:
            self.freeze()

    def _build(self, rows: ConjunctionRows) -> None:
        uses = np.bincount(rows.items[:, ATTR], minlength=len(rows.dictionary.names))
        levels = [number for number in np.argsort(-uses, kind="stable").tolist() if uses[number]]
        self._dag = Dag(rows, levels, self._budget)

    def _run(self, block: EventGrid, event: int, out: Int32s, ends: Int64s) -> int:
        return self._dag.run(block, event, out, ends, self._counters)

    def _sizes(self) -> Stats:
        dag = self._dag
        edges = int(np.count_nonzero(dag.children != NONE)) + int(np.count_nonzero(dag.absent != NONE))
        return {
            "levels": len(dag.levels),
            "nodes": dag.nodes,
            "edges": edges,
            "leaves": dag.leaves,
            "leaf_entries": len(dag.leaf_rows),
            "budget": self._budget.value,
            "bytes": dag.nbytes,
        }

    def _check_structure(self) -> None:
        if not self._stale:
            check_dag(self._dag)


def check_dag(dag: Dag) -> None:
    """Assert that children lie on the next level, cuts are sorted, and every node has a parent."""
    inner = dag.nodes - dag.leaves
    assert len(dag.start) == inner + 1 and len(dag.absent) == inner
    assert len(dag.children) == len(dag.cuts) + inner
    level_of = {0: 0}
    for node in range(inner):
        cuts = dag.cuts[dag.start[node] : dag.start[node + 1]]
        assert np.all(cuts[1:] > cuts[:-1])
        children = dag.children[dag.start[node] + node : dag.start[node + 1] + node + 1]
        assert np.all(children[1:] != children[:-1]), "a cut that makes no difference"
        for child in {*children.tolist(), int(dag.absent[node])} - {NONE}:
            assert level_of.setdefault(child, level_of[node] + 1) == level_of[node] + 1
    assert level_of.keys() == set(range(dag.nodes)) or not dag.nodes
    assert all(level == len(dag.levels) for node, level in level_of.items() if node >= inner and dag.nodes)
    leaves = [tuple(dag.leaf_rows[low:high]) for low, high in zip(dag.leaf_start, dag.leaf_start[1:], strict=False)]
    assert all(leaves) and len(set(leaves)) == dag.leaves
