"""The general matching tree as linked nodes: insert by walking down, delete by parent pointers, search.

Gryphon, section 3 and appendix A, with the corrections that `GryphonTree` names (docs/papers.md). The elementary tests
are `examine(a)`, which gives the value of a, and `lt(a, c)` and `le(a, c)`, which ask whether a lies below a cut: just
before c, or just after it. Where a test says nothing, because a is missing or of another type, its result is ABSENT.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from whimbrel.model.conjunction import Conjunction
from whimbrel.model.constraint import Constraint
from whimbrel.model.event import Event
from whimbrel.model.intervals import Cut, after, before, edge
from whimbrel.model.values import TYPE_NAMES, SortKey, from_key

Result = SortKey | bool | None
"""A value that was examined, whether it lies below the cut, or ABSENT."""

Interval = tuple[Cut, Cut]
Predicates = dict["TreeTest", Result]
"""test -> result, in the order of the tests."""

ABSENT = STAR = None
"""No test has the result that a don't-care edge, `*`, has as its label."""


class TreeTest(NamedTuple):
    """A function of the event. The cut of `examine` is empty; other tests know the values of one type (`kind`)."""

    attribute: str
    kind: int = 0
    cut: Cut | tuple[()] = ()

    def result(self, key: SortKey) -> Result:
        """The result on the attribute's value."""
        if not self.cut:
            return key
        if key[0] != self.kind:
            return ABSENT
        return (key[0], 1, key[1], 0) < self.cut

    def interval(self, result: Result) -> Interval:
        """The values on which the test has this result."""
        if not self.cut:
            assert isinstance(result, tuple)
            return before(result), after(result)
        return (edge(self.kind), self.cut) if result else (self.cut, edge(self.kind + 1))

    def implied(self, interval: Interval) -> Result:
        """The result that the test must have on every value of the interval, or ABSENT."""
        if self.cut and edge(self.kind) <= interval[0] and interval[1] <= edge(self.kind + 1):
            if interval[1] <= self.cut:
                return True
            if self.cut <= interval[0]:
                return False
        return ABSENT

    def __str__(self) -> str:
        if not self.cut:
            return f"examine({self.attribute})"
        kind, inside, value, above = self.cut
        if not inside or value is None:
            return f"lt({self.attribute}, end of {TYPE_NAMES[kind - 1]})"
        return f"{'le' if above else 'lt'}({self.attribute}, {from_key((kind, value))!r})"


def interval_of(constraint: Constraint) -> Interval:
    """The values that an equality or a range admits."""
    low, high = constraint.values.cuts
    return low, high


def predicates_of(conjunction: Conjunction, places: Mapping[str, int]) -> Predicates:
    """The conjunction as elementary predicates, attributes in the order of their places.

    >>> from whimbrel.model.filter import Filter
    >>> (conjunction,) = Filter.parse("a > 5 AND a <= 9 AND b = 1").conjunctions
    >>> {str(test): result for test, result in predicates_of(conjunction, {"b": 0, "a": 1}).items()}
    {'examine(b)': (1, 1), 'le(a, 5)': False, 'le(a, 9)': True}
    """
    out: Predicates = {}
    for name, constraint in sorted(conjunction.constraints, key=lambda item: places[item[0]]):
        points = constraint.values.as_points()
        if points is not None:
            out[TreeTest(name)] = points[0]
            continue
        low, high = interval_of(constraint)
        kind = low[0]
        if low != edge(kind):
            out[TreeTest(name, kind, low)] = False
        if high != edge(kind + 1) or low == edge(kind):  # a whole type: below its end
            out[TreeTest(name, kind, high)] = True
    return out


class GeneralNode:
    """An inner node: a test, an edge for some of its results, and perhaps a `*` edge."""

    __slots__ = ("edges", "label", "parent", "test")

    def __init__(self, test: TreeTest) -> None:
        self.test = test
        self.edges: dict[Result, GeneralNode | GeneralLeaf] = {}
        self.parent: GeneralNode | None = None
        self.label: Result = STAR

    @property
    def star(self) -> GeneralNode | GeneralLeaf | None:
        """The end of the `*` edge."""
        return self.edges.get(STAR)

    def hang(self, label: Result, child: GeneralNode | GeneralLeaf) -> None:
        """Put a child at the end of an edge."""
        child.parent, child.label = self, label
        self.edges[label] = child


class GeneralLeaf:
    """The subscriptions of one path."""

    __slots__ = ("label", "numbers", "parent")

    def __init__(self, number: int) -> None:
        self.numbers = {number}
        self.parent: GeneralNode | None = None
        self.label: Result = STAR


