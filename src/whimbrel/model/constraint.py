"""A constraint: what one attribute's set of values must be for a conjunction to hold.

An attribute is in one of three states: missing, null only, or with some non-null value. A constraint says which of
the first two it admits and, for the third, which value a binding may pick (intervals and string patterns) and which
members the whole set must and must not have. That is closed under intersection, which is all a conjunction needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from whimbrel.model.intervals import ALL, EMPTY, STRINGS, IntervalSet
from whimbrel.model.patterns import Pattern, pattern_key
from whimbrel.model.values import STRING, SortKey

Group: TypeAlias = frozenset[SortKey]

NULL_KEY: SortKey = (-1, 0)
"""The key of null, which only set tests see."""

COMPARED_PATTERNS = 256
"""A constraint with more patterns than this keeps patterns that others imply: to find them is quadratic."""

_NO_GROUPS: frozenset[Group] = frozenset()
_NO_KEYS: Group = frozenset()


@dataclass(frozen=True)
class Constraint:
    """One attribute's part of a conjunction.

    `missing`, `null`: whether it holds on a missing attribute, on one with nothing but nulls.
    `values`, `include`, `exclude`: the values that a binding may pick; a string must match every included pattern
    and no excluded one. `bound` says that a value must be picked (it is False only for `IS NOT NULL` and set tests).
    `required`: groups of members; the set has at least one member of each group. `forbidden`: members that the set does
    not have.
    """

    missing: bool = False
    null: bool = False
    values: IntervalSet = ALL
    bound: bool = True
    include: tuple[Pattern, ...] = ()
    exclude: tuple[Pattern, ...] = ()
    required: frozenset[Group] = _NO_GROUPS
    forbidden: Group = _NO_KEYS

    @staticmethod
    def of(values: IntervalSet, include: Iterable[Pattern] = (), exclude: Iterable[Pattern] = ()) -> Constraint:
        """The constraint that a value is in the set and fits the patterns."""
        return Constraint(
            values=values,
            include=tuple(sorted(set(include), key=pattern_key)),
            exclude=tuple(sorted(set(exclude), key=pattern_key)),
        ).simplified()

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """The hash, computed once: a list may have thousands of members."""
        states, members = (self.missing, self.null, self.bound), (self.required, self.forbidden)
        return hash((states, self.values, self.include, self.exclude, members))

    def __getstate__(self) -> dict[str, object]:
        """The state for pickle, without the hash, which another process computes otherwise."""
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    @cached_property
    def size(self) -> int:
        """How many values, patterns and members it names."""
        members = len(self.forbidden) + sum(map(len, self.required))
        return (len(self.values.cuts) + 1) // 2 + len(self.include) + len(self.exclude) + members

    @cached_property
    def is_plain(self) -> bool:
        """Whether it is only a set of values to pick from: no states, no patterns, no members."""
        return self.bound and not (
            self.missing or self.null or self.include or self.exclude or self.required or self.forbidden
        )

    @cached_property
    def sort_key(self) -> tuple[object, ...]:
        """A key that orders constraints the same way in every process."""
        return (
            self.values.cuts,
            (self.missing, self.null, self.bound),
            tuple(map(pattern_key, self.include)),
            tuple(map(pattern_key, self.exclude)),
            tuple(sorted(tuple(sorted(group)) for group in self.required)),
            tuple(sorted(self.forbidden)),
        )

    def is_empty(self) -> bool:
        """Whether no set of values satisfies it (False may mean: not known, where patterns are involved)."""
        return not (self.missing or self.null or self.values)

    def is_anything(self) -> bool:
        """Whether every set of values satisfies it."""
        return self.missing and self.null and self == UNCONSTRAINED

    def simplified(self) -> Constraint:
        """The canonical form: patterns decided where values are points, contradictions made empty."""
        values, include, exclude = self.values, self.include, self.exclude
        if include:
            values = values.intersect(STRINGS)
        if include or exclude:
            points = values.as_points()
            if points is not None:
                values = IntervalSet.points(key for key in points if _fits(key, include, exclude))
                include = exclude = ()
            elif not values.overlaps(STRINGS):
                exclude = ()
            elif len(include) + len(exclude) <= COMPARED_PATTERNS:
                if any(kept.covers(pattern) for pattern in include for kept in exclude):
                    values = EMPTY
                include = tuple(p for p in include if not any(q != p and p.covers(q) for q in include))
                exclude = tuple(p for p in exclude if not any(q != p and q.covers(p) for q in exclude))
        required = _minimal(self.required)
        forbidden = self.forbidden
        if forbidden:
            required = _minimal(frozenset(group - forbidden for group in required))
            if not values.minus(IntervalSet.points(key for key in forbidden if key != NULL_KEY)):
                values = EMPTY
        if not all(required):
            values = EMPTY
        if not values:
            return Constraint(self.missing, self.null, EMPTY)
        bound = self.bound or values != ALL or bool(include or exclude)
        return Constraint(self.missing, self.null, values, bound, include, exclude, required, forbidden)

    def intersect(self, other: Constraint) -> Constraint:
        """The constraint that holds where both do, under one binding."""
        missing, null = self.missing and other.missing, self.null and other.null
        if not self.values or not other.values:
            return Constraint(missing, null, EMPTY)
        if self.is_plain and other.is_plain:
            return Constraint(values=self.values.intersect(other.values))
        return Constraint(
            missing,
            null,
            self.values.intersect(other.values),
            self.bound or other.bound,
            tuple(sorted({*self.include, *other.include}, key=pattern_key)),
            tuple(sorted({*self.exclude, *other.exclude}, key=pattern_key)),
            self.required | other.required,
            self.forbidden | other.forbidden,
        ).simplified()

    def coexists(self, other: Constraint) -> bool:
        """Whether one set of values can satisfy both, each under a binding of its own (True may mean: not known)."""
        if (self.missing and other.missing) or (self.null and other.null):
            return True
        if not self.values or not other.values:
            return False
        required, forbidden = self.required | other.required, self.forbidden | other.forbidden
        return all(
            Constraint(False, False, one.values, one.bound, one.include, one.exclude, required, forbidden)
            .simplified()
            .values
            for one in (self, other)
        )

    def covers(self, other: Constraint) -> bool:
        """Whether self holds wherever other does, under the same binding (False may mean: not known)."""
        if (other.missing and not self.missing) or (other.null and not self.null):
            return False
        if not other.values:
            return True
        if not self.values or (self.bound and not other.bound):
            return False
        points = other.values.as_points() if other.bound else None
        known = other.required if points is None else other.required | {frozenset(points)}
        if not all(
            group in known or (len(group) > 1 and any(theirs <= group for theirs in known)) for group in self.required
        ):
            return False
        if not self.forbidden <= other.forbidden:
            return False
        if points is not None:
            return all(self.admits_value(key) for key in points)
        if not self.values.covers(other.values):
            return False
        wanted, unwanted = set(self.include).difference(other.include), set(self.exclude).difference(other.exclude)
        if len(wanted) * len(other.include) + len(unwanted) * len(other.exclude) > COMPARED_PATTERNS**2:
            return False
        if not all(any(kept.covers(pattern) for pattern in other.include) for kept in wanted):
            return False
        return all(any(theirs.covers(pattern) for theirs in other.exclude) for pattern in unwanted) or not (
            other.values.overlaps(STRINGS)
        )

    def admits(self, keys: Collection[SortKey]) -> bool:
        """Whether it holds on an attribute with these values, for some choice of the value to pick."""
        if not self.admits_members(keys):
            return False
        if not self.bound or not any(key != NULL_KEY for key in keys):
            return True
        return any(self.admits_value(key) for key in keys)

    def admits_members(self, keys: Collection[SortKey]) -> bool:
        """Whether the state of the attribute and the members of its set are allowed, whatever value is picked."""
        if not keys:
            return self.missing
        if all(key == NULL_KEY for key in keys):
            return self.null
        if not self.values:
            return False
        if self.forbidden and any(key in self.forbidden for key in keys):
            return False
        return all(any(key in group for key in keys) for group in self.required)

    def admits_value(self, key: SortKey) -> bool:
        """Whether a binding may pick this value."""
        return key[0] >= 0 and key in self.values and _fits(key, self.include, self.exclude)


UNCONSTRAINED = Constraint(missing=True, null=True, bound=False)


def unite(constraints: Iterable[Constraint]) -> list[Constraint]:
    """Unite constraints to fewer: one of the results holds iff one of the given ones does, under one binding.

    The result does not depend on the order of the input. Takes the time of sorting.
    """
    missing = null = False
    classes: dict[tuple[frozenset[Group], Group], list[Constraint]] = {}
    for constraint in constraints:
        missing, null = missing or constraint.missing, null or constraint.null
        if constraint.values:
            classes.setdefault((constraint.required, constraint.forbidden), []).append(constraint)
    united = [constraint for members in classes.values() for constraint in _unite_values(members)]
    if not united:
        return [Constraint(missing, null, EMPTY)]
    # One of them takes the states that all of them admit: CONTAINS NULL has the null state by itself.
    united.sort(key=lambda c: (not (c.required and all(NULL_KEY in group for group in c.required)), c.sort_key))
    united[0] = replace(united[0], missing=missing, null=null)
    return united


def _unite_values(constraints: list[Constraint]) -> Iterator[Constraint]:
    """The union of constraints that agree in members, without the states."""
    required, forbidden = constraints[0].required, constraints[0].forbidden
    if not all(constraint.bound for constraint in constraints):  # IS NOT NULL has every binding's value
        yield Constraint(bound=False, required=required, forbidden=forbidden)
        return
    classes: dict[tuple[tuple[Pattern, ...], tuple[Pattern, ...]], list[IntervalSet]] = {}
    for constraint in constraints:
        classes.setdefault((constraint.include, constraint.exclude), []).append(constraint.values)
    for (include, exclude), sets in classes.items():
        values = EMPTY.union(*sets)
        yield Constraint(False, False, values, True, include, exclude, required, forbidden).simplified()


def _fits(key: SortKey, include: tuple[Pattern, ...], exclude: tuple[Pattern, ...]) -> bool:
    rank, value = key
    if rank != STRING:
        return not include
    assert isinstance(value, str)
    return all(pattern.matches(value) for pattern in include) and not any(pattern.matches(value) for pattern in exclude)


def _minimal(groups: frozenset[Group]) -> frozenset[Group]:
    """Drop the groups that contain another group."""
    if len(groups) < 2 or not all(groups) or all(len(group) == 1 for group in groups):
        return groups
    uses = Counter(key for group in groups for key in group)
    by_rarest: dict[SortKey, list[Group]] = {}  # a group inside another has its rarest member there
    for group in groups:
        by_rarest.setdefault(min(group, key=lambda key: (uses[key], key)), []).append(group)
    return frozenset(
        group for group in groups if not any(other < group for key in group for other in by_rarest.get(key, ()))
    )
