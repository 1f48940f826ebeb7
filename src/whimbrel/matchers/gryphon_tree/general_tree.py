"""The general matching tree as linked nodes: insert by walking down, delete by parent pointers, search.

Gryphon, section 3 and appendix A, with the corrections that `GryphonTree` names (docs/papers.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from whimbrel.matchers.gryphon_tree.elementary_tests import (
    ABSENT,
    STAR,
    AnyTest,
    Facts,
    Predicates,
    Result,
    predicates_of,
)
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.event import Event


class GeneralNode:
    """An inner node: a test, an edge for some of its results, and perhaps a `*` edge."""

    __slots__ = ("edges", "label", "parent", "test")

    def __init__(self, test: AnyTest) -> None:
        self.test = test
        self.edges: dict[Result, GeneralNode | GeneralLeaf] = {}
        self.parent: GeneralNode | None = None
        self.label: Result = STAR

    @property
    def star(self) -> GeneralNode | GeneralLeaf | None:
        """The child at the end of the `*` edge; None without one."""
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
    """Conjunctions of at least one equality, range or comparison of two attributes.

    `nodes` counts inner nodes and leaves. The attributes of `order` are tested first; the others follow as they come.
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
        facts = Facts.of(conjunction)
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
            way = at.edges.get(at.test.implied(facts)) or at.edges.get(STAR)
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
            result = at.test.read(event)
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

    def _new(self, test: AnyTest) -> GeneralNode:
        self.nodes += 1
        return GeneralNode(test)

    def _put_above(self, leaf: GeneralLeaf, test: AnyTest) -> GeneralNode:
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
                path = path_facts(at)
                assert all(path == Facts.of(conjunctions[number]) for number in at.numbers)
            else:
                assert at.edges.keys() - {STAR}, "a node without a value edge"
                assert all(child.parent is at and child.label == label for label, child in at.edges.items())
        assert held == self.leaves and held.keys() == conjunctions.keys()
        assert count == self.nodes
        assert self.root is None or self.root.parent is None


def path_facts(node: GeneralNode | GeneralLeaf) -> Facts:
    """pred(node): what the edges above a node say."""
    facts = Facts()
    while node.parent is not None:
        if node.label is not STAR:
            facts.add(node.parent.test, node.label)
        node = node.parent
    return facts
