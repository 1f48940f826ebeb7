"""The general matching tree, compiled: nodes as rows of integers, values as ranks, the search in Numba."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from whimbrel.compiled.jit import kernel
from whimbrel.matchers.coding import MISSING, AttributeRanks, Codes, Coding, Int32s, Int64s
from whimbrel.matchers.gryphon_tree.elementary_tests import TreeTest
from whimbrel.matchers.gryphon_tree.general_tree import GeneralLeaf, GeneralNode, GeneralTree
from whimbrel.model.event import Event
from whimbrel.model.values import BOOLEAN, SortKey

NONE = -1

# A node: what it is, its attribute, its first edge and their end (of a leaf: numbers), its `*` child, and, of a test
# with a cut, the ranks from which on it knows the value, from which on it is not below, and from which on it knows not.
KIND, ATTRIBUTE, FIRST, END, STAR_CHILD, KNOWN, CUT, KNOWN_END = range(8)
LEAF, EXAMINE, BELOW = range(3)


class FrozenGeneralTree:
    """A snapshot of the tree."""

    def __init__(self, tree: GeneralTree) -> None:
        order = list(tree.walk())
        self._codes = _codes(order)
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
            attribute = self._codes.numbers[at.test.attribute]
            ranks = self._codes.ranks[attribute]
            row[[KIND, ATTRIBUTE, FIRST]] = BELOW if at.test.cut else EXAMINE, attribute, len(edges)
            edges += sorted((_rank(ranks, label), places[id(child)]) for label, child in at.edges.items())
            row[END] = len(edges)
            if at.star is not None:
                row[STAR_CHILD] = places[id(at.star)]
            if at.test.cut:
                row[[KNOWN, CUT, KNOWN_END]] = (
                    ranks.first[at.test.kind], ranks.floor(at.test.cut), ranks.first[at.test.kind + 1]
                )  # fmt: skip
        self._edges: Int32s = np.array(edges, np.int32).reshape(-1, 2)
        self._numbers: Int64s = np.array(numbers, np.int64)
        self._stack = np.empty(len(order) + 1, np.int32)
        self._out = np.empty(len(numbers), np.int64)

    def search(self, event: Event, counters: Int64s | None) -> list[int]:
        """The numbers that the event matches; `counters`, if any, gain nodes visited and tests made."""
        ranks = np.full(len(self._codes.names), MISSING, np.int32)
        for attribute, found in self._codes.event(event):
            ranks[attribute] = found[0]
        size = _search(self._nodes, self._edges, self._numbers, ranks, self._stack, self._out, counters)
        out: list[int] = self._out[:size].tolist()
        return out

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays that the search reads."""
        return self._nodes.nbytes + self._edges.nbytes + self._numbers.nbytes


def _codes(order: list[GeneralNode | GeneralLeaf]) -> Codes:
    """Ranks that tell apart all that the tests of the tree tell apart."""
    constants: dict[tuple[str, int], set[object]] = {}
    for at in order:
        if isinstance(at, GeneralNode):
            constants.setdefault((at.test.attribute, BOOLEAN), set())
            for kind, value in _constants(at.test, at):
                constants.setdefault((at.test.attribute, kind), set()).add(value)
    coding = Coding()
    for (name, kind), values in constants.items():
        coding.add_column(name, kind, list(values))
    return coding.codes()


def _constants(test: TreeTest, node: GeneralNode) -> Iterator[SortKey]:
    if not test.cut:
        yield from (label for label in node.edges if isinstance(label, tuple))
    elif test.cut[1]:
        kind, _, value, _ = test.cut
        assert value is not None
        yield kind, value


def _rank(ranks: AttributeRanks, label: object) -> int:
    return ranks.rank(label) if isinstance(label, tuple) else int(bool(label))


@kernel
def _search(
    nodes: Int32s, edges: Int32s, numbers: Int64s, ranks: Int32s, stack: Int32s, out: Int64s, counters: Int64s | None
) -> int:  # pragma: no cover
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
