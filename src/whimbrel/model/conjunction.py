"""A conjunction: one constraint per attribute, and comparisons between attributes, all of which must hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from whimbrel.model.constraint import UNCONSTRAINED, Constraint
from whimbrel.model.expression import FLIPPED, CompareAttributes, Comparison
from whimbrel.model.intervals import ALL
from whimbrel.model.limits import BINDING_STEPS
from whimbrel.model.values import BOOLEAN, SortKey

if TYPE_CHECKING:
    from whimbrel.model.event import Event, Occurrence


@dataclass(frozen=True)
class Conjunction:
    """Constraints by attribute, sorted by name, and `links`: comparisons of one attribute with another.

    A link implies that both attributes have a value; an attribute of a link has a constraint only if that says more.
    """

    constraints: tuple[tuple[str, Constraint], ...]
    links: tuple[CompareAttributes, ...] = ()

    @staticmethod
    def of(constraints: Mapping[str, Constraint], links: Iterable[CompareAttributes] = ()) -> Conjunction | None:
        """The canonical conjunction, or None if it is unsatisfiable."""
        kept = tuple(sorted({_oriented(link) for link in links}, key=_link_key))
        linked = {name for link in kept for name in (link.left, link.right)}
        out = []
        for name in sorted(constraints):
            constraint = constraints[name]
            if name in linked:
                constraint = constraint.intersect(_SOME_VALUE)
                if constraint == _SOME_VALUE:
                    continue
            if constraint.is_empty():
                return None
            if not constraint.is_anything():
                out.append((name, constraint))
        return Conjunction(tuple(out), kept)

    @cached_property
    def sort_key(self) -> tuple[object, ...]:
        """A key that orders conjunctions the same way in every process."""
        return tuple((name, c.sort_key) for name, c in self.constraints), tuple(map(_link_key, self.links))

    @cached_property
    def by_attribute(self) -> dict[str, Constraint]:
        """The constraints as a dict."""
        return dict(self.constraints)

    @cached_property
    def attributes(self) -> frozenset[str]:
        """The attributes that it mentions."""
        return frozenset(self.by_attribute) | {name for link in self.links for name in (link.left, link.right)}

    def is_true(self) -> bool:
        """Whether it holds on every event."""
        return not self.constraints and not self.links

    def and_(self, other: Conjunction) -> Conjunction | None:
        """The conjunction of two, or None if it is unsatisfiable."""
        merged = dict(self.constraints)
        for name, constraint in other.constraints:
            mine = merged.get(name)
            merged[name] = constraint if mine is None else mine.intersect(constraint)
        return Conjunction.of(merged, self.links + other.links)

    def covers(self, other: Conjunction) -> bool:
        """Whether self holds wherever other does (False may mean: not known)."""
        theirs = other.by_attribute
        for name, constraint in self.constraints:
            known = theirs.get(name, _SOME_VALUE if name in other.attributes else UNCONSTRAINED)
            if not constraint.covers(known):
                return False
        return set(self.links) <= set(other.links)

    def coexists(self, other: Conjunction) -> bool:
        """Whether some event satisfies both (True may mean: not known)."""
        theirs = other.by_attribute
        return all(
            constraint.coexists(theirs.get(name, _SOME_VALUE if name in other.attributes else UNCONSTRAINED))
            for name, constraint in self.constraints
        ) and all(
            constraint.coexists(_SOME_VALUE)
            for name, constraint in other.constraints
            if name in self.attributes and name not in self.by_attribute
        )

    def matches(self, event: Event) -> bool:
        """Whether some binding of the event satisfies it."""
        for name, constraint in self.constraints:
            if not constraint.admits(event.keys(name)):
                return False
        if not self.links and not (event.has_elements and len(self.constraints) > 1):
            return True
        return self._binds(event)

    def _binds(self, event: Event) -> bool:
        """Search a consistent pick of values: one element of each array for all attributes, and every link holds.

        Backtracks, starting with the attribute that has the fewest candidates; bounded by `BINDING_STEPS`.
        """
        candidates: dict[str, list[Occurrence]] = {}
        linked = {name for link in self.links for name in (link.left, link.right)}
        for name in self.attributes:
            constraint = self.by_attribute.get(name, _SOME_VALUE)
            if name not in linked:
                if not constraint.bound or not event.has_value(name):
                    continue  # decided by the whole set
                free = [o for o in event.occurrences(name) if not o.elements and constraint.admits_value(o.key)]
                if free:
                    continue
            picks = [o for o in event.occurrences(name) if constraint.admits_value(o.key)]
            if name not in linked:  # the value itself no longer matters, only its place
                picks = list({o.elements: o for o in picks}.values())
            if not picks:
                return False
            candidates[name] = picks
        order = sorted(candidates, key=lambda name: (len(candidates[name]), name))
        return _search(order, candidates, self.links)


def all_of(conjunctions: Sequence[Conjunction]) -> Conjunction | None:
    """The conjunction of several, or None if it is unsatisfiable."""
    if len(conjunctions) == 1:
        return conjunctions[0]
    gathered: dict[str, list[Constraint]] = {}
    for conjunction in conjunctions:
        for name, constraint in conjunction.constraints:
            gathered.setdefault(name, []).append(constraint)
    links = [link for conjunction in conjunctions for link in conjunction.links]
    return Conjunction.of({name: _intersection(parts) for name, parts in gathered.items()}, links)


def _intersection(constraints: list[Constraint]) -> Constraint:
    """The intersection of constraints, by halves: intersecting one by one would be quadratic."""
    if len(constraints) == 1:
        return constraints[0]
    middle = len(constraints) // 2
    return _intersection(constraints[:middle]).intersect(_intersection(constraints[middle:]))


def _search(order: list[str], candidates: dict[str, list[Occurrence]], links: tuple[CompareAttributes, ...]) -> bool:
    position = {name: i for i, name in enumerate(order)}
    due: list[list[CompareAttributes]] = [[] for _ in order]
    for link in links:
        due[max(position[link.left], position[link.right])].append(link)
    picked: dict[str, SortKey] = {}
    chosen: dict[int, int] = {}
    stack: list[tuple[Iterator[Occurrence], list[int]]] = [(iter(candidates[order[0]]), [])] if order else []
    steps = 0
    while stack:
        name = order[len(stack) - 1]
        tries, added = stack[-1]
        for array in added:
            del chosen[array]
        added.clear()
        for occurrence in tries:
            steps += 1
            BINDING_STEPS.check(steps)
            if any(chosen.get(array, element) != element for array, element in occurrence.elements):
                continue
            picked[name] = occurrence.key
            if all(holds(link.op, picked[link.left], picked[link.right]) for link in due[len(stack) - 1]):
                break
        else:
            stack.pop()
            continue
        if len(stack) == len(order):
            return True
        added += (array for array, _ in occurrence.elements if array not in chosen)
        chosen.update(occurrence.elements)
        stack.append((iter(candidates[order[len(stack)]]), []))
    return not order


def holds(op: Comparison, left: SortKey, right: SortKey) -> bool:
    """Whether `left op right` is true between two non-null values."""
    if op == "=":
        return left == right
    if op == "!=":
        return left != right
    if left[0] != right[0] or left[0] == BOOLEAN:
        return False
    if op == "<":
        return left < right
    if op == "<=":
        return left <= right
    return left > right if op == ">" else left >= right


_SOME_VALUE = Constraint(values=ALL, bound=True)
TRUE = Conjunction(())


def _oriented(link: CompareAttributes) -> CompareAttributes:
    if link.left <= link.right:
        return link
    return CompareAttributes(link.right, FLIPPED[link.op], link.left)


def _link_key(link: CompareAttributes) -> tuple[str, str, str]:
    return link.left, link.right, link.op
