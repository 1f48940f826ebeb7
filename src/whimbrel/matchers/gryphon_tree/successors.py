"""Successor sets of the general tree: where the search goes on when a node has no edge for the event.

Gryphon, section 5.2, for tests of any kind. A visited node passes the event to the edge of its result and to nothing
else. The node at which that ends, a leaf or a blocked node, answers for the `*` edges that were left out on the way:
those of the nodes from which value edges led to it, back to the last `*` edge of its path, and its own. What its path
says about the event may decide the tests at the ends of those edges; then the successor lies further down. For one
event each `*` edge has one node that answers for it, so that no node is visited twice. The paper's definition for the
general case, "pred(N) implies pred(M) and nothing lies between", has neither property (AMB-5a, docs/papers.md).
"""

from __future__ import annotations

from whimbrel.matchers.gryphon_tree.elementary_tests import ABSENT, STAR, Facts
from whimbrel.matchers.gryphon_tree.general_tree import GeneralLeaf, GeneralNode, path_facts

AnyNode = GeneralNode | GeneralLeaf


def successors(node: AnyNode) -> list[AnyNode]:
    """The nodes at which the search goes on after a leaf, or after a node that has no edge for the event."""
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
