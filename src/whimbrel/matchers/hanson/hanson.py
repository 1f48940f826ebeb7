"""Hanson's algorithm: an interval tree for each attribute and type. After Hanson et al., SIGMOD 1990.

The trees are balanced IBS-trees of Python objects (`ibs_tree`). After a change, matches walk them until they have
looked at as many candidates as there are conjunctions. Then the next match makes the frozen form: all trees, their
marks and the residual predicates as flat arrays. Ranks stand for values: a key is a constant, so smaller, equal and
greater mean the same as in the tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Bools, Int32s, Int64s
from whimbrel.compiled.jit import kernel
from whimbrel.matchers.hanson.estimates import Estimates, Events
from whimbrel.matchers.hanson.ibs_tree import IbsTree, MarkedInterval, nodes_of
from whimbrel.matchers.shared.base import BaseMatcher, Stats
from whimbrel.matchers.shared.capabilities import Capabilities
from whimbrel.matchers.shared.conjunction_rows import SetArrays, in_set
from whimbrel.matchers.shared.event_ranks import rank_constants
from whimbrel.matchers.shared.papers import Paper
from whimbrel.matchers.shared.runs import bytes_of, joined
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.constraint import Constraint
from whimbrel.model.event import Event
from whimbrel.model.intervals import Cut, IntervalSet, edge

Residuals = Mapping[int, Sequence[tuple[str, Constraint]]]
"""The predicates of each conjunction, by its number, that its tree does not prove."""


class Hanson(BaseMatcher):
    """The most selective predicate of each conjunction is in an interval tree, and the others are checked.

    A conjunction goes into the tree of the attribute on which the fewest events are expected to pass. A match looks up
    every value of the event in its attribute's tree and checks the other predicates of what it finds. A predicate of
    several intervals has each of them in the tree: a value lies in at most one. Values of different types do not
    compare, so there is a tree for each attribute and type. Cost: an add O(log^2 n), a match O(log n + candidates) for
    each value.

    `sample`: events from which frequencies are taken. Without it an equality is taken to pass 1/|D| events, with D the
    constants that filters compare the attribute with, and a range its part of their extent. A selectivity is estimated
    once, when the conjunction comes.

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
    capabilities = Capabilities(patterns=False, members=False, nonmembers=False, states=False, links=False)
    counted = ("nodes_visited", "candidates", "predicate_evaluations", "false_candidates")
    reuses_numbers = True

    def __init__(self, timestamps: Iterable[str] = (), sample: Events = (), count: bool = True) -> None:
        super().__init__(timestamps, count)
        self._estimates = Estimates(sample, self.timestamps)
        self._trees: dict[tuple[str, int], IbsTree] = {}
        self._access: dict[int, str] = {}  # the attribute by whose tree a conjunction is found
        self._residuals: dict[int, list[tuple[str, Constraint]]] = {}
        self._frozen: FrozenHanson | None = None
        self._spent = 0

    def freeze(self) -> None:
        """Compile everything that is stored."""
        for tree in self._trees.values():
            tree.drop_unused_keys()  # only constants of filters have ranks that are in order
        self._frozen = FrozenHanson(self._conjunctions.values(), self._trees, self._residuals)

    def _insert(self, number: int, conjunction: Conjunction) -> None:
        for attribute, constraint in conjunction.constraints:
            self._estimates.learn(attribute, constraint.values)
        share = {a: self._estimates.share(a, c.values) for a, c in conjunction.constraints}
        access, *others = sorted(conjunction.constraints, key=lambda item: (share[item[0]], item[0]))
        self._access[number] = access[0]
        self._residuals[number] = others
        for kind, low, high in intervals_by_type(access[1].values):
            self._trees.setdefault((access[0], kind), IbsTree(kind)).add(low, high, number)
        self._thaw()

    def _delete(self, number: int, conjunction: Conjunction) -> None:
        del self._residuals[number]
        attribute = self._access.pop(number)
        for kind, low, high in intervals_by_type(conjunction.by_attribute[attribute].values):
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
        counters = self._counters
        before = 0 if counters is None else counters[1]
        found = self._walk(event) if self._frozen is None else self._frozen.search(event, counters)
        if event.has_elements:  # values from one element: more than one attribute at a time can say
            found = [number for number in found if self._conjunctions[number].matches(event)]
        if counters is not None:
            counters[3] += counters[1] - before - len(found)
        return found

    def _walk(self, event: Event) -> list[int]:
        """Search the dynamic trees, which are not compiled."""
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
        if self._counters is not None:
            self._counters[:3] += (visited, candidates, evaluated)
        return out

    def _member_stats(self) -> Stats:
        if self._frozen is None:
            self.freeze()
        assert self._frozen is not None
        return {
            "trees": len(self._trees),
            "nodes": sum(tree.nodes for tree in self._trees.values()),
            "intervals": sum(len(tree.intervals) for tree in self._trees.values()),
            "bytes": bytes_of(self._frozen.arrays),
        }

    def _check(self) -> None:
        super()._check()
        assert self._residuals.keys() == self._access.keys() == self._conjunctions.keys()
        expected: dict[tuple[str, int], set[tuple[Cut, Cut, int]]] = {}
        for number, conjunction in self._conjunctions.items():
            access = self._access[number]
            assert sorted([access, *(name for name, _ in self._residuals[number])]) == sorted(conjunction.by_attribute)
            for kind, low, high in intervals_by_type(conjunction.by_attribute[access].values):
                expected.setdefault((access, kind), set()).add((low, high, number))
        assert expected.keys() == self._trees.keys()
        for place, tree in self._trees.items():
            tree.check()
            assert expected[place] == {
                (low, high, number) for (low, high), i in tree.intervals.items() for number in i.members
            }


