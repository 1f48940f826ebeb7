"""The deterministic tree of Gough and Smith as a DAG: one level per attribute, built breadth first, equal sets once.

Le Subscribe, Figure 3. A node is a level and the set of subscriptions that are still possible there. The ends of their
intervals of the level's attribute, as ranks, are the cuts of the node; a region lies between two cuts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from whimbrel.compiled.jit import helper, kernel
from whimbrel.matchers.conjunction_rows import ATTR, HIGH, KIND, LOW, POINTS, ConjunctionRows
from whimbrel.matchers.runs import Int32s, Int64s
from whimbrel.model.limits import Limit
from whimbrel.ranks.encoding.event_grid import MISSING, EventGrid

MEMBERS = Limit("gough set members", 40_000_000, "members of sets built", "each node costs the size of its set")

NONE = -1
Sets = dict[frozenset[int], int]
Spans = dict[int, list[tuple[int, int]]]
"""row -> the intervals of ranks that it admits, of one attribute."""


class Dag:
    """The frozen DAG of some rows, with its levels in the given order.

    Node n has the cuts cuts[start[n] : start[n + 1]] and one region more than cuts: its children begin at start[n] + n.
    """

    def __init__(self, rows: ConjunctionRows, levels: Sequence[int], budget: Limit) -> None:
        self.levels: Int32s = np.array(levels, np.int32)
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
        self.start: Int32s = np.array(start, np.int32)
        self.cuts: Int32s = np.array(cuts, np.int32)
        self.children: Int32s = np.array(children, np.int32)
        self.absent: Int32s = np.array(absent, np.int32)
        sizes = [len(members) for members in sets]
        self.leaf_start: Int32s = np.cumsum([0, *sizes], dtype=np.int32)
        self.leaf_rows: Int32s = np.array([row for members in sets for row in sorted(members)], np.int32)
        self._stamps = np.zeros(len(rows), np.int32)
        self._seen = np.zeros(self.nodes, np.int32)
        self._epoch = 0
        self._frontier = np.empty((2, max(1, self.nodes)), np.int32)

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays that the search reads."""
        arrays = (self.start, self.cuts, self.children, self.absent, self.leaf_start, self.leaf_rows)
        return sum(array.nbytes for array in arrays)

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
        """Follow events from `event` on, while `out` has capacity for all rows; where it stopped."""
        if self._epoch > np.iinfo(np.int32).max - len(block):
            self._epoch = 0
            self._stamps[:] = 0
            self._seen[:] = 0
        stop = _follow(
            self.levels, self.start, self.cuts, self.children, self.absent, self.leaf_start, self.leaf_rows,
            block.first, block.starts, block.more, event, self._stamps, self._seen, self._epoch, self._frontier[0],
            self._frontier[1], out, ends, counters,
        )  # fmt: skip
        self._epoch += len(block)
        return int(stop)


def _spans(rows: ConjunctionRows) -> dict[int, Spans]:
    """What each row asks of each attribute."""
    out: dict[int, Spans] = defaultdict(dict)
    bounds = list(zip(rows.set_low.tolist(), rows.set_high.tolist(), strict=True))
    set_start = rows.set_start.tolist()
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


@helper
def _child_of(
    start: Int32s, cuts: Int32s, children: Int32s, absent: Int32s, node: int, rank: int, counters: Int64s | None
) -> int:
    """The child of a node for one rank."""
    if rank == MISSING:
        return int(absent[node])
    low, high = start[node], start[node + 1]
    while low < high:
        middle = (low + high) >> 1
        if counters is not None:
            counters[1] += 1
        if cuts[middle] <= rank:
            low = middle + 1
        else:
            high = middle
    return int(children[low + node])


@kernel
def _follow(
    levels: Int32s,
    start: Int32s,
    cuts: Int32s,
    children: Int32s,
    absent: Int32s,
    leaf_start: Int32s,
    leaf_rows: Int32s,
    first: Int32s,
    starts: Int64s,
    more: Int32s,
    event: int,
    stamps: Int32s,
    seen: Int32s,
    epoch: int,
    now: Int32s,
    then: Int32s,
    out: Int32s,
    ends: Int64s,
    counters: Int64s | None,
) -> int:
    size = 0
    inner = absent.size
    while event < first.shape[0] and size + stamps.size <= out.size:
        epoch += 1
        now[0] = 0
        count = 1
        for level in range(levels.size):
            if counters is not None:
                counters[0] += count
            attribute = levels[level]
            cell = event * first.shape[1] + attribute
            further = starts[cell + 1] - starts[cell] if starts.size else 0
            following = 0
            for place in range(count):
                for value in range(further + 1):  # of a list, the child of every value
                    rank = first[event, attribute] if value == 0 else more[starts[cell] + value - 1]
                    if value and rank == MISSING:
                        continue
                    child = _child_of(start, cuts, children, absent, now[place], rank, counters)
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
            leaf = now[place] - inner
            for entry in range(leaf_start[leaf], leaf_start[leaf + 1]):
                row = leaf_rows[entry]
                if stamps[row] != epoch:
                    stamps[row] = epoch
                    out[size] = row
                    size += 1
        ends[event] = size
        event += 1
    return event
