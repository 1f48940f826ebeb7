"""The general matching tree of Gryphon, and its frozen form.

The tree consists of Python objects that change (`general_tree`). The frozen form is for matching: nodes and edges are
rows of integers, ranks stand for values, and a kernel searches them. It is made once the searches since the last change
have visited as many nodes as the tree has; with successor sets, which are part of that form, at the first search.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.compiled.jit import kernel
from whimbrel.matchers.gryphon_tree.elementary_tests import STAR, PairTest, TreeTest, compared
from whimbrel.matchers.gryphon_tree.general_tree import AnyNode, GeneralLeaf, GeneralNode, GeneralTree, successors
from whimbrel.matchers.shared.base import BaseMatcher, Stats
from whimbrel.matchers.shared.capabilities import Capabilities
from whimbrel.matchers.shared.event_ranks import MISSING, event_ranks, rank_constants
from whimbrel.matchers.shared.option_checks import check_names
from whimbrel.matchers.shared.papers import Paper
from whimbrel.matchers.shared.runs import bytes_of, find_edge, joined
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.event import Event
from whimbrel.model.intervals import IntervalSet
from whimbrel.ranks.dictionary import Dictionary
from whimbrel.ranks.links import EQUAL, GREATER, SAME

NONE = -1

# A node: what it is, its attribute, its first edge and their end (of a leaf: numbers), its `*` child, and, of a test
# with a cut, the ranks from which on it knows the value, from which on it is not below, and from which on it knows not.
KIND, ATTRIBUTE, FIRST, END, STAR_CHILD, KNOWN, CUT, KNOWN_END = range(8)
LEAF, EXAMINE, BELOW = range(3)


class GryphonTree(BaseMatcher):
    """A tree of tests: inner nodes are tests, edges their results, leaves conjunctions.

    The tests are examine(a), lt(a, c) and le(a, c), and of two attributes lt(a, b), le(a, b) and eq(a, b). At each node
    an event follows the edge of the test's result and the `*` edge. A missing attribute, and for lt and le a value of
    another type, gives no result: the event follows only `*`. A new conjunction shares the tests that the tree makes
    already: its own and, by the implication rule, those whose result follows from it. The rule looks at all its
    constraints on the attributes, not only at the next test, which is as sound and shares more. Corrected: ERR-2a,
    AMB-2b, AMB-2c.

    `order`: the attributes to test first; the others follow as they come. `successors`: a node passes an event to the
    edge of its result only, and what a leaf or a node without that edge leaves out is in its successor set.

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
        exclusions=False, unions=False, patterns=False, members=False, nonmembers=False, states=False,
        lists=False, elements=False,
    )  # fmt: skip
    counted = ("nodes_visited", "predicate_evaluations")

    def __init__(
        self, timestamps: Iterable[str] = (), order: Sequence[str] = (), count: bool = True, successors: bool = False
    ) -> None:
        super().__init__(timestamps, count)
        self._successors = successors
        self._order = check_names(self.name, "order", order)
        self._restart()

    def _restart(self) -> None:
        """Begin with an empty tree. Only the attributes of the option `order` have a place yet."""
        self._tree = GeneralTree(self._order)
        self._thaw()

    def _thaw(self) -> None:
        self._frozen: FrozenGeneralTree | None = None
        self._spent = 0

    def freeze(self) -> None:
        """Compile the tree."""
        self._frozen = FrozenGeneralTree(self._tree, self._successors)

    def _insert(self, number: int, conjunction: Conjunction) -> None:
        self._tree.insert(number, conjunction)
        self._thaw()

    def _delete(self, number: int, conjunction: Conjunction) -> None:
        self._tree.delete(number)
        self._thaw()
        if not self._tree.nodes:
            self._restart()

    def _search(self, event: Event) -> Iterable[int]:
        if self._frozen is None and (self._successors or self._spent > self._tree.nodes):
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
            "successors": self._frozen.links,
            "bytes": self._frozen.nbytes,
        }

    def _check(self) -> None:
        super()._check()
        self._tree.check(self._conjunctions)


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
