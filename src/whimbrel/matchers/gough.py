"""The tree of Gough and Smith as a DAG: one level per attribute, built breadth first, equal sets once.

A node is a level and the set of subscriptions that are still possible there. The ends of their intervals of the
level's attribute, as ranks, are the cuts of the node; a region lies between two cuts. Numba searches flat arrays, which
are built anew after a change, at the next match.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.compiled.jit import inlined, kernel
from whimbrel.matchers.shared.base import Stats
from whimbrel.matchers.shared.capabilities import PLAIN_SETS
from whimbrel.matchers.shared.conjunction_rows import ATTR, HIGH, KIND, LOW, POINTS, ConjunctionRows
from whimbrel.matchers.shared.event_ranks import MISSING, EventGrid
from whimbrel.matchers.shared.frozen import FrozenMatcher
from whimbrel.matchers.shared.option_checks import check_integer
from whimbrel.matchers.shared.papers import Paper
from whimbrel.matchers.shared.runs import bytes_of
from whimbrel.model.errors import LimitExceeded
from whimbrel.model.limits import Limit

MEMBERS = Limit("gough set members", 40_000_000, "members of sets built", "each node costs the size of its set")
_LARGEST_BUDGET = 100_000_000

NONE = -1
Sets = dict[frozenset[int], int]
Spans = dict[int, list[tuple[int, int]]]
"""row -> the intervals of ranks that it admits, of one attribute."""


class DagArrays(NamedTuple):
    """The arrays of a DAG with n inner nodes. Leaves are numbered after them."""

    levels: Int32s  # the attribute of each level
    start: Int32s  # [n + 1]: node i has the cuts from start[i] to start[i + 1]
    cuts: Int32s
    children: Int32s  # of each region, which are one more than cuts: those of node i begin at start[i] + i
    absent: Int32s  # [n]: the child for an event without the attribute
    leaf_start: Int32s
    leaf_rows: Int32s


class Dag:
    """The DAG of some rows, with its levels in the given order."""

    def __init__(self, rows: ConjunctionRows, levels: Sequence[int], budget: Limit) -> None:
        spans = _spans(rows)
        self._budget = budget
        self._made = 0
        start, cuts, children, absent = [0], [], [], []
        sets: Sets = {frozenset(range(len(rows))): 0} if len(rows) else {}
        self.nodes = len(sets)  # with leaves
        for level in levels:
            following: Sets = {}
            for members in sets:
                free = members.difference(spans[level])
                previous = NONE - 1
                absent.append(self._child(free, following))
                for cut, region in _regions(free, members, spans[level]):
                    child = absent[-1] if cut is None else self._child(frozenset(region), following)
                    if child != previous:  # else the cut makes no difference here
                        if cut is not None:
                            cuts.append(cut)
                        children.append(child)
                        previous = child
                start.append(len(cuts))
            sets = following
        self.leaves = len(sets)
        leaf_start = np.cumsum([0, *map(len, sets)])
        leaf_rows = [row for members in sets for row in sorted(members)]
        parts = (levels, start, cuts, children, absent, leaf_start, leaf_rows)
        self.arrays = DagArrays(*(np.array(part, np.int32) for part in parts))
        self._stamps = np.zeros(len(rows), np.int64)
        self._seen = np.zeros(self.nodes, np.int64)
        self._epoch = 0
        self._frontier = np.empty((2, max(1, self.nodes)), np.int32)

    def _child(self, members: frozenset[int], following: Sets) -> int:
        """The number of the next level's node for a set: nodes are numbered as they are found, level after level."""
        if not members:
            return NONE
        self._made += len(members)
        MEMBERS.check(self._made)
        number = following.get(members)
        if number is None:
            number = following[members] = self.nodes
            self.nodes += 1
            self._budget.check(self.nodes)
        return number

    def run(self, block: EventGrid, event: int, out: Int32s, ends: Int64s, counters: Int64s | None) -> int:
        """Follow events from `event` on, while `out` has capacity for all rows. Return where it stopped."""
        marks = self._stamps, self._seen, self._epoch, self._frontier
        self._epoch += len(block.first)
        return _follow(self.arrays, block, event, *marks, out, ends, counters)


