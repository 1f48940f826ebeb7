"""The general matching tree as linked nodes: insert by walking down, delete by parent pointers, search.

Gryphon, section 3 and appendix A, with the corrections that `GryphonTree` names (docs/papers.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

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
        self.edges: dict[Result, AnyNode] = {}
        self.parent: GeneralNode | None = None
        self.label: Result = STAR

    @property
    def star(self) -> AnyNode | None:
        """The child at the end of the `*` edge; None without one."""
        return self.edges.get(STAR)

    def hang(self, label: Result, child: AnyNode) -> None:
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


AnyNode: TypeAlias = GeneralNode | GeneralLeaf


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
        at: AnyNode = self.root
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
            following = at.edges.get(at.test.implied(facts)) or at.edges.get(STAR)
            if following is None:
                following = self._new(next(iter(left)))
                at.hang(STAR, following)
            at = following
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
        gone: AnyNode = leaf
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
        stack: list[AnyNode] = [] if self.root is None else [self.root]
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

    def walk(self) -> Iterator[AnyNode]:
        """Every node, a parent before its children."""
        stack: list[AnyNode] = [] if self.root is None else [self.root]
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

    def _splice(self, node: GeneralNode, child: AnyNode) -> None:
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


def path_facts(node: AnyNode) -> Facts:
    """pred(node): what the edges above a node say."""
    facts = Facts()
    while node.parent is not None:
        if node.label is not STAR:
            facts.add(node.parent.test, node.label)
        node = node.parent
    return facts


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
