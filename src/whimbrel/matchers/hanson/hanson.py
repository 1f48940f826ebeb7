"""Hanson's algorithm: the most selective predicate of each subscription in an interval tree, the others checked.

After Hanson et al., SIGMOD 1990. There is one balanced IBS-tree of Python objects for each attribute and type
(`ibs_tree`), and a frozen compiled form for matching (`frozen_index`). After a change, matches walk the trees until
they have looked at as many candidates as there are conjunctions; then the next match compiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from whimbrel.matchers.base import BaseMatcher, Stats
from whimbrel.matchers.capabilities import Capabilities
from whimbrel.matchers.hanson.estimates import Estimates, Events
from whimbrel.matchers.hanson.frozen_index import CANDIDATES, EVALUATED, VISITED, FrozenHanson
from whimbrel.matchers.hanson.ibs_tree import IbsTree, MarkedInterval
from whimbrel.matchers.papers import Paper
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.constraint import Constraint
from whimbrel.model.event import Event
from whimbrel.model.intervals import Cut, IntervalSet, edge


class Hanson(BaseMatcher):
    """Equalities, ranges, exclusions and unions, on events with lists too.

    A conjunction goes into the tree of the attribute on which the fewest events are expected to pass; a match looks up
    every value of the event in its attribute's tree and checks the other predicates of what it finds. A predicate of
    several intervals has each of them in the tree: a value lies in at most one.

    Parameters: `sample`, events from which frequencies are taken; without it an equality is taken to pass 1/|D| events,
    with D the constants that filters compare the attribute with, and a range its part of their extent. `count`, whether
    work is counted.

    The paper has one tree per attribute; as values of different types do not compare, it is one per attribute and
    type here. Keys of removed intervals stay until they outnumber those in use. A selectivity is estimated once, when
    the conjunction comes.

    Measured on lesubscribe with 40,000 subscriptions: with equalities only (p = 1) an event has 12 candidates, of which
    2 hold; with p = 0.5 it has 350, of which 254 hold.

    Cost: an add O(log^2 n), a match O(log n + candidates) for each value.

    >>> from whimbrel.matchers import make
    >>> hanson = make("hanson")
    >>> hanson.add("deal", "category = 'Toy' AND price < 5")
    >>> hanson.add("any toy", "category = 'Toy'")
    >>> hanson.match({"category": "Toy", "price": 3}), hanson.match({"category": "Toy"})
    (['deal', 'any toy'], ['any toy'])
    """

    name = "hanson"
    paper = Paper.LE_SUBSCRIBE
    section = "Figure 6"
    capabilities = Capabilities(patterns=False, members=False, states=False, links=False)

    def __init__(self, timestamps: Iterable[str] = (), sample: Events = (), count: bool = True) -> None:
        super().__init__(timestamps)
        self._estimates = Estimates(sample, self.timestamps)
        self._count = count
        self._trees: dict[tuple[str, int], IbsTree] = {}
        self._access: dict[int, str] = {}  # the attribute by whose tree a conjunction is found
        self._residuals: dict[int, list[tuple[str, Constraint]]] = {}
        self._frozen: FrozenHanson | None = None
        self._spent = 0
        self._counts = np.zeros(4, np.int64)

    def freeze(self) -> None:
        """Compile everything that is stored."""
        self._frozen = FrozenHanson(self._conjunctions.values(), self._trees, self._residuals)

    def _insert(self, number: int, conjunction: Conjunction) -> None:
        for attribute, constraint in conjunction.constraints:
            self._estimates.learn(attribute, constraint.values)
        share = {a: self._estimates.share(a, c.values) for a, c in conjunction.constraints}
        access, *others = sorted(conjunction.constraints, key=lambda item: (share[item[0]], item[0]))
        self._access[number] = access[0]
        self._residuals[number] = others
        for kind, low, high in pieces(access[1].values):
            tree = self._trees.get((access[0], kind))
            if tree is None:
                tree = self._trees[access[0], kind] = IbsTree(kind)
            tree.add(low, high, number)
        self._thaw()

    def _delete(self, number: int, conjunction: Conjunction) -> None:
        del self._residuals[number]
        attribute = self._access.pop(number)
        for kind, low, high in pieces(conjunction.by_attribute[attribute].values):
            tree = self._trees[attribute, kind]
            tree.remove(low, high, number)
            if not tree.intervals:
                del self._trees[attribute, kind]
        self._thaw()

    def _thaw(self) -> None:
        self._frozen = None
        self._spent = 0

    def _search(self, event: Event) -> Iterable[int]:
        if self._frozen is None and self._spent >= len(self._conjunctions):
            self.freeze()
        counts = self._counts if self._count else np.zeros(4, np.int64)
        found = self._walk(event, counts) if self._frozen is None else self._frozen.search(event, counts)
        if event.has_elements:  # values from one element: more than one attribute at a time can say
            found = [number for number in found if self._conjunctions[number].matches(event)]
        counts[-1] += len(found)
        return found

    def _walk(self, event: Event, counts: np.ndarray) -> list[int]:
        """The search in the dynamic trees."""
        visited = candidates = evaluated = 0
        out: list[int] = []
        for attribute in event.attributes:
            intervals: list[MarkedInterval] = []
            for kind, value in event.keys(attribute):
                tree = self._trees.get((attribute, kind))
                if tree is not None:
                    visited += tree.search(value, intervals)
            candidates += sum(len(interval.members) for interval in intervals)
            for number in set().union(*(interval.members for interval in intervals)):
                for name, constraint in self._residuals[number]:
                    evaluated += 1
                    if not constraint.admits(event.keys(name)):
                        break
                else:
                    out.append(number)
        self._spent += 1 + candidates
        counts[:3] += (visited, candidates, evaluated)
        return out

    def _member_stats(self) -> Stats:
        if self._frozen is None:
            self.freeze()
        assert self._frozen is not None
        candidates, matched = int(self._counts[CANDIDATES]), int(self._counts[-1])
        return {
            "trees": len(self._trees),
            "nodes": sum(tree.nodes for tree in self._trees.values()),
            "intervals": sum(len(tree.intervals) for tree in self._trees.values()),
            "bytes": self._frozen.nbytes,
            "nodes_visited": int(self._counts[VISITED]),
            "candidates": candidates,
            "false_candidates": candidates - matched,
            "predicate_evaluations": int(self._counts[EVALUATED]),
        }

    def _check(self) -> None:
        super()._check()
        assert self._residuals.keys() == self._access.keys() == self._conjunctions.keys()
        expected: dict[tuple[str, int], set[tuple[Cut, Cut, int]]] = {}
        for number, conjunction in self._conjunctions.items():
            access = self._access[number]
            assert sorted([access, *(name for name, _ in self._residuals[number])]) == sorted(conjunction.by_attribute)
            for kind, low, high in pieces(conjunction.by_attribute[access].values):
                expected.setdefault((access, kind), set()).add((low, high, number))
        assert expected.keys() == self._trees.keys()
        for place, tree in self._trees.items():
            tree.check()
            assert expected[place] == {
                (low, high, number) for (low, high), i in tree.intervals.items() for number in i.members
            }


def pieces(values: IntervalSet) -> Iterator[tuple[int, Cut, Cut]]:
    """The intervals of a set, cut where types meet: type, lower and upper cut."""
    for low, high in values.pairs():
        for kind in range(low[0], high[0] + high[1]):
            yield kind, max(low, edge(kind)), min(high, edge(kind + 1))
