"""Rows: the conjunctions of a matcher as flat arrays of rank intervals, equal ones once, ready to be laid out.

A row is a conjunction; its items are its constraints, sorted by attribute: (ATTR, KIND, LOW, HIGH) in one int32
matrix. An EQUAL or RANGE item is the interval LOW..HIGH of ranks; any other kind is a set of several intervals, and
LOW is the number of the set. Only plain constraints (values to pick from) have such a form.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from numba import njit

from whimbrel.language.columnar import ShapeGroup, Term
from whimbrel.matchers._coding import Codes, Coding, Int32s, Int64s, Ranks, Span
from whimbrel.matchers.fragment import shape_of
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.constraint import Constraint
from whimbrel.model.values import BOOLEAN, TYPE_NAMES

Cells = TypeVar("Cells", Int32s, Int64s)

ATTR, KIND, LOW, HIGH = 0, 1, 2, 3
EQUAL, RANGE, POINTS, OTHERS, SET = 0, 1, 2, 3, 4
"""Kinds: one constant; one interval; several constants (IN); all but some constants (!=); several intervals."""

GONE = np.iinfo(np.int64).min
"""The owner of a row that is to be left out."""


@dataclass(frozen=True, slots=True)
class Rows:
    """m different conjunctions with k items and s sets; `owner` says whose they are."""

    codes: Codes
    start: Int64s  # [m + 1]: the items of each row
    items: Int32s  # [k, 4]
    set_start: Int64s  # [s + 1]: the intervals of each set
    set_low: Int32s
    set_high: Int32s
    owner_start: Int64s  # [m + 1]
    owner: Int64s
    first: Int32s  # [attributes, 5]: the first rank of each type, and the count of ranks

    def __len__(self) -> int:
        return len(self.start) - 1

    def item_rows(self) -> Int64s:
        """The row of each item."""
        return np.repeat(np.arange(len(self)), np.diff(self.start))


class RowsBuilder:
    """Collects rows from conjunctions and from columns of literals."""

    def __init__(self, conjunctions: Iterable[tuple[int, Conjunction]], groups: Sequence[tuple[Int64s, ShapeGroup]]):
        """Take (owner, conjunction) pairs, and groups with the owners of their rows."""
        loose = list(conjunctions)
        coding = Coding()
        for _, conjunction in loose:
            coding.add(conjunction)
        for _, group in groups:
            _add_constants(coding, group)
        self.codes = coding.codes()
        self._owners: list[Int64s] = []
        self._lengths: list[Int64s] = []
        self._items: list[Int32s] = []
        self._sets: list[tuple[Int64s, Int32s, Int32s]] = []
        self._set_count = 0
        for owners, group in groups:
            for terms in group.shape.conjunctions:
                loose += self._add_group(owners, group, terms)
        self._add_loose(loose)

    def _add_loose(self, pairs: Sequence[tuple[int, Conjunction]]) -> None:
        items: list[tuple[int, int, int, int]] = []
        spans: list[list[Span]] = []
        for _, conjunction in pairs:
            for name, constraint in conjunction.constraints:
                attr = self.codes.numbers[name]
                kind, found = _spans(self.codes.ranks[attr], constraint)
                if len(found) == 1:
                    items.append((attr, kind, *found[0]))
                else:
                    items.append((attr, kind, self._set_count + len(spans), 0))
                    spans.append(found)
        if pairs:
            self._owners.append(np.array([owner for owner, _ in pairs], dtype=np.int64))
            self._lengths.append(np.array([len(c.constraints) for _, c in pairs], dtype=np.int64))
            self._items.append(np.array(items, dtype=np.int32).reshape(-1, 4))
        if spans:
            flat = np.array([span for found in spans for span in found], dtype=np.int32)
            lengths = np.array([len(found) for found in spans], dtype=np.int64)
            self._put_sets(lengths, flat[:, 0], flat[:, 1])

    def _add_group(self, owners: Int64s, group: ShapeGroup, terms: Sequence[Term]) -> list[tuple[int, Conjunction]]:
        """Adds the rows of one conjunction of a shape; returns those that name a constant twice, to be added alone."""
        size = len(owners)
        items = np.zeros((size, len(terms), 4), dtype=np.int32)
        good = owners != GONE
        repeats = np.zeros(size, dtype=np.bool_)
        ordered = sorted(terms, key=lambda term: self.codes.numbers[term.attribute])
        for place, term in enumerate(ordered):
            attr = self.codes.numbers[term.attribute]
            ranks = self.codes.ranks[attr]
            item = items[:, place]
            item[:, ATTR] = attr
            if term.kind == "range":
                _range_items(ranks, group, term, item)
                good &= item[:, LOW] <= item[:, HIGH]
                continue
            points = np.sort(np.stack([_operand_ranks(ranks, group, term, i) for i in range(len(term.operands))], 1))
            repeats |= (points[:, 1:] == points[:, :-1]).any(axis=1)
            if term.kind == "points" and points.shape[1] == 1:
                item[:, LOW] = item[:, HIGH] = points[:, 0]
                continue
            item[:, KIND] = POINTS if term.kind == "points" else OTHERS
            item[:, LOW] = self._set_count + np.arange(size)
            low, high = (points, points) if term.kind == "points" else _complement(points, ranks.count)
            self._put_sets(np.full(size, low.shape[1], dtype=np.int64), low.ravel(), high.ravel())
        alone = np.flatnonzero(good & repeats)
        good &= ~repeats
        self._owners.append(owners[good])
        self._lengths.append(np.full(int(good.sum()), len(terms), dtype=np.int64))
        self._items.append(items[good].reshape(-1, 4))
        return [(int(owners[i]), c) for i in alone for c in group.filter(int(i)).conjunctions]

    def _put_sets(self, lengths: Int64s, low: Int32s, high: Int32s) -> None:
        self._sets.append((lengths, low, high))
        self._set_count += len(lengths)

    def rows(self) -> Rows:
        """Everything collected, equal sets and equal rows as one."""
        owner = _joined(self._owners, np.int64)
        items = np.concatenate(self._items) if self._items else np.zeros((0, 4), dtype=np.int32)
        start = offsets(_joined(self._lengths, np.int64))
        set_start = offsets(_joined([lengths for lengths, _, _ in self._sets], np.int64))
        spans = np.stack(
            [_joined([s[1] for s in self._sets], np.int32), _joined([s[2] for s in self._sets], np.int32)], 1
        )
        group, keep = unique_runs(set_start, spans)
        is_set = items[:, KIND] >= POINTS
        items[is_set, LOW] = group[items[is_set, LOW]]
        set_start, spans = take_runs(set_start, spans, keep)
        group, keep = unique_runs(start, items)
        start, items = take_runs(start, items, keep)
        order = np.argsort(group, kind="stable")
        return Rows(
            self.codes,
            start,
            items,
            set_start,
            np.ascontiguousarray(spans[:, 0]),
            np.ascontiguousarray(spans[:, 1]),
            offsets(np.bincount(group, minlength=len(keep))),
            owner[order],
            np.array([ranks.first for ranks in self.codes.ranks], dtype=np.int32).reshape(-1, 5),
        )


def offsets(lengths: npt.NDArray[Any]) -> Int64s:
    """Where each of the runs of these lengths starts, and where the last one ends."""
    out = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=out[1:])
    return out


def unique_runs(start: Int64s, cells: Int32s) -> tuple[Int64s, Int64s]:
    """For runs of rows of a matrix: the group of equal runs that each is in, and the first run of each group."""
    hashes = _run_hashes(start, cells)
    order = np.argsort(hashes, kind="stable")
    leader: Int64s = _leaders(order, hashes, start, cells)
    keep, group = np.unique(leader, return_inverse=True)
    return group.astype(np.int64), keep


def take_runs(start: Int64s, cells: Cells, keep: Int64s) -> tuple[Int64s, Cells]:
    """The runs of these numbers, one after the other."""
    lengths = np.diff(start)[keep]
    fresh = offsets(lengths)
    index = np.repeat(start[keep] - fresh[:-1], lengths) + np.arange(fresh[-1])
    return fresh, cells[index]


@njit(cache=True)
def _run_hashes(start: Int64s, cells: Int32s) -> npt.NDArray[np.uint64]:  # pragma: no cover
    out = np.empty(start.size - 1, dtype=np.uint64)
    for run in range(out.size):
        mixed = np.uint64(0x9E3779B97F4A7C15)
        for row in range(start[run], start[run + 1]):
            for column in range(cells.shape[1]):
                mixed = (mixed ^ np.uint64(cells[row, column])) * np.uint64(0xBF58476D1CE4E5B9)
                mixed ^= mixed >> np.uint64(29)
        out[run] = mixed
    return out


@njit(cache=True)
def _leaders(order: Int64s, hashes: npt.NDArray[np.uint64], start: Int64s, cells: Int32s) -> Int64s:  # pragma: no cover
    """The first run that equals each run; runs whose hashes collide may stay apart, which costs space only."""
    out = np.empty(order.size, dtype=np.int64)
    leader = -1
    for place in range(order.size):
        run = order[place]
        same = leader >= 0 and hashes[leader] == hashes[run]
        if same:
            size = start[run + 1] - start[run]
            same = start[leader + 1] - start[leader] == size
            row = 0
            while same and row < size:
                for column in range(cells.shape[1]):
                    same = same and cells[start[leader] + row, column] == cells[start[run] + row, column]
                row += 1
        if not same:
            leader = run
        out[run] = leader
    return out


def _joined(parts: Sequence[npt.NDArray[Any]], dtype: type[np.generic]) -> npt.NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=dtype)


def _spans(ranks: Ranks, constraint: Constraint) -> tuple[int, list[Span]]:
    """The kind of a plain constraint and its intervals of ranks."""
    values = constraint.values
    points = values.as_points()
    if points is not None:
        found = [(ranks.rank(key), ranks.rank(key)) for key in points]
        return (EQUAL if len(found) == 1 else POINTS), found
    others = values.complement().as_points() if shape_of(constraint) == "exclusions" else None
    if others:
        low, high = _complement(np.array([[ranks.rank(key) for key in others]], dtype=np.int32), ranks.count)
        return OTHERS, list(zip(low[0].tolist(), high[0].tolist(), strict=True))
    found = ranks.spans(values)
    return (RANGE if len(found) == 1 else SET), found


def _complement(points: Int32s, count: int) -> tuple[Int32s, Int32s]:
    """The intervals between sorted constants, for each row of a matrix; never empty, as constants have odd ranks."""
    low = np.zeros((len(points), points.shape[1] + 1), dtype=np.int32)
    high = np.full_like(low, count - 1)
    low[:, 1:] = points + 1
    high[:, :-1] = points - 1
    return low, high


def _operand_ranks(ranks: Ranks, group: ShapeGroup, term: Term, index: int) -> Int32s:
    operand = term.operands[index]
    if operand.slot is None:
        return np.full(len(group.rows), ranks.rank((BOOLEAN, bool(operand.value))), dtype=np.int32)
    return ranks.constants(TYPE_NAMES.index(group.shape.slot_types[operand.slot]), group.columns[operand.slot])


def _range_items(ranks: Ranks, group: ShapeGroup, term: Term, item: Int32s) -> None:
    """Fills in a range of each row, as EQUAL where it is one constant."""
    bound = term.lower or term.upper
    assert bound is not None and bound.slot is not None
    kind = TYPE_NAMES.index(group.shape.slot_types[bound.slot])
    item[:, LOW], item[:, HIGH] = ranks.first[kind], ranks.first[kind + 1] - 1
    if term.lower is not None and term.lower.slot is not None:
        item[:, LOW] = ranks.constants(kind, group.columns[term.lower.slot]) + (not term.lower_inclusive)
    if term.upper is not None and term.upper.slot is not None:
        item[:, HIGH] = ranks.constants(kind, group.columns[term.upper.slot]) - (not term.upper_inclusive)
    constant = (item[:, LOW] == item[:, HIGH]) & ((item[:, LOW] - ranks.first[kind]) % 2 == 1)
    item[:, KIND] = np.where(constant, EQUAL, RANGE)


def _add_constants(coding: Coding, group: ShapeGroup) -> None:
    for terms in group.shape.conjunctions:
        for term in terms:
            coding.add_column(term.attribute, BOOLEAN, ())
            for operand in (*term.operands, term.lower, term.upper):
                if operand is not None and operand.slot is not None:
                    kind = TYPE_NAMES.index(group.shape.slot_types[operand.slot])
                    coding.add_column(term.attribute, kind, group.columns[operand.slot])
