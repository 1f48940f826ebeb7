"""SIENA's poset: filters ordered by covering, each with the interfaces that want it.

An event is matched from the roots, and only below nodes that match: what a filter covers cannot match where it does
not. An interface is kept at the widest of its filters only.

A. Carzaniga, D. S. Rosenblum, A. L. Wolf: Design and Evaluation of a Wide-Area Event Notification Service, ACM TOCS
2001.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from whimbrel.overlay.covering.cover_relation import CoverRelation


class PosetMatch(NamedTuple):
    """The interfaces that want an event, how many nodes were visited, and how many constraints were tested."""

    interfaces: set[Hashable]
    visited: int
    tested: int


class Poset:
    """Filters of a `CoverRelation`. Each is linked to the filters that it covers with no other between."""

    def __init__(self, relation: CoverRelation) -> None:
        self._relation = relation
        self._wanted: dict[bytes, set[Hashable]] = {}
        self._nodes: dict[bytes, set[Hashable]] = {}
        self._parents: dict[bytes, set[bytes]] = {}
        self._children: dict[bytes, set[bytes]] = {}
        self._roots: dict[bytes, None] = {}

    def insert(self, key: bytes, interface: Hashable) -> None:
        """Note that an interface wants a filter."""
        self._wanted.setdefault(key, set()).add(interface)
        self._keep(key, interface)

    def remove(self, key: bytes, interface: Hashable) -> None:
        """Note that an interface no longer wants a filter. Its filters that were covered by it are kept again."""
        self._wanted[key].discard(interface)
        if not self._wanted[key]:
            del self._wanted[key]
        holders = self._nodes.get(key)
        if holders is None or interface not in holders:
            return
        self._drop(key, interface)
        below = self._relation.covered(key)
        for other in sorted(below, key=lambda one: (len(self._relation.covering(one)), one)):
            if interface in self._wanted.get(other, ()):
                self._keep(other, interface)

    def match(self, evaluate: Callable[[bytes], tuple[bool, int]]) -> PosetMatch:
        """The interfaces that want an event. `evaluate` says whether a filter matches it, and how much it tested."""
        found: set[Hashable] = set()
        visited = tested = 0
        pending = list(self._roots)
        seen: set[bytes] = set()
        while pending:
            key = pending.pop()
            visited += 1
            matched, work = evaluate(key)
            tested += work
            if matched:
                found |= self._nodes[key]
                for child in self._children[key]:
                    if child not in seen:
                        seen.add(child)
                        pending.append(child)
        return PosetMatch(found, visited, tested)

    def _keep(self, key: bytes, interface: Hashable) -> None:
        """Keep an interface at a filter, unless it is at one that covers it; remove it from those below."""
        if any(interface in self._nodes.get(other, ()) for other in self._relation.covering(key)):
            return
        if key not in self._nodes:
            self._link(key)
        self._nodes[key].add(interface)
        for other in self._relation.covered(key):
            if interface in self._nodes.get(other, ()):
                self._drop(other, interface)

    def _drop(self, key: bytes, interface: Hashable) -> None:
        self._nodes[key].discard(interface)
        if not self._nodes[key]:
            self._unlink(key)

    def _link(self, key: bytes) -> None:
        """Add a node below the narrowest that cover it and above the widest that it covers."""
        relation = self._relation
        self._nodes[key] = set()
        self._children[key] = set()
        self._set_parents(key)
        for other in relation.covered(key):
            if other in self._nodes and relation.covered(key).isdisjoint(self._parents[other]):
                for parent in self._parents[other] & relation.covering(key):
                    self._parents[other].discard(parent)
                    self._children[parent].discard(other)
                self._parents[other].add(key)
                self._children[key].add(other)
                self._roots.pop(other, None)

    def _unlink(self, key: bytes) -> None:
        del self._nodes[key]
        self._roots.pop(key, None)
        for parent in self._parents.pop(key):
            self._children[parent].discard(key)
        for child in self._children.pop(key):
            for parent in self._parents[child] - {key}:
                self._children[parent].discard(child)
            self._set_parents(child)

    def _set_parents(self, key: bytes) -> None:
        """Link a node to the narrowest nodes that cover it."""
        relation, parents, passed = self._relation, set(), set[bytes]()
        above = [other for other in relation.covering(key) if other in self._nodes]
        for other in sorted(above, key=lambda one: (-len(relation.covering(one)), one)):
            if other not in passed:
                parents.add(other)
                passed |= relation.covering(other)
        self._parents[key] = parents
        for parent in parents:
            self._children[parent].add(key)
        if parents:
            self._roots.pop(key, None)
        else:
            self._roots[key] = None

    def _check(self) -> None:
        """Assert every invariant: links are immediate, nobody is kept twice, every wanted filter is covered."""
        relation = self._relation
        for key, holders in self._nodes.items():
            assert holders
            assert (key in self._roots) == (not self._parents[key])
            above = {other for other in relation.covering(key) if other in self._nodes}
            assert self._parents[key] <= above
            assert bool(above) == bool(self._parents[key])
            assert all(key in self._children[parent] for parent in self._parents[key])
            assert all(key in self._parents[child] for child in self._children[key])
            assert all(holders.isdisjoint(self._nodes[other]) for other in above)
        for key, interfaces in self._wanted.items():
            for interface in interfaces:
                assert any(interface in self._nodes.get(one, ()) for one in (key, *relation.covering(key)))