def intervals_by_type(values: IntervalSet) -> Iterator[tuple[int, Cut, Cut]]:
    """The intervals of a set, cut where types meet: type, lower and upper cut."""
    for low, high in values.pairs():
        for kind in range(low[0], high[0] + high[1]):
            yield kind, max(low, edge(kind)), min(high, edge(kind + 1))


class HansonArrays(NamedTuple):
    """Nodes, intervals, members (numbers of conjunctions) and the checks of each member."""

    keys: Int32s  # of each node
    children: Int32s  # [node, 2]
    mark_starts: Int64s  # three runs for each node
    marks: Int32s  # intervals
    member_starts: Int64s  # a run for each interval
    members: Int32s
    check_starts: Int64s  # a run for each member
    attributes: Int32s  # of each check
    spans: SetArrays  # of each check


class FrozenHanson:
    """An immutable copy of the index that answers one event with one call."""

    def __init__(
        self, conjunctions: Iterable[Conjunction], trees: Mapping[tuple[str, int], IbsTree], residuals: Residuals
    ) -> None:
        sets: dict[str, list[IntervalSet]] = {}
        for conjunction in conjunctions:
            for name, constraint in conjunction.constraints:
                sets.setdefault(name, []).append(constraint.values)
        self._ranks = ranks = rank_constants(sets)
        intervals: dict[MarkedInterval, int] = {}
        keys: list[int] = []
        children: list[tuple[int, int]] = []
        marks: list[list[int]] = []
        self._roots: dict[tuple[int, int], tuple[int, int]] = {}  # (attribute, type) -> (root, whole interval)
        for (attribute, kind), tree in trees.items():
            number = ranks.attributes[attribute]
            rank = ranks.lookup(number).rank
            place = {id(node): len(keys) + i for i, node in enumerate(nodes_of(tree.root))}
            for node in nodes_of(tree.root):
                keys.append(rank((kind, node.key)))
                children.append((place.get(id(node.children[0]), -1), place.get(id(node.children[1]), -1)))
                for found in node.marks:
                    marks.append([intervals.setdefault(interval, len(intervals)) for interval in found])
            whole = -1 if tree.whole is None else intervals.setdefault(tree.whole, len(intervals))
            self._roots[number, kind] = (place.get(id(tree.root), -1), whole)
        size = max(residuals, default=-1) + 1
        checks = [residuals.get(number, ()) for number in range(size)]
        spans = [ranks.spans(ranks.attributes[name], values.values) for found in checks for name, values in found]
        starts, lows = joined([low for low, _ in found] for found in spans)
        self.arrays = HansonArrays(
            np.array(keys, np.int32),
            np.array(children, np.int32).reshape(-1, 2),
            *joined(marks),
            *joined(sorted(interval.members) for interval in intervals),
            *joined([ranks.attributes[name] for name, _ in found] for found in checks),
            SetArrays(starts, lows, joined([high for _, high in found] for found in spans)[1]),
        )
        self._seen = np.zeros(size, np.bool_)
        self._found = np.empty(size, np.int32)

    def search(self, event: Event, counters: Int64s | None) -> list[int]:
        """The numbers of the conjunctions that hold, each attribute by itself."""
        probes: list[tuple[int, int, int]] = []
        values: list[list[int]] = [[] for _ in self._ranks.attributes]
        for name in event.attributes:
            attribute = self._ranks.attributes.get(name)
            if attribute is None:
                continue
            rank = self._ranks.lookup(attribute).rank
            for key in event.non_null_keys(name):
                values[attribute].append(rank(key))
                root = self._roots.get((attribute, key[0]))
                if root is not None:
                    probes.append((*root, values[attribute][-1]))
        if not probes:
            return []
        several = any(len(held) > 1 for held in values)
        starts, ranks = joined(values)
        matched = stab_and_check(
            np.array(probes, np.int32), self.arrays, starts, ranks, several, self._seen, self._found, counters
        )
        found: list[int] = self._found[:matched].tolist()
        return found


