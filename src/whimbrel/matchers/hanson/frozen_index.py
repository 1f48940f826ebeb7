"""The frozen form of Hanson's index: all trees, their marks and the residual predicates as flat arrays, for Numba.

Nodes of all trees are numbered together. The marks of node n below, at and above its key are the runs 3n, 3n + 1 and
3n + 2. Ranks stand for values: a key is a constant, so smaller, equal and greater mean the same as in the tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from whimbrel.compiled.jit import kernel
from whimbrel.matchers.constant_ranks import in_spans, rank_constants
from whimbrel.matchers.hanson.ibs_tree import IbsTree, MarkedInterval, nodes_of
from whimbrel.matchers.runs import Int32s, Int64s, offsets
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.constraint import Constraint
from whimbrel.model.event import Event
from whimbrel.model.intervals import IntervalSet
from whimbrel.ranks.dictionary import Dictionary

VISITED, CANDIDATES, EVALUATED = range(3)
"""What is counted: nodes visited, candidates that the trees give, residual predicates evaluated."""

Residuals = Mapping[int, Sequence[tuple[str, Constraint]]]
"""The predicates of each conjunction that its tree does not prove."""


class FrozenHanson:
    """An immutable copy of the index that answers one event with one call."""

    def __init__(
        self, conjunctions: Iterable[Conjunction], trees: Mapping[tuple[str, int], IbsTree], residuals: Residuals
    ) -> None:
        self._ranks = ranks = _ranks(conjunctions)
        self.numbers = list(residuals)
        rows = {number: row for row, number in enumerate(self.numbers)}
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
                children.append((place.get(id(node.left), -1), place.get(id(node.right), -1)))
                for found in (node.lt, node.eq, node.gt):
                    marks.append([intervals.setdefault(interval, len(intervals)) for interval in found])
            whole = -1 if tree.whole is None else intervals.setdefault(tree.whole, len(intervals))
            self._roots[number, kind] = (place.get(id(tree.root), -1), whole)
        self._keys = np.array(keys, np.int32)
        self._children = np.array(children, np.int32).reshape(-1, 2)
        self._mark_starts, self._marks = _runs(marks)
        self._member_starts, self._members = _runs(
            [[rows[member] for member in sorted(interval.members)] for interval in intervals]
        )
        checks = [_checks(ranks, found) for found in residuals.values()]
        self._check_starts, self._attributes = _runs([[attribute for attribute, _ in found] for found in checks])
        spans = [spans for found in checks for _, spans in found]
        self._span_starts = _runs([[0] * len(found) for found in spans])[0]
        self._spans = np.array([span for found in spans for span in found], np.int32).reshape(-1, 2)
        self._seen = np.zeros(len(self.numbers), np.bool_)
        self._found = np.empty(len(self.numbers), np.int32)

    def search(self, event: Event, counts: Int64s) -> list[int]:
        """The numbers of the conjunctions that hold, each attribute by itself."""
        probes: list[tuple[int, int, int]] = []
        starts = np.zeros(len(self._ranks.attributes) + 1, np.int32)
        values: list[list[int]] = [[] for _ in self._ranks.attributes]
        several = False
        for name in event.attributes:
            attribute = self._ranks.attributes.get(name)
            if attribute is None:
                continue
            rank = self._ranks.lookup(attribute).rank
            for key in event.keys(name):
                if key[0] >= 0:
                    values[attribute].append(rank(key))
                    root = self._roots.get((attribute, key[0]))
                    if root is not None:
                        probes.append((*root, values[attribute][-1]))
            starts[attribute + 1] = len(values[attribute])
            several |= len(values[attribute]) > 1
        if not probes:
            return []
        np.cumsum(starts, out=starts)
        matched = stab_and_check(
            np.array(probes, np.int32), self._keys, self._children, self._mark_starts, self._marks,
            self._member_starts, self._members, self._check_starts, self._attributes, self._span_starts, self._spans,
            starts, np.array([value for held in values for value in held], np.int32),
            several, self._seen, self._found, counts,
        )  # fmt: skip
        return [self.numbers[row] for row in self._found[:matched].tolist()]

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays."""
        return sum(value.nbytes for value in vars(self).values() if isinstance(value, np.ndarray))


def _ranks(conjunctions: Iterable[Conjunction]) -> Dictionary:
    sets: dict[str, list[IntervalSet]] = {}
    for conjunction in conjunctions:
        for name, constraint in conjunction.constraints:
            sets.setdefault(name, []).append(constraint.values)
    return rank_constants(sets)


def _checks(ranks: Dictionary, found: Sequence[tuple[str, Constraint]]) -> list[tuple[int, list[tuple[int, int]]]]:
    numbered = [(ranks.attributes[name], constraint.values) for name, constraint in found]
    return [(attribute, ranks.spans(attribute, values)) for attribute, values in numbered]


def _runs(lists: Iterable[list[int]]) -> tuple[Int64s, Int32s]:
    """Lists one after the other: where each starts, and all members."""
    lists = list(lists)
    starts = offsets(np.array([len(one) for one in lists], dtype=np.int64))
    return starts, np.array([member for found in lists for member in found], np.int32)


@kernel
def stab_and_check(
    probes: Int32s,
    keys: Int32s,
    children: Int32s,
    mark_starts: Int64s,
    marks: Int32s,
    member_starts: Int64s,
    members: Int32s,
    check_starts: Int64s,
    attributes: Int32s,
    span_starts: Int64s,
    spans: Int32s,
    value_starts: Int32s,
    values: Int32s,
    several: bool,
    seen: np.ndarray,
    found: Int32s,
    counts: Int64s,
) -> int:
    """Walk a tree for every (root, whole interval, rank), check what its marks give, write what holds to `found`."""
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
                            if in_spans(values[at], spans, span_starts[check], span_starts[check + 1]):
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
    counts[0] += visited
    counts[1] += candidates
    counts[2] += evaluated
    return matched
