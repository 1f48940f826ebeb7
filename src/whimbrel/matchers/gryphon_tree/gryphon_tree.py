"""The general matching tree of Gryphon: inner nodes are tests, edges their results, leaves subscriptions.

Dynamic Python objects (`general_tree`), with a frozen compiled form for matching (`frozen_tree`) that is made
once the searches since the last change have visited as many nodes as the tree has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from whimbrel.matchers.base import BaseMatcher, Stats
from whimbrel.matchers.capabilities import Capabilities
from whimbrel.matchers.gryphon_tree.general_tree import GeneralTree
from whimbrel.matchers.options import check_names
from whimbrel.matchers.papers import Paper
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.event import Event

if TYPE_CHECKING:
    from whimbrel.matchers.gryphon_tree.frozen_tree import FrozenGeneralTree


class GryphonTree(BaseMatcher):
    """Conjunctions of equalities and ranges as paths of a tree of tests.

    The tests are examine(a), lt(a, c) and le(a, c). At each node an event follows the edge of the test's result and the
    `*` edge. A missing attribute, and for lt and le a value of another type, gives no result: the event follows only
    `*`. A new subscription shares the tests that the tree makes already: its own and, by the implication rule, those
    whose result follows from it. The rule looks at all constraints of the subscription on the attribute, not only at
    the next test, which is as sound and shares more.

    The paper takes a walk that ends in a leaf for "already there", and would delete by walking again; both fail when
    an implied edge has appeared since (ERR-2a). Here equal subscriptions are one by their canonical form, and a removal
    starts from the subscription's leaf: nodes that serve nobody go, and so do those whose only edge is `*`. A leaf is
    never the root, because filters without predicates are kept outside (AMB-2b). The shape depends on the order of
    addition, the answers do not (AMB-2c).

    Parameters: `order`, the attributes to test first; the others follow as they come. `count`, whether work is counted.

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
        exclusions=False, unions=False, patterns=False, members=False, states=False, links=False, lists=False,
        elements=False,
    )  # fmt: skip

    def __init__(self, timestamps: Iterable[str] = (), order: Sequence[str] = (), count: bool = True) -> None:
        super().__init__(timestamps)
        self._order = check_names(self.name, "order", order)
        self._count = count
        self._counters = np.zeros(2, np.int64)  # nodes visited, tests made
        self._restart()

    def _restart(self) -> None:
        """An empty tree, in which no attribute has its place but those of the option."""
        self._tree = GeneralTree()
        self._ranks = {name: rank for rank, name in enumerate(self._order)}  # the order of tests is that of attributes
        self._thaw()

    def _thaw(self) -> None:
        self._frozen: FrozenGeneralTree | None = None
        self._spent = 0

    def freeze(self) -> None:
        """Compile the tree."""
        from whimbrel.matchers.gryphon_tree.frozen_tree import FrozenGeneralTree

        self._frozen = FrozenGeneralTree(self._tree)

    def _insert(self, number: int, conjunction: Conjunction) -> None:
        for name, _ in conjunction.constraints:
            self._ranks.setdefault(name, len(self._ranks))
        self._tree.insert(number, conjunction, self._ranks)
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
            return self._frozen.search(event, self._counters if self._count else None)
        found, visited, tests = self._tree.search(event)
        self._spent += visited
        if self._count:
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
            "nodes_visited": int(self._counters[0]),
            "predicate_evaluations": int(self._counters[1]),
        }

    def _check(self) -> None:
        super()._check()
        self._tree.check({number: conjunction for conjunction, number in self._numbers.items()})
