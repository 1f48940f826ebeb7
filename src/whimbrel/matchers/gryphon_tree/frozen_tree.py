"""The general matching tree, compiled: nodes as rows of integers, values as ranks, the search in Numba."""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.jit import kernel
from whimbrel.matchers.constant_ranks import event_ranks, rank_constants
from whimbrel.matchers.gryphon_tree.general_tree import GeneralLeaf, GeneralNode, GeneralTree
from whimbrel.matchers.runs import Int32s, Int64s
from whimbrel.model.event import Event
from whimbrel.model.intervals import IntervalSet
from whimbrel.ranks.dictionary import Dictionary
from whimbrel.ranks.encoding.event_grid import MISSING

NONE = -1

# A node: what it is, its attribute, its first edge and their end (of a leaf: numbers), its `*` child, and, of a test
# with a cut, the ranks from which on it knows the value, from which on it is not below, and from which on it knows not.
KIND, ATTRIBUTE, FIRST, END, STAR_CHILD, KNOWN, CUT, KNOWN_END = range(8)
LEAF, EXAMINE, BELOW = range(3)


class FrozenGeneralTree:
    """A snapshot of the tree."""

    def __init__(self, tree: GeneralTree) -> None:
        order = list(tree.walk())
        self._ranks = ranks = _ranks(order)
        places = {id(at): place for place, at in enumerate(order)}
        self._nodes = np.full((len(order), 8), NONE, np.int32)
        edges: list[tuple[int, int]] = []
        numbers: list[int] = []
        for at, row in zip(order, self._nodes, strict=True):
            if isinstance(at, GeneralLeaf):
                row[[KIND, FIRST]] = LEAF, len(numbers)
                numbers += sorted(at.numbers)
                row[END] = len(numbers)
                continue
            attribute = ranks.attributes[at.test.attribute]
            row[[KIND, ATTRIBUTE, FIRST]] = BELOW if at.test.cut else EXAMINE, attribute, len(edges)
            edges += sorted((_rank(ranks, attribute, label), places[id(child)]) for label, child in at.edges.items())
            row[END] = len(edges)
            if at.star is not None:
                row[STAR_CHILD] = places[id(at.star)]
            if at.test.cut:
                begin, end = ranks.base(attribute, at.test.kind), ranks.base(attribute, at.test.kind + 1)
                row[[KNOWN, CUT, KNOWN_END]] = begin, ranks.low(attribute, at.test.cut), end
        self._edges: Int32s = np.array(edges, np.int32).reshape(-1, 2)
        self._numbers: Int64s = np.array(numbers, np.int64)
        self._stack = np.empty(len(order) + 1, np.int32)
        self._out = np.empty(len(numbers), np.int64)

    def search(self, event: Event, counters: Int64s | None) -> list[int]:
        """The numbers that the event matches; `counters`, if any, gain nodes visited and tests made."""
        ranks = np.full(len(self._ranks.attributes), MISSING, np.int32)
        for attribute, found in event_ranks(self._ranks, event):
            ranks[attribute] = found[0]
        size = _search(self._nodes, self._edges, self._numbers, ranks, self._stack, self._out, counters)
        out: list[int] = self._out[:size].tolist()
        return out

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays that the search reads."""
        return self._nodes.nbytes + self._edges.nbytes + self._numbers.nbytes


def _ranks(order: list[GeneralNode | GeneralLeaf]) -> Dictionary:
    """Ranks that tell apart all that the tests of the tree tell apart."""
    sets: dict[str, list[IntervalSet]] = {}
    for at in order:
        if isinstance(at, GeneralNode):
            sets.setdefault(at.test.attribute, []).extend(IntervalSet(at.test.interval(label)) for label in at.edges)
    return rank_constants(sets)


def _rank(ranks: Dictionary, attribute: int, label: object) -> int:
    """The label of an edge as a number: the rank of a value, or 1 for below the cut and 0 for not below."""
    return ranks.lookup(attribute).rank(label) if isinstance(label, tuple) else int(bool(label))


@kernel
def _search(
    nodes: Int32s, edges: Int32s, numbers: Int64s, ranks: Int32s, stack: Int32s, out: Int64s, counters: Int64s | None
) -> int:
    size = visited = tests = 0
    top = 0
    if nodes.shape[0]:
        stack[0] = 0
        top = 1
    while top:
        top -= 1
        node = stack[top]
        visited += 1
        low, high = nodes[node, FIRST], nodes[node, END]
        if nodes[node, KIND] == LEAF:
            for place in range(low, high):
                out[size] = numbers[place]
                size += 1
            continue
        tests += 1
        rank = ranks[nodes[node, ATTRIBUTE]]
        label = rank
        if nodes[node, KIND] == BELOW:
            label = NONE
            if nodes[node, KNOWN] <= rank < nodes[node, KNOWN_END]:
                label = np.int32(rank < nodes[node, CUT])
        if nodes[node, STAR_CHILD] != NONE:
            stack[top] = nodes[node, STAR_CHILD]
            top += 1
        while low < high:
            middle = (low + high) >> 1
            if edges[middle, 0] < label:
                low = middle + 1
            else:
                high = middle
        if low < nodes[node, END] and edges[low, 0] == label:
            stack[top] = edges[low, 1]
            top += 1
    if counters is not None:
        counters[0] += visited
        counters[1] += tests
    return size