@kernel
def stab_and_check(
    probes: Int32s,
    index: HansonArrays,
    value_starts: Int64s,
    values: Int32s,
    several: bool,
    seen: Bools,
    found: Int32s,
    counters: Int64s | None,
) -> int:
    """Walk a tree for every (root, whole interval, rank), check what its marks give, write what holds to `found`."""
    keys, children, mark_starts, marks, member_starts, members, check_starts, attributes, spans = index
    matched, visited, candidates, evaluated = 0, 0, 0, 0
    for probe in range(probes.shape[0]):
        node, whole, value = probes[probe, 0], probes[probe, 1], probes[probe, 2]
        while node >= 0 or whole >= 0:
            following = np.int32(-1)
            if whole >= 0:  # before the tree, the interval that has no marks
                first, last = np.int64(0), np.int64(1)
                following = node
            else:
                visited += 1
                side = 0 if value < keys[node] else (2 if value > keys[node] else 1)
                first, last = mark_starts[3 * node + side], mark_starts[3 * node + side + 1]
                if side != 1:
                    following = children[node, side >> 1]
            for mark in range(first, last):
                interval = whole if whole >= 0 else marks[mark]
                for place in range(member_starts[interval], member_starts[interval + 1]):
                    member = members[place]
                    candidates += 1
                    if several and seen[member]:  # another value of the same attribute found it
                        continue
                    holds = True
                    for check in range(check_starts[member], check_starts[member + 1]):
                        evaluated += 1
                        holds = False
                        for at in range(value_starts[attributes[check]], value_starts[attributes[check] + 1]):
                            if in_set(values[at], check, spans):
                                holds = True
                                break
                        if not holds:
                            break
                    if holds:
                        seen[member] = several
                        found[matched] = member
                        matched += 1
            node, whole = following, np.int32(-1)
    if several:
        for place in range(matched):
            seen[found[place]] = False
    if counters is not None:
        counters[0] += visited
        counters[1] += candidates
        counters[2] += evaluated
    return matched