class GeneralTree:
    """Conjunctions of at least one equality or range; `nodes` counts inner nodes and leaves.

    The attributes of `order` are tested first; the others follow as they come.
    """

    def __init__(self, order: Iterable[str] = ()) -> None:
        self._places = {name: place for place, name in enumerate(order)}
        self.root: GeneralNode | None = None
        self.leaves: dict[int, GeneralLeaf] = {}
        self.nodes = 0

    def insert(self, number: int, conjunction: Conjunction) -> None:
        """Add a conjunction that is not there.

        At a node whose test is one of the subscription's own, the walk takes the edge of its result; where the
        subscription implies a result, that edge; else the `*` edge. The last two prove nothing that is asked for, so
        the predicate stays to be made.
        """
        for name, _ in conjunction.constraints:
            self._places.setdefault(name, len(self._places))
        left = predicates_of(conjunction, self._places)
        intervals = {name: interval_of(constraint) for name, constraint in conjunction.constraints}
        leaf = self.leaves[number] = GeneralLeaf(number)
        self.nodes += 1
        if self.root is None:
            self.root = self._new(next(iter(left)))
        at: GeneralNode | GeneralLeaf = self.root
        while left:
            if isinstance(at, GeneralLeaf):  # its subscription is implied by ours so far: ours goes on beside it
                at = self._put_above(at, next(iter(left)))
            result = left.get(at.test)
            if result is not None:
                if result not in at.edges:
                    self._extend(at, left, leaf)
                    return
                del left[at.test]
                at = at.edges[result]
                continue
            way = at.edges.get(_implied(at.test, intervals)) or at.edges.get(STAR)
            if way is None:
                way = self._new(next(iter(left)))
                at.hang(STAR, way)
            at = way
        while isinstance(at, GeneralNode) and at.star is not None:
            at = at.star
        if isinstance(at, GeneralLeaf):
            at.numbers.add(number)
            self.leaves[number] = at
            self.nodes -= 1
        else:
            at.hang(STAR, leaf)

    def delete(self, number: int) -> None:
        """Remove a conjunction by its leaf, never by walking down again; nodes that serve nobody go too (ERR-2a)."""
        leaf = self.leaves.pop(number)
        leaf.numbers.remove(number)
        if leaf.numbers:
            return
        gone: GeneralNode | GeneralLeaf = leaf
        while True:
            self.nodes -= 1
            parent = gone.parent
            if parent is None:
                self.root = None
                return
            del parent.edges[gone.label]
            gone = parent
            if parent.edges:
                if parent.edges.keys() == {STAR}:
                    self._splice(parent, parent.edges[STAR])
                return

    def search(self, event: Event) -> tuple[list[int], int, int]:
        """The numbers that the event matches; how many nodes were visited, and how many tests made."""
        found: list[int] = []
        visited = tests = 0
        stack: list[GeneralNode | GeneralLeaf] = [] if self.root is None else [self.root]
        while stack:
            at = stack.pop()
            visited += 1
            if isinstance(at, GeneralLeaf):
                found += at.numbers
                continue
            tests += 1
            star = at.edges.get(STAR)
            if star is not None:
                stack.append(star)
            keys = event.keys(at.test.attribute)
            result = at.test.result(keys[0]) if keys else ABSENT
            if result is not ABSENT and result in at.edges:
                stack.append(at.edges[result])
        return found, visited, tests

    def walk(self) -> Iterator[GeneralNode | GeneralLeaf]:
        """Every node, a parent before its children."""
        stack: list[GeneralNode | GeneralLeaf] = [] if self.root is None else [self.root]
        while stack:
            at = stack.pop()
            yield at
            if isinstance(at, GeneralNode):
                stack += at.edges.values()

    def _new(self, test: TreeTest) -> GeneralNode:
        self.nodes += 1
        return GeneralNode(test)

    def _put_above(self, leaf: GeneralLeaf, test: TreeTest) -> GeneralNode:
        parent, node = leaf.parent, self._new(test)
        assert parent is not None, "only a conjunction without predicates has its leaf at the root (AMB-2b)"
        parent.hang(leaf.label, node)
        node.hang(STAR, leaf)
        return node

    def _extend(self, at: GeneralNode, left: Predicates, leaf: GeneralLeaf) -> None:
        """Hang a chain of the predicates that are left below a node that makes one of the tests."""
        result = left.pop(at.test)
        for test, following in left.items():
            node = self._new(test)
            at.hang(result, node)
            at, result = node, following
        at.hang(result, leaf)

    def _splice(self, node: GeneralNode, child: GeneralNode | GeneralLeaf) -> None:
        """Put the only child of a node, at the end of its `*` edge, in its place."""
        self.nodes -= 1
        if node.parent is not None:
            node.parent.hang(node.label, child)
        else:
            assert isinstance(child, GeneralNode)
            self.root = child
            child.parent, child.label = None, STAR

    def check(self, conjunctions: dict[int, Conjunction]) -> None:
        """Assert that every leaf has one path, which says what its subscriptions say, and that no node is idle."""
        held: dict[int, GeneralLeaf] = {}
        count = 0
        for at in self.walk():
            count += 1
            if isinstance(at, GeneralLeaf):
                assert at.numbers and not held.keys() & at.numbers
                held.update(dict.fromkeys(at.numbers, at))
                path = _path(at)
                for number in at.numbers:
                    assert path == {n: interval_of(c) for n, c in conjunctions[number].constraints}
            else:
                assert at.edges.keys() - {STAR}, "a node without a value edge"
                assert all(child.parent is at and child.label == label for label, child in at.edges.items())
        assert held == self.leaves and held.keys() == conjunctions.keys()
        assert count == self.nodes
        assert self.root is None or self.root.parent is None


def _implied(test: TreeTest, intervals: dict[str, Interval]) -> Result:
    interval = intervals.get(test.attribute)
    return None if interval is None else test.implied(interval)


def _path(leaf: GeneralLeaf) -> dict[str, Interval]:
    """pred(leaf): the interval of each attribute that the edges above a leaf leave."""
    out: dict[str, Interval] = {}
    at: GeneralNode | GeneralLeaf = leaf
    while at.parent is not None:
        if at.label is not STAR:
            test = at.parent.test
            low, high = test.interval(at.label)
            known = out.get(test.attribute, (low, high))
            out[test.attribute] = max(known[0], low), min(known[1], high)
        at = at.parent
    return out
