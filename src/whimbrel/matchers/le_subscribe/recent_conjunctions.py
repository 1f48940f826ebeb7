"""The conjunctions that came since the arrays were built, in a small structure of the same kind that can change.

Le Subscribe, figures 2, 4 and 5: hash tables of equalities, sorted lists of bounds, clusters by key. An add or a remove
touches the entries of one conjunction: a hash table for each predicate, and for an order a place in a sorted list. A
search does and counts the same work as the arrays do, with dictionaries.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import TypeAlias

from whimbrel.matchers.shared.conjunction_rows import needed_sets
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.event import Event
from whimbrel.model.intervals import Cut, IntervalSet, before, edge
from whimbrel.model.values import SortKey

Values: TypeAlias = Mapping[str, list[SortKey]]
"""The values of an event by attribute, without nulls."""


@dataclass
class AttributePredicates:
    """The counted predicates of one attribute, each once, with the numbers of the conjunctions that have it."""

    holders: dict[IntervalSet, set[int]] = field(default_factory=dict)
    _equal: dict[SortKey, IntervalSet] = field(default_factory=dict)
    _lower: list[Cut] = field(default_factory=list)  # of predicates without an upper bound
    _upper: list[Cut] = field(default_factory=list)  # of predicates without a lower bound
    _others: set[IntervalSet] = field(default_factory=set)

    def add(self, values: IntervalSet, number: int) -> None:
        """Note that a conjunction has a predicate."""
        if values not in self.holders:
            self.holders[values] = set()
            key, bounds = values.single(), self._bounds(values)
            if key is not None:
                self._equal[key] = values
            elif bounds is not None:
                insort(*bounds)
            else:
                self._others.add(values)
        self.holders[values].add(number)

    def remove(self, values: IntervalSet, number: int) -> None:
        """Forget that a conjunction has a predicate, and the predicate with its last conjunction."""
        self.holders[values].discard(number)
        if self.holders[values]:
            return
        del self.holders[values]
        key, bounds = values.single(), self._bounds(values)
        if key is not None:
            del self._equal[key]
        elif bounds is not None:
            del bounds[0][bisect_left(*bounds)]
        else:
            self._others.remove(values)

    def _bounds(self, values: IntervalSet) -> tuple[list[Cut], Cut] | None:
        """The list and the bound of a predicate with one bound within a type; None for any other."""
        if len(values.cuts) != 2:
            return None
        low, high = values.cuts
        if high == edge(low[0] + 1) and low != edge(low[0]):
            return self._lower, low
        if low == edge(low[0]) and high != edge(low[0] + 1) and high[0] == low[0]:
            return self._upper, high
        return None

    def satisfied(self, keys: list[SortKey], work: Counter[str]) -> set[IntervalSet]:
        """The predicates that one of the values satisfies."""
        found: set[IntervalSet] = set()
        for key in keys:
            work["probes"] += 1 + bool(self._lower) + bool(self._upper)
            if key in self._equal:
                found.add(self._equal[key])
            first, last = bisect_left(self._lower, edge(key[0])), bisect_right(self._lower, before(key))
            found.update(IntervalSet((cut, edge(key[0] + 1))) for cut in self._lower[first:last])
            first, last = bisect_right(self._upper, before(key)), bisect_left(self._upper, edge(key[0] + 1))
            found.update(IntervalSet((edge(key[0]), cut)) for cut in self._upper[first:last])
            work["predicate_evaluations"] += len(self._others)
            found.update(values for values in self._others if key in values)
        return found


@dataclass
class RecentConjunctions:
    """Conjunctions by number. With `prefer` equalities are looked up by key; with `check` what else a conjunction with
    a key needs is checked where the key is found, otherwise it is counted."""

    prefer: bool
    check: bool
    _predicates: dict[str, AttributePredicates] = field(default_factory=dict)
    _needed: dict[int, int] = field(default_factory=dict)
    _keyed: dict[tuple[str, ...], dict[tuple[SortKey, ...], set[int]]] = field(default_factory=dict)
    _left: dict[int, list[tuple[str, IntervalSet]]] = field(default_factory=dict)  # with a key: what is checked

    def insert(self, number: int, conjunction: Conjunction) -> None:
        """Add a conjunction. O(its predicates), and a place in a sorted list for each bound."""
        key, others = self._split(conjunction)
        if key:
            shape, constants = zip(*key, strict=True)
            self._keyed.setdefault(shape, {}).setdefault(constants, set()).add(number)
            self._left[number] = others if self.check else []
        counted = [] if key and self.check else others
        self._needed[number] = len(counted)
        for name, values in counted:
            self._predicates.setdefault(name, AttributePredicates()).add(values, number)

    def delete(self, number: int, conjunction: Conjunction) -> None:
        """Remove a conjunction."""
        key, others = self._split(conjunction)
        if key:
            shape, constants = zip(*key, strict=True)
            self._keyed[shape][constants].discard(number)
            if not self._keyed[shape][constants]:
                del self._keyed[shape][constants]
            if not self._keyed[shape]:
                del self._keyed[shape]
            del self._left[number]
        for name, values in [] if key and self.check else others:
            self._predicates[name].remove(values, number)
            if not self._predicates[name].holders:
                del self._predicates[name]
        del self._needed[number]

    def _split(self, conjunction: Conjunction) -> tuple[list[tuple[str, SortKey]], list[tuple[str, IntervalSet]]]:
        """The equalities that are looked up, and all other predicates."""
        key, others = list[tuple[str, SortKey]](), list[tuple[str, IntervalSet]]()
        for name, constraint in conjunction.constraints:
            for values in needed_sets(constraint):
                value = values.single() if self.prefer else None
                if value is None:
                    others.append((name, values))
                else:
                    key.append((name, value))
        return key, others

    def search(self, event: Event, work: Counter[str]) -> list[int]:
        """The numbers of the conjunctions that the event satisfies; `work` gains what was done, by counter."""
        values = {name: keys for name in event.attributes if (keys := event.non_null_keys(name))}
        counts: Counter[int] = Counter()
        for name in values.keys() & self._predicates.keys():
            predicates = self._predicates[name]
            for one in predicates.satisfied(values[name], work):
                work["predicates_satisfied"] += 1
                work["additions"] += len(predicates.holders[one])
                counts.update(predicates.holders[one])
        free = {number: count for number, count in counts.items() if number not in self._left}
        found = [number for number, count in free.items() if count == self._needed[number]]
        work["comparisons"] += sum(free.values())
        for number in self._candidates(values, work):
            work["candidates"] += 1
            work["comparisons"] += not self.check
            if counts[number] == self._needed[number] and self._holds(number, values, work):
                found.append(number)
            else:
                work["false_candidates"] += 1
        return found

    def _candidates(self, values: Values, work: Counter[str]) -> Iterable[int]:
        """The conjunctions whose keys the event has, for every combination of its values."""
        for shape, buckets in self._keyed.items():
            if any(name not in values for name in shape):
                continue
            work["probes"] += 1
            if prod(len(values[name]) for name in shape) > len(buckets):
                keys = [k for k in buckets if all(v in values[name] for name, v in zip(shape, k, strict=True))]
            else:
                keys = list(product(*(values[name] for name in shape)))
            for key in keys:
                yield from buckets.get(key, ())

    def _holds(self, number: int, values: Values, work: Counter[str]) -> bool:
        for name, one in self._left[number]:
            work["predicate_evaluations"] += 1
            if not any(key in one for key in values.get(name, ())):
                return False
        return True
