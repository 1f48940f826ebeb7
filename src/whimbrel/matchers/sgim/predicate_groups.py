"""The predicates of one attribute in groups, each with an index that chooses or deletes it as a whole.

Survey, III.E, as reconstructed in docs/papers.md. Groups are classes of a frequency distribution: n predicates
fall into ceil(log2 n) of them (the 2^k rule) by their position, which is the finite lower bound, else the upper one.
Classes have equal widths or, "dynamic", equal frequencies. Types do not compare, so each type of an attribute has
classes of its own; what is not one interval (exclusions, unions) is kept apart and always evaluated.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TypeAlias

from whimbrel.matchers.shared.event_ranks import bounded_float
from whimbrel.model.intervals import Cut, IntervalSet
from whimbrel.model.values import STRING


class Predicate:
    """A set of values that subscriptions share, and their rows."""

    __slots__ = ("high", "low", "rows", "values")

    def __init__(self, values: IntervalSet) -> None:
        self.values = values
        self.low, self.high = values.cuts[0], values.cuts[-1]
        self.rows: set[int] = set()

    @property
    def is_interval(self) -> bool:
        """Whether it is one interval within one type."""
        return len(self.values.cuts) == 2 and self.low[0] >= self.high[0] - 1

    @property
    def place(self) -> Cut:
        """The cut that says where it belongs: the finite lower bound, else the upper one."""
        return self.low if self.low[1] else self.high

    @property
    def position(self) -> float:
        """The place as a number; strings by their first bytes. It decides the class only, never an answer."""
        kind, inside, value, _ = self.place
        if not inside or value is None:
            return bounded_float(-math.inf)
        if kind == STRING:
            return float(int.from_bytes(str(value).encode()[:8].ljust(8, b"\0"), "big"))
        return bounded_float(value)


PredicateGroup: TypeAlias = dict[IntervalSet, Predicate]
"""The predicates of one class, by their sets of values."""


def group_index(group: PredicateGroup) -> tuple[Cut, Cut, Cut, Cut]:
    """The lowest and highest of the lower cuts, then of the upper cuts, of a group that has members. O(size)."""
    lows, highs = [one.low for one in group.values()], [one.high for one in group.values()]
    return min(lows), max(lows), min(highs), max(highs)


class PredicateClasses:
    """The groups of one type of an attribute: made anew when n doubles or halves, or one has four times its share."""

    def __init__(self, dynamic: bool) -> None:
        self.dynamic = dynamic
        self.groups: list[PredicateGroup] = [{}]
        self.size = 0
        self.regroupings = 0
        self._grouped = 1
        self._origin, self._width = 0.0, 0.0
        self._starts: list[Cut] = []  # of every class but the first, where frequencies are equal

    def add(self, predicate: Predicate) -> None:
        """Put a predicate into its class."""
        group = self.groups[self._class_of(predicate)]
        group[predicate.values] = predicate
        self.size += 1
        crowded = len(group) > 4 * self.size / len(self.groups)
        # Equal widths may leave a group crowded whatever is done: then try again when n has grown by an eighth.
        if self.size > 2 * self._grouped or (crowded and 8 * self.size >= 9 * self._grouped):
            self._regroup()

    def remove(self, predicate: Predicate) -> None:
        """Take a predicate out of its class."""
        del self.groups[self._class_of(predicate)][predicate.values]
        self.size -= 1
        if 2 * self.size < self._grouped:
            self._regroup()

    def _class_of(self, predicate: Predicate) -> int:
        if self.dynamic:
            return bisect_right(self._starts, predicate.place)
        if self._width == 0:
            return 0
        return int(min(max((predicate.position - self._origin) / self._width, 0), len(self.groups) - 1))

    def _regroup(self) -> None:
        members = [member for group in self.groups for member in group.values()]
        self.groups = [{} for _ in range(group_count(len(members)))]
        self._grouped = max(1, len(members))
        self.regroupings += 1
        if self.dynamic:
            places = sorted(member.place for member in members)
            self._starts = [places[i * len(places) // len(self.groups)] for i in range(1, len(self.groups))]
        elif members:
            positions = [member.position for member in members]
            self._origin = min(positions)
            self._width = (max(positions) - self._origin) / len(self.groups)
        for member in members:
            self.groups[self._class_of(member)][member.values] = member

    def check(self) -> None:
        """Assert that every predicate is in its class."""
        assert self.size == sum(map(len, self.groups))
        assert self._grouped <= 2 * max(1, self.size) and self.size <= 2 * self._grouped
        for number, group in enumerate(self.groups):
            for values, member in group.items():
                assert self._class_of(member) == number and member.values == values and member.is_interval


def group_count(predicates: int) -> int:
    """The number of classes of a frequency distribution: the least k with 2^k >= n, at least 1.

    >>> [group_count(n) for n in (0, 1, 2, 3, 8, 9, 1000)]
    [1, 1, 1, 2, 3, 4, 10]
    """
    return max(1, (predicates - 1).bit_length()) if predicates > 0 else 1


class PredicateTable:
    """All predicates of one attribute: by their set of values, and in groups."""

    def __init__(self, dynamic: bool) -> None:
        self.dynamic = dynamic
        self.predicates: dict[IntervalSet, Predicate] = {}
        self.classes: dict[int, PredicateClasses] = {}
        self.rest: dict[IntervalSet, Predicate] = {}

    def add(self, values: IntervalSet, row: int) -> None:
        """Note that a row needs a value of the set."""
        predicate = self.predicates.get(values)
        if predicate is None:
            predicate = self.predicates[values] = Predicate(values)
            if predicate.is_interval:
                self.classes.setdefault(predicate.low[0], PredicateClasses(self.dynamic)).add(predicate)
            else:
                self.rest[values] = predicate
        predicate.rows.add(row)

    def remove(self, values: IntervalSet, row: int) -> None:
        """Forget a row, and the predicate with its last row."""
        predicate = self.predicates[values]
        predicate.rows.discard(row)
        if predicate.rows:
            return
        del self.predicates[values]
        if predicate.is_interval:
            kind = predicate.low[0]
            self.classes[kind].remove(predicate)
            if not self.classes[kind].size:
                del self.classes[kind]
        else:
            del self.rest[values]

    def groups(self) -> list[PredicateGroup]:
        """The groups that have members."""
        return [group for classes in self.classes.values() for group in classes.groups if group]

    def check(self) -> None:
        """Assert the invariants."""
        for classes in self.classes.values():
            classes.check()
        held = {values for group in self.groups() for values in group} | self.rest.keys()
        assert held == self.predicates.keys()
        assert all(predicate.rows for predicate in self.predicates.values())
