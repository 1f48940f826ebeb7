"""The general matching tree of Gryphon.

Dynamic Python objects (`general_tree`) have a frozen form for matching, nodes as rows of integers and values as ranks.
It is made once the searches since the last change have visited as many nodes as the tree has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from whimbrel.compiled.jit import kernel
from whimbrel.matchers.base import BaseMatcher, Stats
from whimbrel.matchers.capabilities import Capabilities
from whimbrel.matchers.constant_ranks import event_ranks, rank_constants
from whimbrel.matchers.event_grid import MISSING
from whimbrel.matchers.gryphon_tree.general_tree import STAR, GeneralLeaf, GeneralNode, GeneralTree
from whimbrel.matchers.options import check_names
from whimbrel.matchers.papers import Paper
from whimbrel.matchers.runs import Int32s, Int64s, find_edge
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.event import Event
from whimbrel.model.intervals import IntervalSet
from whimbrel.ranks.dictionary import Dictionary

NONE = -1

# A node: what it is, its attribute, its first edge and their end (of a leaf: numbers), its `*` child, and, of a test
# with a cut, the ranks from which on it knows the value, from which on it is not below, and from which on it knows not.
KIND, ATTRIBUTE, FIRST, END, STAR_CHILD, KNOWN, CUT, KNOWN_END = range(8)
LEAF, EXAMINE, BELOW = range(3)


class GryphonTree(BaseMatcher):
    """A tree of tests: inner nodes are tests, edges their results, leaves conjunctions.

    The tests are examine(a), lt(a, c) and le(a, c). At each node an event follows the edge of the test's result and the
    `*` edge. A missing attribute, and for lt and le a value of another type, gives no result: the event follows only
    `*`. A new conjunction shares the tests that the tree makes already: its own and, by the implication rule, those
    whose result follows from it. The rule looks at all its constraints on the attribute, not only at the next test,
    which is as sound and shares more. Corrected: ERR-2a, AMB-2b, AMB-2c.

    `order`: the attributes to test first; the others follow as they come.

    >>> from whimbrel.matchers import make
    >>> tree = make("gryphon_tree")
    >>> tree.add("cheap toys", "category = 'Toy' AND price < 5")
    >>> tree.add("cheap", "price <= 5")
    >>> tree.match({"category": "Toy", "price": 3}), tree.match({"category": "Toy", "price": 5})
    (['cheap toys', 'cheap'], ['cheap'])
    """

    name = "gryphon_tree"
    paper = Paper.GRYPHON
    section = "section 3 and appendix A"
    capabilities = Capabilities(
        exclusions=False, unions=False, patterns=False, members=False, nonmembers=False, states=False, links=False,
        lists=False, elements=False,
    )  # fmt: skip
    counted = ("nodes_visited", "predicate_evaluations")

    def __init__(self, timestamps: Iterable[str] = (), order: Sequence[str] = (), count: bool = True) -> None:
        super().__init__(timestamps, count)
        self._order = check_names(self.name, "order", order)
        self._restart()

    def _restart(self) -> None:
        """An empty tree, in which no attribute has its place but those of the option."""
        self._tree = GeneralTree(self._order)
        self._thaw()

    def _thaw(self) -> None:
        self._frozen: FrozenGeneralTree | None = None
        self._spent = 0

    def freeze(self) -> None:
        """Compile the tree."""
        self._frozen = FrozenGeneralTree(self._tree)

    def _insert(self, number: int, conjunction: Conjunction) -> None:
        self._tree.insert(number, conjunction)
        self._thaw()

    def _delete(self, number: int, conjunction: Conjunction) -> None:
        self._tree.delete(number)
        self._thaw()
        if not self._tree.nodes:
            self._restart()

    def _search(self, event: Event) -> Iterable[int]:
        if self._frozen is None and self._spent > self._tree.nodes:
            self.freeze()
        if self._frozen is not None:
            return self._frozen.search(event, self._counters)
        found, visited, tests = self._tree.search(event)
        self._spent += visited
        if self._counters is not None:
            self._counters += (visited, tests)
        return found

    def _member_stats(self) -> Stats:
        if self._frozen is None:
            self.freeze()
        assert self._frozen is not None
        leaves = len({id(leaf) for leaf in self._tree.leaves.values()})
        return {
            "nodes": self._tree.nodes,
            "leaves": leaves,
            "edges": max(0, self._tree.nodes - 1),
            "bytes": self._frozen.nbytes,
        }

    def _check(self) -> None:
        super()._check()
        self._tree.check(self._conjunctions)


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
            edges += sorted(
                (_rank(ranks, attribute, label), places[id(child)])
                for label, child in at.edges.items()
                if label is not STAR
            )
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
            sets.setdefault(at.test.attribute, []).extend(
                IntervalSet(at.test.interval(label)) for label in at.edges.keys() - {STAR}
            )
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
        child = find_edge(edges, low, high, label)
        if child != NONE:
            stack[top] = child
            top += 1
    if counters is not None:
        counters[0] += visited
        counters[1] += tests
    return size
