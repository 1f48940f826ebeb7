"""The general tree as rows of integers: nodes, edges and ranks of values, and the kernel that searches them."""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.compiled.jit import kernel
from whimbrel.matchers.constant_ranks import event_ranks, rank_constants
from whimbrel.matchers.event_grid import MISSING
from whimbrel.matchers.gryphon_tree.elementary_tests import (
    ABSENT,
    EQUAL,
    GREATER,
    SAME,
    STAR,
    Facts,
    PairTest,
    TreeTest,
    compared,
)
from whimbrel.matchers.gryphon_tree.general_tree import GeneralLeaf, GeneralNode, GeneralTree, path_facts
from whimbrel.matchers.runs import bytes_of, find_edge, joined
from whimbrel.model.event import Event
from whimbrel.model.intervals import IntervalSet
from whimbrel.ranks.dictionary import Dictionary

AnyNode = GeneralNode | GeneralLeaf

NONE = -1

# A node: what it is, its attribute, its first edge and their end (of a leaf: numbers), its `*` child, and, of a test
# with a cut, the ranks from which on it knows the value, from which on it is not below, and from which on it knows not.
KIND, ATTRIBUTE, FIRST, END, STAR_CHILD, KNOWN, CUT, KNOWN_END = range(8)
LEAF, EXAMINE, BELOW = range(3)