class Gough(FrozenMatcher):
    """A deterministic tree: an event follows one path, however many subscriptions there are.

    Each attribute is a level, those first that most subscriptions mention, with one binary search among the cuts of all
    subscriptions that are still possible. An event with one value of each of K attributes takes O(K log N) time; of a
    list, the child of every value is followed. Space is exponential in the worst case, although equal sets of
    subscriptions are one node. `budget` limits the nodes: above it every match raises LimitExceeded until subscriptions
    are removed. There is no incremental update: the next match after a change, or `freeze()`, builds the tree anew.
    Corrected: ERR-12a, AMB-12b.

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
    capabilities = replace(PLAIN_SETS, members=False)  # each value of a list takes a path of its own
    counted = ("nodes_visited", "comparisons")

    def __init__(self, timestamps: Iterable[str] = (), budget: int = 200_000, count: bool = False) -> None:
        budget = check_integer(self.name, "budget", budget, 1, _LARGEST_BUDGET)
        self._budget = Limit("gough node budget", budget, "nodes", "the tree is exponential in the worst case")
        self._built = -1  # after how many changes
        self._refusal: tuple[int, LimitExceeded] | None = None  # and after how many changes
        super().__init__(timestamps, count)

    def freeze(self) -> None:
        """Build the tree; LimitExceeded if it has more nodes than the budget."""
        if self._refusal is not None and self._refusal[0] == self._changes:
            raise self._refusal[1]
        try:
            super().freeze()
        except LimitExceeded as error:
            self._refusal = self._changes, error.with_traceback(None)
            raise
        self._built = self._changes

    def _settle(self) -> None:
        if self._built != self._changes:
            self.freeze()

    def _build(self, rows: ConjunctionRows) -> None:
        uses = np.bincount(rows.items[:, ATTR], minlength=len(rows.dictionary.names))
        levels = [number for number in np.argsort(-uses, kind="stable").tolist() if uses[number]]
        self._dag = Dag(rows, levels, self._budget)

    def _run(self, block: EventGrid, event: int, out: Int32s, ends: Int64s) -> int:
        return self._dag.run(block, event, out, ends, self._counters)

    def _sizes(self) -> Stats:
        dag = self._dag
        edges = int(np.count_nonzero(np.concatenate([dag.arrays.children, dag.arrays.absent]) != NONE))
        return {
            "levels": len(dag.arrays.levels),
            "nodes": dag.nodes,
            "edges": edges,
            "leaves": dag.leaves,
            "leaf_entries": len(dag.arrays.leaf_rows),
            "budget": self._budget.value,
            "bytes": bytes_of(dag.arrays),
        }

    def _check_structure(self) -> None:
        if self._built == self._changes:
            check_dag(self._dag)


def check_dag(dag: Dag) -> None:
    """Assert that children lie on the next level, cuts are sorted, and every node has a parent."""
    inner, arrays = dag.nodes - dag.leaves, dag.arrays
    assert len(arrays.start) == inner + 1 and len(arrays.absent) == inner
    assert len(arrays.children) == len(arrays.cuts) + inner
    level_of = {0: 0}
    for node in range(inner):
        cuts = arrays.cuts[arrays.start[node] : arrays.start[node + 1]]
        assert np.all(cuts[1:] > cuts[:-1])
        children = arrays.children[arrays.start[node] + node : arrays.start[node + 1] + node + 1]
        assert np.all(children[1:] != children[:-1]), "a cut that makes no difference"
        for child in {*children.tolist(), int(arrays.absent[node])} - {NONE}:
            assert level_of.setdefault(child, level_of[node] + 1) == level_of[node] + 1
    assert level_of.keys() == set(range(dag.nodes)) or not dag.nodes
    assert all(level == len(arrays.levels) for node, level in level_of.items() if node >= inner and dag.nodes)
    leaves = [tuple(part) for part in np.split(arrays.leaf_rows, arrays.leaf_start[1:-1])] if dag.leaves else []
    assert all(leaves) and len(set(leaves)) == dag.leaves


def _spans(rows: ConjunctionRows) -> dict[int, Spans]:
    """The rank intervals that each row admits, by attribute."""
    out: dict[int, Spans] = defaultdict(dict)
    set_start, lows, highs = (array.tolist() for array in rows.sets)
    bounds = list(zip(lows, highs, strict=True))
    for row, item in zip(rows.item_rows().tolist(), rows.items.tolist(), strict=True):
        low = item[LOW]
        found = [(low, item[HIGH])] if item[KIND] < POINTS else bounds[set_start[low] : set_start[low + 1]]
        out[item[ATTR]][row] = found
    return out


def _regions(
    free: frozenset[int], members: frozenset[int], spans: Spans
) -> Iterator[tuple[int | None, frozenset[int] | set[int]]]:
    """The regions of the attribute's ranks from below, each with its lower cut and who is possible in it.

    The lowest one has no cut. It is where nobody's interval is, unless one begins with the first rank: then no value
    falls into it.
    """
    changes: dict[int, set[int]] = defaultdict(set)
    for row in members - free:
        for low, high in spans[row]:
            changes[low] ^= {row}
            changes[high + 1] ^= {row}
    yield None, free
    inside = set(free)
    for cut in sorted(changes):
        inside ^= changes[cut]
        yield cut, inside


@inlined
def _child_of(dag: DagArrays, node: int, rank: int, counters: Int64s | None) -> int:
    """The child of a node for one rank."""
    if rank == MISSING:
        return int(dag.absent[node])
    low, high = dag.start[node], dag.start[node + 1]
    while low < high:
        middle = (low + high) >> 1
        if counters is not None:
            counters[1] += 1
        if dag.cuts[middle] <= rank:
            low = middle + 1
        else:
            high = middle
    return int(dag.children[low + node])


@kernel
def _follow(
    dag: DagArrays,
    grid: EventGrid,
    event: int,
    stamps: Int64s,
    seen: Int64s,
    epoch: int,
    frontier: Int32s,
    out: Int32s,
    ends: Int64s,
    counters: Int64s | None,
) -> int:
    first, starts, more = grid
    now, then = frontier[0], frontier[1]
    size = 0
    while event < first.shape[0] and size + stamps.size <= out.size:
        epoch += 1
        now[0] = 0
        count = 1
        for attribute in dag.levels:
            if counters is not None:
                counters[0] += count
            cell = event * first.shape[1] + attribute
            further = starts[cell + 1] - starts[cell] if starts.size else 0
            following = 0
            for place in range(count):
                for value in range(further + 1):  # of a list, the child of every value
                    rank = first[event, attribute] if value == 0 else more[starts[cell] + value - 1]
                    if value and rank == MISSING:
                        continue
                    child = _child_of(dag, now[place], rank, counters)
                    if child != NONE and seen[child] != epoch:
                        seen[child] = epoch
                        then[following] = child
                        following += 1
            now, then = then, now
            count = following
            if count == 0:
                break
        if counters is not None:
            counters[0] += count
        for place in range(count):
            leaf = now[place] - dag.absent.size
            for entry in range(dag.leaf_start[leaf], dag.leaf_start[leaf + 1]):
                row = dag.leaf_rows[entry]
                if stamps[row] != epoch:
                    stamps[row] = epoch
                    out[size] = row
                    size += 1
        ends[event] = size
        event += 1
    return event
