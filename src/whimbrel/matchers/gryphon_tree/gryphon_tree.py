"""The general matching tree of Gryphon.

Dynamic Python objects (`general_tree`) have a frozen form for matching, nodes as rows of integers and values as ranks.
It is made once the searches since the last change have visited as many nodes as the tree has; with successor sets,
which are part of that form, at the first search.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from whimbrel.matchers.base import BaseMatcher, Stats
from whimbrel.matchers.capabilities import Capabilities
from whimbrel.matchers.gryphon_tree.frozen_tree import FrozenGeneralTree
from whimbrel.matchers.gryphon_tree.general_tree import GeneralTree
from whimbrel.matchers.option_checks import check_names
from whimbrel.matchers.papers import Paper
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.event import Event


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