class FrozenGeneralTree:
    """A snapshot of the tree, with successor sets or without.

    A pair of attributes has two ranks of its own: how its values compare, if they have an order, and whether they are
    equal (0) or not (1).
    """

    def __init__(self, tree: GeneralTree, with_successors: bool = False) -> None:
        order = list(tree.walk())
        self._ranks = ranks = _ranks(order)
        places = {id(at): place for place, at in enumerate(order)}
        tests = [at.test for at in order if isinstance(at, GeneralNode)]
        pairs = dict.fromkeys((test.attribute, test.other) for test in tests if isinstance(test, PairTest))
        self._pairs = {pair: len(ranks.attributes) + 2 * place for place, pair in enumerate(pairs)}
        self._nodes = np.full((len(order), 8), NONE, np.int32)
        edges: list[tuple[int, int]] = []
        numbers: list[int] = []
        for at, row in zip(order, self._nodes, strict=True):
            if isinstance(at, GeneralLeaf):
                row[[KIND, FIRST]] = LEAF, len(numbers)
                numbers += sorted(at.numbers)
                row[END] = len(numbers)
                continue
            attribute, kind, cut = self._test(at.test)
            row[[KIND, ATTRIBUTE, FIRST]] = kind, attribute, len(edges)
            row[[KNOWN, CUT, KNOWN_END]] = cut
            edges += sorted(
                (_rank(ranks, attribute, label), places[id(child)])
                for label, child in at.edges.items()
                if label is not STAR
            )
            row[END] = len(edges)
            if at.star is not None:
                row[STAR_CHILD] = places[id(at.star)]
        self._edges: Int32s = np.array(edges, np.int32).reshape(-1, 2)
        self._numbers: Int64s = np.array(numbers, np.int64)
        self._stack = np.empty(len(order) + 1, np.int32)
        self._out = np.empty(len(numbers), np.int64)
        found = [[places[id(one)] for one in successors(at)] for at in order] if with_successors else []
        self._after: tuple[Int64s, Int32s] = joined(found)

    def _test(self, test: TreeTest | PairTest) -> tuple[int, int, tuple[int, int, int]]:
        """The attribute of a test, what it is, and of a cut the three ranks."""
        if isinstance(test, PairTest):
            place = self._pairs[test.attribute, test.other]
            if test.comparison == "eq":
                return place + 1, BELOW, (0, 1, 2)
            return place, BELOW, (0, 1 if test.comparison == "lt" else 2, 3)
        ranks, attribute = self._ranks, self._ranks.attributes[test.attribute]
        if not test.cut:
            return attribute, EXAMINE, (NONE, NONE, NONE)
        begin, end = ranks.base(attribute, test.kind), ranks.base(attribute, test.kind + 1)
        return attribute, BELOW, (begin, ranks.low(attribute, test.cut), end)

    def search(self, event: Event, counters: Int64s | None) -> list[int]:
        """The numbers that the event matches; `counters`, if any, gain nodes visited and tests made."""
        ranks = np.full(len(self._ranks.attributes) + 2 * len(self._pairs), MISSING, np.int32)
        for attribute, found in event_ranks(self._ranks, event):
            ranks[attribute] = found[0]
        for pair, place in self._pairs.items():
            order = compared(event, *pair)
            if order is not None:
                ranks[place] = order if order <= GREATER else MISSING
                ranks[place + 1] = order not in (EQUAL, SAME)
        arrays = self._nodes, self._edges, self._numbers, *self._after
        size = _search(*arrays, ranks, self._stack, self._out, counters)
        out: list[int] = self._out[:size].tolist()
        return out

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays that the search reads."""
        return bytes_of(self._nodes, self._edges, self._numbers, *self._after)

    @property
    def links(self) -> int:
        """The members of all successor sets."""
        return len(self._after[1])


def successors(node: AnyNode) -> list[AnyNode]:
    """The nodes at which the search goes on after a leaf, or after a node that has no edge for the event.

    Gryphon, section 5.2, for tests of any kind. A visited node passes the event to the edge of its result and to
    nothing else. The node at which that ends, a leaf or a blocked node, answers for the `*` edges that were left out on
    the way: its own, and those of the nodes from which value edges led to it, back to the last `*` edge of its path.
    What its path says about the event may decide the tests at the ends of those edges; then the successor lies further
    down. For one event each `*` edge has one node that answers for it, so that no node is visited twice. The paper's
    definition for the general case, "pred(N) implies pred(M) and nothing lies between", has neither property (AMB-5a,
    docs/papers.md).
    """
    return _decided(_left_out(node), path_facts(node))


def _left_out(node: AnyNode) -> list[AnyNode]:
    """The ends of the `*` edges that a node answers for."""
    out: list[AnyNode] = []
    if isinstance(node, GeneralNode) and node.star is not None:
        out.append(node.star)
    while node.parent is not None and node.label is not STAR:
        node = node.parent
        if node.star is not None:
            out.append(node.star)
    return out


def _decided(nodes: list[AnyNode], facts: Facts) -> list[AnyNode]:
    """The nodes at which the search arrives once all tests are made that the facts decide."""
    out: list[AnyNode] = []
    waiting = nodes[::-1]
    while waiting:
        at = waiting.pop()
        result = ABSENT if isinstance(at, GeneralLeaf) else at.test.implied(facts)
        if isinstance(at, GeneralLeaf) or result is ABSENT:
            out.append(at)
        elif result in at.edges:
            waiting.append(at.edges[result])
        else:
            waiting += _left_out(at)[::-1]
    return out


def _ranks(order: list[AnyNode]) -> Dictionary:
    """Ranks that tell apart all that the tests of the tree tell apart."""
    sets: dict[str, list[IntervalSet]] = {}
    for at in order:
        if isinstance(at, GeneralNode) and isinstance(at.test, TreeTest):
            sets.setdefault(at.test.attribute, []).extend(
                IntervalSet(at.test.interval(label)) for label in at.edges.keys() - {STAR}
            )
    return rank_constants(sets)


def _rank(ranks: Dictionary, attribute: int, label: object) -> int:
    """The label of an edge as a number: the rank of a value, or 1 for below the cut and 0 for not below."""
    return ranks.lookup(attribute).rank(label) if isinstance(label, tuple) else int(bool(label))


@kernel
def _search(
    nodes: Int32s,
    edges: Int32s,
    numbers: Int64s,
    after_start: Int64s,
    after: Int32s,
    ranks: Int32s,
    stack: Int32s,
    out: Int64s,
    counters: Int64s | None,
) -> int:
    has_successors = after_start.size > 1
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
        child: int = NONE
        if nodes[node, KIND] == LEAF:
            for place in range(low, high):
                out[size] = numbers[place]
                size += 1
        else:
            tests += 1
            rank = ranks[nodes[node, ATTRIBUTE]]
            label = rank
            if nodes[node, KIND] == BELOW:
                label = NONE
                if nodes[node, KNOWN] <= rank < nodes[node, KNOWN_END]:
                    label = np.int32(rank < nodes[node, CUT])
            child = find_edge(edges, low, high, label)
            if not has_successors and nodes[node, STAR_CHILD] != NONE:
                stack[top] = nodes[node, STAR_CHILD]
                top += 1
        if child != NONE:
            stack[top] = child
            top += 1
        elif has_successors:
            for place in range(after_start[node], after_start[node + 1]):
                stack[top] = after[place]
                top += 1
    if counters is not None:
        counters[0] += visited
        counters[1] += tests
    return size
