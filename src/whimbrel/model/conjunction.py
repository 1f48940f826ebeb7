"""A conjunction: one constraint per attribute, and comparisons between attributes, all of which must hold."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
        linked = _linked(kept)
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

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.constraints, self.links))

    def __getstate__(self) -> dict[str, object]:
        """The state for pickle, without the hash, which another process computes otherwise."""
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    @cached_property
    def size(self) -> int:
        """How many values, patterns and members its constraints name."""
        return sum(constraint.size for _, constraint in self.constraints)

    @cached_property
    def sort_key(self) -> tuple[object, ...]:
        """A key that orders conjunctions the same way in every process."""
        return tuple((name, c.sort_key) for name, c in self.constraints), tuple(map(_link_key, self.links))

    @cached_property
    def by_attribute(self) -> dict[str, Constraint]:
        return dict(self.constraints)

    @cached_property
    def attributes(self) -> frozenset[str]:
        """The attributes that it mentions."""
        return frozenset(self.by_attribute) | _linked(self.links)

    def is_true(self) -> bool:
        """Whether it holds on every event."""
        return not self.constraints and not self.links

    def covers(self, other: Conjunction) -> bool:
        """Whether self holds wherever other does (False may mean: not known)."""
        held = all(constraint.covers(other._constraint(name)) for name, constraint in self.constraints)
        return held and set(self.links) <= set(other.links)

    def _constraint(self, name: str) -> Constraint:
        """The constraint on an attribute. An attribute that only links mention must have a value."""
        return self.by_attribute.get(name, _SOME_VALUE if name in self.attributes else UNCONSTRAINED)

    def coexists(self, other: Conjunction) -> bool:
        """Whether some event satisfies both (True may mean: not known)."""
        return all(
            self._constraint(name).coexists(other._constraint(name)) for name in self.attributes & other.attributes
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
        """Whether values can be picked so that every link holds and all come from one element of each array.

        Backtracks, starting with the attribute that has the fewest candidates; bounded by `BINDING_STEPS`.
        """
        candidates: dict[str, list[Occurrence]] = {}
        linked = _linked(self.links)
        for name in self.attributes:
            constraint = self.by_attribute.get(name, _SOME_VALUE)
            if name not in linked and not (constraint.bound and event.has_value(name)):
                continue  # decided by the whole set
            picks = [o for o in event.occurrences(name) if constraint.admits_value(o.key)]
            if name not in linked:  # the value itself no longer matters, only its place
                if any(not o.elements for o in picks):
                    continue  # a value outside of all arrays goes with everything
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


def _linked(links: Iterable[CompareAttributes]) -> set[str]:
    """The attributes that are compared with one another."""
    return {name for link in links for name in (link.left, link.right)}


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
    if op not in ("=", "!=") and (left[0] != right[0] or left[0] == BOOLEAN):
        return False
    return _COMPARE[op](left, right)


_COMPARE: dict[Comparison, Callable[[SortKey, SortKey], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_SOME_VALUE = Constraint(values=ALL, bound=True)
TRUE = Conjunction(())


def _oriented(link: CompareAttributes) -> CompareAttributes:
    if link.left <= link.right:
        return link
    return CompareAttributes(link.right, FLIPPED[link.op], link.left)


def _link_key(link: CompareAttributes) -> tuple[str, str, str]:
    return link.left, link.right, link.op
