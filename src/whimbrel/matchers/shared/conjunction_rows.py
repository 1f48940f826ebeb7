"""Rows: the conjunctions of a compiled matcher as flat arrays of rank intervals, equal ones once.

A row is a conjunction. Its items are its constraints, sorted by attribute: (ATTR, KIND, LOW, HIGH) in one int32 matrix.
Some value of the attribute must be in each item. An attribute has one item for the value that a binding picks, and one
for each CONTAINS, which another value may satisfy. A comparison of two attributes is an item of a derived attribute, as
in `whimbrel.ranks.links`.
An EQUAL or RANGE item is the interval LOW..HIGH of ranks. A POINTS or SET item is a set of several intervals, and LOW
is the number of the set. Ranks and intervals come from `whimbrel.ranks.clauses`. What is added here is what the papers'
loops need: items in order of attributes, rows that are different from each other, and the owners of each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.compiled.jit import inlined
from whimbrel.language.columnar.terms import Conjunctions
from whimbrel.matchers.shared.event_ranks import EventGrid
from whimbrel.matchers.shared.runs import offsets, take_runs, unique_runs
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.constraint import Constraint
from whimbrel.model.intervals import IntervalSet
from whimbrel.ranks.clauses.clauses import Clauses
from whimbrel.ranks.clauses.column_source import ColumnSource
from whimbrel.ranks.clauses.compiler import ClauseItems, IntervalSets, Source, attribute_number, compile_clauses
from whimbrel.ranks.dictionary import Dictionary, derived_key
from whimbrel.ranks.dictionary_builder import Constants
from whimbrel.ranks.links import ALL_ORDERS, link_values

ATTR, KIND, LOW, HIGH = 0, 1, 2, 3

EQUAL, RANGE, POINTS, SET = 0, 1, 2, 3
"""Kinds of items: one constant; one interval; several constants (IN); several intervals (!=, OR on one attribute)."""

GONE = np.iinfo(np.int32).min
"""The owner of a row that is to be left out."""


class SetArrays(NamedTuple):
    """s sets of ranks, each of several intervals."""

    start: Int64s  # [s + 1]: the intervals of each set
    low: Int32s
    high: Int32s


@dataclass(frozen=True, slots=True)
class ConjunctionRows:
    """m different conjunctions with k items; `owner` says whose they are."""

    dictionary: Dictionary  # of the constants; attributes are numbered in the order of their names
    start: Int64s  # [m + 1]: the items of each row
    items: Int32s  # [k, 4]
    sets: SetArrays
    owner_start: Int64s  # [m + 1]
    owner: Int64s

    def __len__(self) -> int:
        return len(self.start) - 1

    def item_rows(self) -> Int64s:
        """The row of each item."""
        return np.repeat(np.arange(len(self)), np.diff(self.start))


def compile_rows(
    conjunctions: Sequence[tuple[int, Conjunction]], bulk: Sequence[Conjunctions], owners: Int32s
) -> ConjunctionRows:
    """The rows of (owner, conjunction) pairs and of conjunctions in columns, whose row r is owned by `owners[r]`.

    Constraints must be values to pick from and members to contain, without patterns, NOT CONTAINS or tests for null.
    The constants of a derived attribute are all five values, so that each has a rank of its own.
    """
    names = {name for _, conjunction in conjunctions for name in conjunction.attributes}
    names |= {group.term.attribute for one in bulk for group in one.groups}
    sources: list[Source] = [_ConjunctionSource(sorted(names), conjunctions)]
    if bulk:
        sources.append(ColumnSource(bulk, owners))
    clauses = compile_clauses(sources)
    first = clauses.dictionary.rank_base
    start, items, owner = _live_rows(clauses)
    lengths = np.append(np.diff(clauses.set_start), 0)
    alone = np.flatnonzero((items[:, KIND] != 0) & (lengths[np.where(items[:, KIND] != 0, items[:, LOW], 0)] == 1))
    spans = clauses.set_start[items[alone, LOW]]  # IN with one value that is written twice
    items[alone, KIND], items[alone, LOW], items[alone, HIGH] = 0, clauses.set_low[spans], clauses.set_high[spans]
    items[:, KIND] = _kinds(clauses, items, first)
    items[items[:, KIND] >= POINTS, HIGH] = 0
    group, keep = unique_runs(start, items)
    start, items = take_runs(start, items, keep)
    return ConjunctionRows(
        clauses.dictionary,
        start,
        items,
        SetArrays(clauses.set_start, clauses.set_low, clauses.set_high),
        offsets(np.bincount(group, minlength=len(keep))),
        owner[np.argsort(group, kind="stable")].astype(np.int64),
    )


class _ConjunctionSource:
    """Numbers the attributes in the order of their names, and gives the items of single conjunctions.

    Unlike `FilterSource` it keeps points as their own ranks: the least and the greatest value of a type, such as FALSE
    and '', share an interval with ranks that no value has.
    """

    def __init__(self, names: Sequence[str], conjunctions: Sequence[tuple[int, Conjunction]]) -> None:
        self._names = names
        self._conjunctions = conjunctions
        self.always = np.empty(0, np.int32)

    def constants(self, attributes: dict[str, int], gathered: list[Constants]) -> None:
        """Number the attributes and give the constants."""
        for name in self._names:
            attribute_number(name, attributes, gathered)
        for _, conjunction in self._conjunctions:
            for name, constraint in conjunction.constraints:
                for values in needed_sets(constraint):
                    gathered[attributes[name]].add(values)
        for link in {link for _, conjunction in self._conjunctions for link in conjunction.links}:
            number = attribute_number(derived_key(link.left, link.right), attributes, gathered)
            gathered[number].add(ALL_ORDERS)

    def parts(self, dictionary: Dictionary, sets: IntervalSets) -> list[ClauseItems]:
        """The items of all conjunctions; called once the dictionary of ranks exists."""
        found: list[tuple[int, int, int, int]] = []
        owner, counts = [owner for owner, _ in self._conjunctions], list[int]()
        for _, conjunction in self._conjunctions:
            before = len(found)
            for name, constraint in conjunction.constraints:
                attr = dictionary.attributes[name]
                for values in needed_sets(constraint):
                    spans = _spans(dictionary, attr, values)
                    found.append(_item(attr, spans, sets))
            for link in conjunction.links:
                attr = dictionary.attributes[derived_key(link.left, link.right)]
                found.append(_item(attr, _spans(dictionary, attr, link_values(link.op)), sets))
            counts.append(len(found) - before)
        columns = np.ascontiguousarray(np.array(found, np.int32).reshape(-1, 4).T)
        flags = np.zeros(len(owner), np.uint8)
        return [ClauseItems(np.array(owner, np.int32), flags, np.array(counts, np.int64), *columns)]


def _item(attr: int, spans: list[tuple[int, int]], sets: IntervalSets) -> tuple[int, int, int, int]:
    """The item of an attribute whose ranks are in these intervals."""
    return (attr, 1, sets.add(tuple(spans)), 0) if len(spans) > 1 else (attr, 0, *spans[0])


def needed_sets(constraint: Constraint) -> list[IntervalSet]:
    """The sets in each of which an attribute needs a value: the set to pick from, then one for each CONTAINS."""
    members = sorted((IntervalSet.points(group) for group in constraint.required), key=lambda one: one.cuts)
    if not constraint.bound or constraint.values in members:
        return members
    return [constraint.values, *members]


def _spans(dictionary: Dictionary, attr: int, values: IntervalSet) -> list[tuple[int, int]]:
    """The rank intervals of a set of values."""
    rank = dictionary.lookup(attr).rank
    points = values.as_points()
    if points is not None:
        return [(rank(key), rank(key)) for key in points]
    others = values.complement().as_points()
    if others:
        excluded = [rank(key) for key in others]
        begins, ends = [dictionary.base(attr, 0) - 1, *excluded], [*excluded, dictionary.base(attr, 4)]
        return [(begin + 1, end - 1) for begin, end in zip(begins, ends, strict=True)]
    return dictionary.spans(attr, values)


def _live_rows(clauses: Clauses) -> tuple[Int64s, Int32s, Int32s]:
    """Starts, items and owners of the conjunctions that are not gone, items in order of attributes."""
    start = clauses.start
    items = np.stack([clauses.attr, clauses.kind, clauses.low, clauses.high], axis=1).astype(np.int32, copy=False)
    row = np.repeat(np.arange(len(start) - 1), np.diff(start))
    if np.any((row[1:] == row[:-1]) & (clauses.attr[1:] < clauses.attr[:-1])):
        items = items[np.lexsort((clauses.attr, row))]
    live = clauses.row != GONE
    if not live.all():
        start, items = take_runs(start, items, np.flatnonzero(live))
    return start, items, clauses.row[live]


def _kinds(clauses: Clauses, items: Int32s, first: Int32s) -> Int32s:
    """The kind of each item."""
    attr, low = items[:, ATTR], items[:, LOW]
    is_set = items[:, KIND] != 0
    single = ~is_set & (low == items[:, HIGH])
    block = (first[attr, 1:4] <= low[:, None]).sum(axis=1)
    is_constant = (low - first[attr, block]) % 2 == 1  # ranks between constants are even from the start of their type
    is_points = np.ones(len(clauses.set_start), dtype=np.bool_)
    if len(clauses.set_low):
        points = clauses.set_low == clauses.set_high
        is_points[:-1] = np.logical_and.reduceat(points, clauses.set_start[:-1])
    kinds: Int32s = np.where(single & is_constant, EQUAL, RANGE).astype(np.int32)
    kinds[is_set] = np.where(is_points[low[is_set]], POINTS, SET)
    return kinds


def check_rows(rows: ConjunctionRows) -> None:
    """Assert the invariants of rows: items sorted by attribute, intervals inside the ranks, sets sorted."""
    row = rows.item_rows()
    attribute = rows.items[:, ATTR]
    assert np.all((row[1:] > row[:-1]) | (attribute[1:] >= attribute[:-1]))
    count = rows.dictionary.rank_base[attribute, 4]
    single = rows.items[:, KIND] < POINTS
    low, high = rows.items[single, LOW], rows.items[single, HIGH]
    assert np.all((low >= 1) & (low <= high) & (high < count[single]))
    sets = rows.sets
    assert np.all(rows.items[~single, LOW] < len(sets.start) - 1)
    assert np.all(sets.low <= sets.high)
    inner: npt.NDArray[np.bool_] = np.ones(len(sets.low), dtype=np.bool_)
    inner[sets.start[:-1]] = False
    assert np.all(sets.low[1:][inner[1:]] > sets.high[:-1][inner[1:]])
    assert np.all(np.diff(rows.start) > 0) and np.all(np.diff(rows.owner_start) > 0)


@inlined
def in_set(rank: int, number: int, sets: SetArrays) -> bool:
    """Whether a rank is in one of the intervals of a set."""
    left, right = sets.start[number], sets.start[number + 1]
    while left < right:  # the first interval that ends at or above the rank
        middle = (left + right) >> 1
        if sets.high[middle] < rank:
            left = middle + 1
        else:
            right = middle
    return bool(left < sets.start[number + 1] and sets.low[left] <= rank)


@inlined
def admits(items: Int32s, item: int, rank: int, sets: SetArrays) -> bool:
    """Whether one rank satisfies an item; `MISSING` never does."""
    if items[item, KIND] >= POINTS:
        return bool(in_set(rank, items[item, LOW], sets))
    return bool(items[item, LOW] <= rank <= items[item, HIGH])


@inlined
def admits_some(items: Int32s, item: int, grid: EventGrid, event: int, sets: SetArrays) -> bool:
    """Whether some value of the item's attribute satisfies it, in a block with lists."""
    attribute = items[item, ATTR]
    if admits(items, item, grid.first[event, attribute], sets):
        return True
    cell = event * grid.first.shape[1] + attribute
    place, end = grid.starts[cell], grid.starts[cell + 1]
    while place < end and not admits(items, item, grid.more[place], sets):
        place += 1
    return bool(place < end)
